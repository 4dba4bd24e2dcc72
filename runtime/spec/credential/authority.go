package credential

import "agentjail.dev/runtime/kernel/programs"

// AuthorityFile is the file of a jail's own certificate authority and its key, in the jail's
// directory of state. Only root can read it.
const AuthorityFile = "authority.pem"

// MaxAuthority bounds AuthorityFile, in bytes.
const MaxAuthority = 256 << 10

// Ended returns the hosts to which the helper ends TLS.
func (s Set) Ended() []string {
	var out []string
	for _, name := range s.Names() {
		if c := s[name]; c.Ends() {
			out = append(out, c.Hosts...)
		}
	}
	return out
}

// IssueProgram is the file name of the helper for jails with keys of their own. It lies beside
// agentjail.
const IssueProgram = programs.EgressKeys

// IssueVerb is the command of the helper's program that reads an Order from standard input and
// writes Issued to standard output. Only that program links the code for certificates, which would
// make every start of agentjail's own program a tenth slower.
const IssueVerb = "issue"

// An Order requests keys for one jail.
type Order struct {
	// Authority requests a certificate authority that can sign for these hosts and no others; empty
	// requests none.
	Authority []string `json:"authority,omitempty"`
	// HostKey requests a key by which the jail knows its helper as the server of ssh.
	HostKey bool `json:"hostKey,omitempty"`
}

// Empty reports whether nothing is requested.
func (o Order) Empty() bool { return len(o.Authority) == 0 && !o.HostKey }

// Issued is the answer to an Order. A key that was not requested is empty.
type Issued struct {
	// Authority is a certificate as PEM, and AuthorityPair the same with its key.
	Authority     string `json:"authority,omitempty"`
	AuthorityPair []byte `json:"authorityPair,omitempty"`
	// HostKey is a public key as known_hosts(5) has it, and HostKeyPrivate the private one as PEM.
	HostKey        string `json:"hostKey,omitempty"`
	HostKeyPrivate []byte `json:"hostKeyPrivate,omitempty"`
}

// Answers reports whether every ordered key was issued.
func (i Issued) Answers(o Order) bool {
	return (len(o.Authority) == 0 || i.Authority != "" && len(i.AuthorityPair) > 0) &&
		(!o.HostKey || i.HostKey != "" && len(i.HostKeyPrivate) > 0)
}

// OrderOf returns the order for a jail with these credentials.
func OrderOf(s Set) Order { return Order{Authority: s.Ended(), HostKey: len(s.Servers()) > 0} }
