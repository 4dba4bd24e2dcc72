// Package helperproto is what a jail's egress helper is told: the words between the network mode
// that starts it and the program.
package helperproto

import (
	"net/netip"

	"agentjail.dev/runtime/spec/credential"
	"agentjail.dev/runtime/spec/credential/secret"
	"agentjail.dev/runtime/spec/publish"
)

// Program is the helper's file name. It lies beside agentjail.
const Program = "agentjail-egress"

// KeysProgram is that of a helper that ends what the jail speaks, for a credential.
const KeysProgram = credential.IssueProgram

// Descriptors that the helper is given, after those of every helper (runtime/network/helper).
const (
	LogFD  = 5 // the first of the log's files, for appending
	RootFD = 6 // an empty directory that has been removed
	// ControlFD is a listening Unix socket, for Work and then for Requests.
	ControlFD = 7
	// OtherLogFD is the second of the log's files.
	OtherLogFD = 8
	// GivenFD is GivenFile, for appending.
	GivenFD = 9
	// ProgramFD is the helper's program, of one whose activator executes it.
	ProgramFD = 10
	// LastFD is the last of them.
	LastFD = ProgramFD
	// WorkFD is the connection with the Work, of a helper that was activated.
	WorkFD = 11
)

// Setup is what the helper is told when it starts, as JSON: what it needs to know to give up its
// privileges. It then waits for Work.
type Setup struct {
	// UID and GID are the helper's own on the host. 0 keeps those that it was started with, which
	// an engine's user has who can be nobody else.
	UID uint32 `json:"uid,omitempty"`
	GID uint32 `json:"gid,omitempty"`
	// Owner is the user whose requests are served: the starter's own.
	Owner uint32 `json:"owner,omitempty"`
	// Activated reports that its activator has given up its privileges, and has its Work and has
	// answered for it (package activator).
	Activated bool `json:"activated,omitempty"`
	// Publishes reports that the jail has ports that can be connected to from outside. Those take
	// privileges once there is a jail: they are given up only then.
	Publishes bool `json:"publishes,omitempty"`
	// Authorities has it read the host's certificate authorities, for credentials.
	Authorities bool `json:"authorities,omitempty"`
}

// ControlSocket is the control socket's name in the jail's directory.
const ControlSocket = "network.sock"

// MaxRequest bounds a Request's text, in bytes.
const MaxRequest = 4 << 20

// The verbs of a Request.
const (
	Rules = "rules" // puts other rules in force
	State = "state" // asks which are
)

// Request is what the starter asks of a running helper, as JSON to the end of what is sent; one a
// connection.
type Request struct {
	Verb string `json:"verb"` // Rules or State
	// Allow and Deny are as in Work, for Rules.
	Allow []string `json:"allow"`
	Deny  []string `json:"deny,omitempty"`
}

// Answer is the answer to a Request, as JSON.
type Answer struct {
	// Error reports why it was not followed; then nothing has changed.
	Error string `json:"error,omitempty"`
	// Ended is how many connections were ended, whose rule went.
	Ended int `json:"ended,omitempty"`
	// Digest is that of the rules in force (rules.Set), for State.
	Digest string `json:"digest,omitempty"`
	// Unserved are ports of the rules at which a helper with the way Listeners does not listen.
	Unserved []uint16 `json:"unserved,omitempty"`
}

// LogFiles are the log of decisions, lines of Event, in the jail's directory. They are written in
// turns (package journal).
var LogFiles = [2]string{"network.log", "network.log.1"}

// GivenFile, in the jail's directory, reports which addresses names of wildcards may have had so
// far: lines of a number, below which all may have been given.
const GivenFile = "network.given"

// Publishing begins the helper's error where it cannot listen outside.
const Publishing = "publishing "

// What an Event is about.
const (
	Name    = "name"    // a question for a name
	Connect = "connect" // a connection
	End     = "end"     // the end of one
	Publish = "publish" // a connection from outside to a port of the jail's
)

// Publishes reports that the jail has ports that can be connected to from outside.
func (w *Work) Publishes() bool { return len(w.Publish)+len(w.Engine) > 0 }

// MaxWork bounds a Work's text, in bytes.
const MaxWork = 8 << 20

