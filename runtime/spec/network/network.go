// Package network has the plain data of a jail's network: the decision on it, and the arguments and
// results of the network modes. The modes themselves are below runtime/network, and
// runtime/network/modes lists them.
//
// Hardening decides once (Decision). Plan and record carry the decision. Every package that deals
// with the network calls the mode that the decision names: hardening calls Terms, the life cycle
// calls Prepare and Seal, inspect calls Audit, check calls Probes. No other code depends on a
// mode's name.
package network

import (
	"errors"
	"fmt"
	"os"
	"time"

	"agentjail.dev/runtime/spec/credential"
	"agentjail.dev/runtime/spec/report"
)

// Decision is the decision on a jail's network.
type Decision struct {
	// Mode is the name of the mode whose network the namespace holds. It differs from the policy's
	// mode if the jail joins a namespace that holds less than policy allows.
	Mode string `json:"mode"`
	// Namespace reports where the network namespace comes from.
	Namespace Namespace `json:"namespace"`
	// Outside is the path of the network namespace that a helper connects from, which the engine
	// has made for the jail. "" is the namespace that the jail is started from.
	Outside string `json:"outside,omitempty"`
	// Hook is the engine's hook for a helper's network namespace (see Terms.HookOutside); nil if
	// the bundle has none.
	Hook *Hook `json:"hook,omitempty"`
}

// Hook is a program in the bundle by which the engine learns of a network namespace (runtime-spec,
// config.md#posix-platform-hooks).
type Hook struct {
	Path string   `json:"path"`
	Args []string `json:"args"` // the first is the program's name
}

// Namespace reports where a jail's network namespace comes from.
type Namespace string

// The origins of a network namespace.
const (
	// Own is a new namespace, made for the jail by the delegate.
	Own Namespace = "own"
	// Joined is another jail's namespace, which the delegate joins. The jail shares the user
	// namespace that owns it.
	Joined Namespace = "joined"
	// Given is a namespace that existed before the jail and that another user namespace than the
	// jail's may own. A delegate that has entered the jail's user namespace could not join it, so
	// the delegate is started inside.
	Given Namespace = "given"
)

// Empty is the mode of a namespace that holds nothing but lo. It is the default for a namespace of
// unknown mode, since its jails are sealed.
const Empty = "none"

// Found describes the network namespace that a bundle requests. The zero value means a new
// namespace, or one that no jail may join: the host's, or that of a process outside all jails.
type Found struct {
	// Jail reports that the namespace belongs to a jail, whose network has that Mode.
	Jail bool
	Mode string
	// Pinned reports that the namespace is not the host's, that no jail is in it, and that a file
	// keeps it (ip-netns(8), CNI). Only root can make such a file.
	Pinned bool
	// Path is the namespace's path in the bundle.
	Path string
}

// Terms are the consequences of a decision for a jail's configuration.
type Terms struct {
	// Reach and Why are the report's text on where the network leads; "" if it leads nowhere.
	Reach, Why string
	// NoMore is the report's reason for refusing any other network or kernel setting.
	NoMore string
	// EngineHook keeps the hook by which an engine learns of the namespace, to put its interface
	// there.
	EngineHook bool
	// HookOutside moves that hook from the bundle to the decision. The hook then runs for a
	// helper's namespace in place of the jail's.
	HookOutside bool
	// LowPorts lets programs bind ports below 1024 if the bundle has CAP_NET_BIND_SERVICE.
	LowPorts bool
	// CopyNames mounts copies of the engine's network files (resolv.conf, hosts, hostname), since
	// the jail needs no later change of them.
	CopyNames bool
	// OnlyLoopback has the init step check that nothing but lo has an address or a route.
	OnlyLoopback bool
	// Served reports that the network's sockets are those of its namespace: a helper listens there.
	// A sandboxed jail then has the host's sockets of that namespace.
	Served bool
	// Resolver is the jail's /etc/resolv.conf, in place of the engine's; "" keeps the engine's.
	Resolver string
	// ByRules reports that policy's rules (network.allow, network.deny) limit the network. The
	// report lists each rule.
	ByRules bool
	// SpareID reserves one of the jail's host ids for a helper.
	SpareID bool
}

// Jail describes an existing jail to a mode.
type Jail struct {
	Decision Decision
	// OutsideDev and OutsideIno identify the namespace at Decision.Outside, if the engine has put
	// its network there after the decision; else 0.
	OutsideDev, OutsideIno uint64
	// Open opens the jail's network namespace.
	Open func() (*os.File, error)
	// FilterRequired reports policy's network.filter = "required".
	FilterRequired bool
	// Dir is the jail's directory of state, and Key the jail's name there.
	Dir, Key string
	// InitPid is the jail's first process. Started reports that its program was started.
	InitPid int
	Started bool
	// HelperID is the host's user and group id for a helper; 0 keeps the ids of its starter.
	HelperID uint32
	// Rules reads the rules of this jail's policy. Serving reads those of the jail whose helper
	// serves a Joined namespace.
	Rules, Serving func() (Rules, error)
	// Attended reports whether a process attaches to jails as they come, to decide on names. It
	// may be nil.
	Attended func() bool
}

