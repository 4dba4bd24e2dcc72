// Package helperproto is the protocol between the network mode "names" and its egress helper, which
// it starts.
package helperproto

import (
	"net/netip"

	"agentjail.dev/runtime/kernel/programs"
	"agentjail.dev/runtime/network/seal"
	"agentjail.dev/runtime/spec/credential/secret"
	"agentjail.dev/runtime/spec/network"
	"agentjail.dev/runtime/spec/publish"
)

// Program is the helper's file name. It lies beside agentjail.
const Program = programs.Egress

// Descriptors of the helper's process, after the descriptors of every helper (package child).
const (
	LogFD  = 5 // the first of the log's files, for appending
	RootFD = 6 // an empty directory that has been removed
	// ControlFD is a listening Unix socket, for Work and then for Requests.
	ControlFD = 7
	// OtherLogFD is the second of the log's files.
	OtherLogFD = 8
	// ReservedFD is ReservedFile, opened for appending.
	ReservedFD = 9
	// ProgramFD is the helper's program, for an activator.
	ProgramFD = 10
	// LastFD is the last descriptor.
	LastFD = ProgramFD
	// WorkFD is the connection with the Work, for an activated helper.
	WorkFD = 11
)

// Setup is sent to the helper when it starts, as JSON. It has the parameters for dropping
// privileges. The helper then waits for Work.
type Setup struct {
	// UID and GID are the helper's own ids on the host. 0 keeps the ids of its starter, for an
	// unprivileged user's engine, which cannot change ids.
	UID uint32 `json:"uid,omitempty"`
	GID uint32 `json:"gid,omitempty"`
	// Owner is the user whose requests are served: the starter.
	Owner uint32 `json:"owner,omitempty"`
	// Activated reports that the activator has dropped the privileges, received the Work and
	// answered it (package activator).
	Activated bool `json:"activated,omitempty"`
	// Publishes reports that the jail has published ports. They need privileges after the jail
	// exists, so the privileges are dropped only then.
	Publishes bool `json:"publishes,omitempty"`
	// Authorities requests that the helper reads the host's certificate authorities, for
	// credentials.
	Authorities bool `json:"authorities,omitempty"`
}

// ControlSocket is the control socket's name in the jail's directory.
const ControlSocket = "network.sock"

// MaxRequest bounds a Request's text, in bytes.
const MaxRequest = 4 << 20

// The verbs of a Request.
const (
	Rules = "rules" // puts other rules in force
	State = "state" // returns the digest of the rules in force
	// Decide decides on a name that no rule has, and Waiting returns what waits for that.
	Decide  = "decide"
	Waiting = "waiting"
	// Attach keeps the connection open: an Answer, and then a network.Waiting for each connection
	// of the jail that waits for a decision, each in a line. The requester is there to decide as
	// long as the connection is open.
	Attach = "attach"
)

// MaxLine bounds a line that the helper sends to an attached process, in bytes.
const MaxLine = 1 << 10

// Request is a request of the starter to a running helper, as JSON to the end of the message; one
// per connection.
type Request struct {
	Verb string `json:"verb"`
	// Allow and Deny are as in Work, for Rules.
	Allow []string `json:"allow"`
	Deny  []string `json:"deny,omitempty"`
	// Decision is for Decide.
	Decision *network.Approval `json:"decision,omitempty"`
}

// Answer is the answer to a Request, as JSON.
type Answer struct {
	// Error is the reason of a failure; then nothing has changed.
	Error string `json:"error,omitempty"`
	// Ended is how many connections were ended because their rule is gone.
	Ended int `json:"ended,omitempty"`
	// Digest is the digest of the rules in force (netrules.Set), for State.
	Digest string `json:"digest,omitempty"`
	// Unserved are ports of the rules at which a helper of the way Listeners does not listen.
	Unserved []uint16 `json:"unserved,omitempty"`
	// Waiting is what waits, for Waiting.
	Waiting []network.Waiting `json:"waiting,omitempty"`
}

// ReservedFile, in the jail's directory, records the addresses that wildcard names may have had:
// each line is a number below which all addresses may have been assigned.
const ReservedFile = "network.given"

// Publishes reports whether the jail has published ports.
func (w *Work) Publishes() bool { return len(w.Publish)+len(w.Engine) > 0 }