// Work is the helper's task, as JSON, sent once to its control socket, to the end of what is sent.
// Descriptors come with its first byte: a pidfd of the jail's first process, the Sockets, and the
// jail's network namespace where Publish or Engine is not empty. The answer is an Answer.
type Work struct {
	// Sockets are what the helper has inside.
	Sockets Sockets `json:"sockets"`
	// Allow and Deny are the rules' text (runtime/spec/netrules), without presets.
	Allow []string `json:"allow"`
	Deny  []string `json:"deny,omitempty"`
	// Pinned are the exact names of this jail's rules so far, in the order in which they got their
	// addresses.
	Pinned []string `json:"pinned,omitempty"`
	// Servers are the name servers that are asked, as ADDRESS:PORT.
	Servers []string `json:"servers"`
	// Host are the host's own addresses, where the helper is in another network namespace than the
	// host's.
	Host []netip.Addr `json:"host,omitempty"`
	// Ports are those that the helper connects from.
	Ports Ports `json:"ports"`
	// Publish are the jail's ports that can be connected to from outside.
	Publish []publish.Entry `json:"publish,omitempty"`
	// Engine are the ports of the network that the engine has made for the jail, which lead to the
	// same ports of the jail.
	Engine []publish.Range `json:"engine,omitempty"`
	// Given is the first address for a name of a wildcard, by its number (package pool): those
	// before it have been given.
	Given int `json:"given,omitempty"`
	// LogMax bounds the log, in bytes. LogTurn is which of its files is written, and LogSeq the
	// last event's number.
	LogMax  int64  `json:"logMax"`
	LogTurn int    `json:"logTurn,omitempty"`
	LogSeq  uint64 `json:"logSeq,omitempty"`
	// Credentials are those that the jail can use. Encode hands their values on, and nothing else
	// does.
	Credentials []Credential `json:"credentials,omitempty"`
	// Authority is the jail's own certificate authority with its key, as PEM, for TLS that is
	// ended. It is handed on as values are.
	Authority secret.Value `json:"-"`
	// HostKey is the key by which the jail knows the helper as the server of ssh, as PEM. It is
	// handed on as values are.
	HostKey secret.Value `json:"-"`
}

// Ports are those from First to Last.
type Ports struct {
	First uint16 `json:"first"`
	Last  uint16 `json:"last"`
}

// Sockets reports which descriptors of sockets in the jail come with a Work (package arrival).
type Sockets struct {
	// In is how many listeners take the jail's connections.
	In int `json:"in"`
	// Link reports that there is one of a look-up of sockets, and Raw one of a socket that answers
	// by hand.
	Link bool `json:"link,omitempty"`
	Raw  bool `json:"raw,omitempty"`
	// Taken is by which way connections arrive.
	Taken Arrival `json:"taken"`
}

// The ways by which a jail's connections arrive, the best first.
const (
	SkLookup  = "sk_lookup"
	Redirect  = "nf_tables redirect"
	Listeners = "listeners"
)

// FallbackCost reports what a lesser way does not give.
var FallbackCost = map[string]string{
	Redirect:  "the kernel tracks every connection inside the jail, and does not charge it for that memory",
	Listeners: "only ports that rules name are served, the jail's own servers cannot have those, and UDP to them is not refused",
}

// Arrival is how a jail's connections arrive, on record once a helper serves, as JSON.
type Arrival struct {
	// Way is how the jail's connections arrive.
	Way string `json:"way"`
	// Why reports why no better way could be had, and what this one leaves out.
	Why string `json:"why,omitempty"`
	// Port is where a Redirect leads.
	Port uint16 `json:"port,omitempty"`
	// Moved are the services of 127.0.0.1 whose port a program of the jail had taken when this
	// helper began, after another one had ended.
	Moved []Moved `json:"moved,omitempty"`
}

// Moved is a service of the helper's in the jail that listens at another port of 127.0.0.1 than
// programs ask at.
type Moved struct {
	// Protocol is the number of TCP or UDP.
	Protocol uint8 `json:"protocol"`
	// Port is the one that is asked at, and At where the helper listens.
	Port uint16 `json:"port"`
	At   uint16 `json:"at"`
}

// Event is one line of the log, as JSON: a decision about a name or a connection.
type Event struct {
	Seq     uint64 `json:"seq,omitempty"` // each has the next one
	Time    string `json:"time"`          // RFC 3339, UTC
	What    string `json:"what"`          // Name, Connect or End
	Verdict string `json:"verdict"`       // "allowed" or "refused"
	Name    string `json:"name,omitempty"`
	Port    uint16 `json:"port,omitempty"`
	Rule    string `json:"rule,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Remedy  string `json:"remedy,omitempty"`
	Address string `json:"address,omitempty"` // upstream, or of who connects to a published port
	Sent    int64  `json:"sent,omitempty"`    // bytes from the jail
	Got     int64  `json:"got,omitempty"`     // bytes to the jail
	Millis  int64  `json:"ms,omitempty"`
	// Credential names those that were set in a connection's requests, or whose placeholder stood
	// where it does not belong.
	Credential string `json:"credential,omitempty"`
	// Dropped is how many events before this one were too many for the log.
	Dropped int `json:"dropped,omitempty"`
}
