package credential

// AuthorityFile has a jail's own certificate authority with its key, in the jail's directory of
// state, for root alone.
const AuthorityFile = "authority.pem"

// MaxAuthority bounds it, in bytes.
const MaxAuthority = 256 << 10

// Ended are the hosts to which the helper ends TLS.
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
const IssueProgram = "agentjail-egress-keys"

// IssueVerb has the helper's program make what an Order on its standard input requests, and write
// it, Issued, to its standard output. Certificates are that program's alone: what they take would
// cost every start of agentjail's own program a tenth of its time.
const IssueVerb = "issue"

// An Order is for keys of a jail's own.
type Order struct {
	// Authority requests a certificate authority that can vouch for these hosts and no others;
	// empty is none.
	Authority []string `json:"authority,omitempty"`
	// HostKey requests a key by which the jail knows its helper as the server of ssh.
	HostKey bool `json:"hostKey,omitempty"`
}

// Empty reports that nothing is requested.
func (o Order) Empty() bool { return len(o.Authority) == 0 && !o.HostKey }

// Issued is what an Order was answered by. What was not requested is empty.
type Issued struct {
	// Authority is a certificate as PEM, and AuthorityPair the same with its key.
	Authority     string `json:"authority,omitempty"`
	AuthorityPair []byte `json:"authorityPair,omitempty"`
	// HostKey is a public key as known_hosts(5) has it, and HostKeyPrivate the private one as PEM.
	HostKey        string `json:"hostKey,omitempty"`
	HostKeyPrivate []byte `json:"hostKeyPrivate,omitempty"`
}

// Answers reports whether there is all that was ordered.
func (i Issued) Answers(o Order) bool {
	return (len(o.Authority) == 0 || i.Authority != "" && len(i.AuthorityPair) > 0) && (!o.HostKey || i.HostKey != "" && len(i.HostKeyPrivate) > 0)
}

// OrderOf is for what jails with these credentials need.
func OrderOf(s Set) Order { return Order{Authority: s.Ended(), HostKey: len(s.Servers()) > 0} }