// Sealed is the result of sealing a jail's network.
type Sealed struct {
	// Changes are for the jail's report. They are valid after an error, too.
	Changes []report.Change
	// Serves waits until the helper acknowledges that it serves the network. The jail's program is
	// started before that, and its requests wait meanwhile. An error means that the jail reaches
	// nothing. Serves is called once; nil means that there is no helper to wait for.
	Serves func() error
}

// Rules are policy's rules for a network by name, in canonical text with presets expanded.
type Rules struct {
	Mode  string   `json:"mode"` // of the policy
	Allow []string `json:"allow,omitempty"`
	Deny  []string `json:"deny,omitempty"`
	// Pinned are all exact names that the jail's rules have had, in the order of their first use;
	// nil if the rules have never changed.
	Pinned []string `json:"pinned,omitempty"`
	// Servers are the name servers to query, as ADDRESS:PORT; an empty list means the host's.
	Servers []string `json:"servers,omitempty"`
	// Publish are the jail's published ports.
	Publish []string `json:"publish,omitempty"`
	// Approval reports that a name which no rule has can be decided on while the jail waits.
	Approval bool `json:"approval,omitempty"`
	// Credentials have the jail's own placeholders. They are never encoded with the other fields.
	Credentials credential.Set `json:"-"`
}

// Size returns the length of the rules' texts, in bytes.
func (r Rules) Size() (n int) {
	for _, list := range [][]string{r.Allow, r.Deny, r.Pinned} {
		for _, text := range list {
			n += len(text)
		}
	}
	return n
}

// Changed is the effect of new rules in a running jail.
type Changed struct {
	// Ended is the number of connections that were ended.
	Ended int
	// Unserved are ports of the rules that only a new helper can serve.
	Unserved []uint16
}

// An Approval is a decision on a name and a port that no rule has, for one jail.
type Approval struct {
	Name  string `json:"name"`
	Port  uint16 `json:"port"`
	Allow bool   `json:"allow,omitempty"`
	// Once limits it to one connection, and For to a time; neither is until the jail's end.
	Once bool          `json:"once,omitempty"`
	For  time.Duration `json:"for,omitempty"`
}

// Target returns NAME:PORT.
func (a Approval) Target() string { return fmt.Sprintf("%s:%d", a.Name, a.Port) }

// Span describes how long a decision holds.
func (a Approval) Span() string {
	switch {
	case a.Once:
		return "once"
	case a.For > 0:
		return "for " + a.For.String()
	}
	return "until the jail's end"
}

// A Waiting is a connection that waits for a decision.
type Waiting struct {
	Name string `json:"name"`
	Port uint16 `json:"port"`
	// Left is how long it goes on to wait, in seconds.
	Left int `json:"left"`
}

// Attached is the connection of a process that can decide for a jail.
type Attached interface {
	// Next waits for the next connection that needs a decision. It returns io.EOF at the end of the
	// jail's helper.
	Next() (Waiting, error)
	// Close ends the attachment, and a call of Next.
	Close() error
}

// MaxFor bounds the time of an Approval.
const MaxFor = 30 * 24 * time.Hour

// ErrNoHelper means that the helper of a jail's network has ended.
var ErrNoHelper = errors.New("its helper has ended, and the jail reaches nothing (remedy: agentjail network restart)")

// Audit is a mode's view of a running jail's network, from outside.
type Audit struct {
	// Want describes the expected state in a few words.
	Want string
	// Open reports that the network is open by design, so that it has no protections. Otherwise a
	// missing protection is a fault.
	Open bool
	// Detail describes the network if every protection holds.
	Detail      string
	Protections []Finding
}

// Finding reports whether one protection holds, and why not.
type Finding struct {
	Name   string `json:"name"`             // of the seal's: one of its constants
	OK     bool   `json:"ok"`               // it holds
	Detail string `json:"detail,omitempty"` // what there is, or why it does not hold
}

// MissingField returns the report's field for a network protection that the kernel lacks. Inspect
// reads the field to excuse its absence.
func MissingField(protection string) string { return "network seal: " + protection }

// Probe is a host feature that a mode needs, for check.
type Probe struct {
	Name string // stable, for programs
	What string // the feature, in a few words
	// Required reports whether the feature is required to start a jail of a mode.
	Required func(mode string) bool
	Run      func() Answer
}

// Answer is the result of a probe. If OK is false, Warn reports that jails start nevertheless, with
// less.
type Answer struct {
	OK, Warn       bool
	Detail, Remedy string
}