// MaxWork bounds a Work's text, in bytes.
const MaxWork = 8 << 20

// Work is the helper's task, as JSON. It is sent once to the control socket, to the end of the
// message. Descriptors come with its first byte: a pidfd of the jail's first process, the Sockets,
// and, if Publish or Engine is not empty, the jail's network namespace. The helper replies with an
// Answer.
type Work struct {
	// Sockets are the helper's sockets in the jail.
	Sockets Sockets `json:"sockets"`
	// Allow and Deny are the rules' text (runtime/spec/netrules), without presets.
	Allow []string `json:"allow"`
	Deny  []string `json:"deny,omitempty"`
	// Approval reports that names without a rule can be decided on. Search are the host's search
	// domains (resolv.conf(5)): a name below one of them never waits for a decision.
	Approval bool     `json:"approval,omitempty"`
	Search   []string `json:"search,omitempty"`
	// Attended reports that a process which can decide is going to attach to the helper.
	Attended bool `json:"attended,omitempty"`
	// Pinned are all exact names that this jail's rules have had, in the order in which they got
	// their addresses.
	Pinned []string `json:"pinned,omitempty"`
	// Servers are the name servers to query, as ADDRESS:PORT.
	Servers []string `json:"servers"`
	// Host are the host's own addresses, if the helper is in another network namespace than the
	// host's.
	Host []netip.Addr `json:"host,omitempty"`
	// Ports are the ports that the helper connects from.
	Ports Ports `json:"ports"`
	// Publish are the jail's published ports.
	Publish []publish.Entry `json:"publish,omitempty"`
	// Engine are the ports of the network that the engine has made for the jail, which lead to the
	// same ports of the jail.
	Engine []publish.Range `json:"engine,omitempty"`
	// Reserved is the number of the first free address for wildcard names (package addrpool): those
	// below it may have been assigned.
	Reserved int `json:"given,omitempty"`
	// LogMax bounds the log, in bytes. LogTurn is the index of the current file, and LogSeq the
	// last event's number.
	LogMax  int64  `json:"logMax"`
	LogTurn int    `json:"logTurn,omitempty"`
	LogSeq  uint64 `json:"logSeq,omitempty"`
	// Credentials are the credentials that the jail can use. Only Encode includes their values.
	Credentials []Credential `json:"credentials,omitempty"`
	// Authority is the jail's own certificate authority with its key, as PEM, for terminated TLS.
	// Only Encode includes it.
	Authority secret.Value `json:"-"`
	// HostKey is the key by which the jail recognises the helper as the ssh server, as PEM. Only
	// Encode includes it.
	HostKey secret.Value `json:"-"`
}

// Ports are the ports from First to Last.
type Ports struct {
	First uint16 `json:"first"`
	Last  uint16 `json:"last"`
}

// Sockets describes the descriptors of sockets in the jail that come with a Work (package
// jailsock).
type Sockets struct {
	// In is how many listeners accept the jail's connections.
	In int `json:"in"`
	// Link reports that the descriptor of an sk_lookup program is included, and Raw that of a raw
	// socket for replies.
	Link bool `json:"link,omitempty"`
	Raw  bool `json:"raw,omitempty"`
	// Arrival is the way by which connections arrive.
	Arrival Arrival `json:"arrival"`
}

// The ways by which a jail's connections arrive, the best first.
const (
	SkLookup  = "sk_lookup"
	Redirect  = "nf_tables redirect"
	Listeners = "listeners"
)

// FallbackCost describes the disadvantage of each way but the best.
var FallbackCost = map[string]string{
	Redirect:  "the kernel tracks every connection inside the jail, and does not charge it for that memory",
	Listeners: "only ports that rules name are served, the jail's own servers cannot have those, and UDP to them is not refused",
}

// Arrival describes how a jail's connections arrive. It is recorded when a helper serves, as JSON.
type Arrival struct {
	// Way is the way by which the jail's connections arrive.
	Way string `json:"way"`
	// Why is the reason why no better way could be used, and the ports that this way leaves out.
	Why string `json:"why,omitempty"`
	// Port is the port that a Redirect leads to.
	Port uint16 `json:"port,omitempty"`
	// Moved are the services of 127.0.0.1 whose port a program of the jail had taken when a new
	// helper was started.
	Moved []seal.Service `json:"moved,omitempty"`
}
