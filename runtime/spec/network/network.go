// Package network holds what was decided of a jail's network, and what network modes are asked and
// answer, as plain data. The modes themselves are the packages beside it, and runtime/network/modes
// lists them.
//
// Hardening decides once (Decision). Plan and record carry the decision, and whoever has to do with
// the network asks the mode that it names: hardening for its Terms, the life cycle to prepare and
// to seal, inspect for an Audit, check for Probes. A mode stands nowhere else by its name.
package network

import (
	"errors"
	"os"

	"agentjail.dev/runtime/spec/credential"
	"agentjail.dev/runtime/spec/report"
)

// Decision is what was decided of a jail's network.
type Decision struct {
	// Mode is the name of the mode whose network the namespace holds. It is not the policy's where
	// another jail's namespace is joined that holds less than policy would give.
	Mode string `json:"mode"`
	// Namespace reports where the network namespace comes from.
	Namespace Namespace `json:"namespace"`
	// Outside is the path of the network namespace that a helper connects from, which the engine
	// has made for the jail. "" is the one that the jail is started from.
	Outside string `json:"outside,omitempty"`
	// Hook is the engine's, for a helper's network namespace; see Terms.HookOutside. nil where the
	// bundle has none.
	Hook *Hook `json:"hook,omitempty"`
}

// Hook is a program of the engine's by which it learns of a network namespace, as a bundle names it
// (runtime-spec, config.md#posix-platform-hooks).
type Hook struct {
	Path string   `json:"path"`
	Args []string `json:"args"` // the first is the program's name
}

// Namespace reports where a jail's network namespace comes from.
type Namespace string

// The origins of a network namespace.
const (
	// Own is made for the jail, by the delegate.
	Own Namespace = "own"
	// Joined is another jail's, which the delegate joins: it shares the user namespace that owns
	// it.
	Joined Namespace = "joined"
	// Given was there before the jail, and another user namespace than the jail's may own it. A
	// delegate that has entered the jail's user namespace could not join it, so it is started
	// inside and knows nothing of it.
	Given Namespace = "given"
)

// Empty is the mode of a namespace that holds nothing but lo. It is assumed of any of which nothing
// else is known, since its jails are sealed.
const Empty = "none"

// Earlier is the decision in the record of a jail that an earlier release made. Such a record has
// two flags in place of the decision: engine, that the namespace holds what the engine puts there,
// and given, that it was there before the jail.
func Earlier(engine, given bool) Decision {
	d := Decision{Mode: Empty, Namespace: Own}
	if engine {
		d.Mode = "engine"
	}
	if given {
		d.Namespace = Given
	}
	return d
}

// Found is what was found out of the network namespace that a bundle wants to join. The zero value
// is one that is to be made, or that is the overflow user's to join: the host's, or that of a
// process that is no jail.
type Found struct {
	// Jail reports that it belongs to a jail, whose network is of that Mode.
	Jail bool
	Mode string
	// Pinned reports that no jail is in it, that it is not the host's, and that it is kept as a
	// file of its own (ip-netns(8), CNI), which takes root to make.
	Pinned bool
	// Path is where the bundle names it.
	Path string
}

// Terms are what a decision means for a jail's configuration.
type Terms struct {
	// Gives and Why are the report's words for what the network reaches; "" is nothing.
	Gives, Why string
	// NoMore is the report's reason for not giving a network, or a kernel setting, beyond that.
	NoMore string
	// EngineHook keeps the hook by which an engine learns of the namespace, to put its interface
	// there.
	EngineHook bool
	// HookOutside takes that hook out of the bundle, and hands it on with the decision: the engine
	// is told of a helper's namespace in place of the jail's.
	HookOutside bool
	// LowPorts lets programs take ports below 1024 where the bundle gave CAP_NET_BIND_SERVICE.
	LowPorts bool
	// CopyNames gives copies of the engine's files about the network (resolv.conf, hosts,
	// hostname): the jail misses nothing where the engine changes them later.
	CopyNames bool
	// OnlyLoopback has the init step check that nothing but lo has an address or a route.
	OnlyLoopback bool
	// Resolver is what /etc/resolv.conf says in the jail, in place of the engine's; "" leaves that
	// as it is.
	Resolver string
	// ByRules reports that policy's rules (network.allow, network.deny) are what the network
	// reaches: the report names each.
	ByRules bool
	// SpareID keeps one of the jail's host ids from the jail, for a helper.
	SpareID bool
}

// Jail is what a mode is told of a jail that is there.
type Jail struct {
	Decision Decision
	// OutsideDev and OutsideIno are those of the namespace at Decision.Outside, where the engine
	// has put its network there after the decision; else 0.
	OutsideDev, OutsideIno uint64
	// Open opens the jail's network namespace.
	Open func() (*os.File, error)
	// FilterRequired is policy's network.filter = "required".
	FilterRequired bool
	// Dir is the jail's directory of state, and Key its name there.
	Dir, Key string
	// InitPid is the jail's first process, and Started says that its program was started.
	InitPid int
	Started bool
	// HelperID is the host's user and group for a helper; 0 is for one that stays what its starter
	// is.
	HelperID uint32
	// Rules reads those of this jail's policy, and Serving those of the jail whose helper serves a
	// namespace that is Joined.
	Rules, Serving func() (Rules, error)
}

// Sealed is what sealing a jail's network came to.
type Sealed struct {
	// Changes are for the jail's report, after an error too.
	Changes []report.Change
	// Serves waits for who serves the network to say that it does, while the jail's program is
	// already started: what that asks meanwhile waits for its answer. An error means that the jail
	// reaches nothing. It is called once; nil is for nothing to wait for.
	Serves func() error
}

// Rules are policy's for a network by name, in their canonical text, without presets.
type Rules struct {
	Mode  string   `json:"mode"` // of the policy
	Allow []string `json:"allow,omitempty"`
	Deny  []string `json:"deny,omitempty"`
	// Pinned are the exact names of the jail's rules so far, in the order in which they were first
	// there; nil where they have never changed.
	Pinned []string `json:"pinned,omitempty"`
	// Servers are the name servers to ask, as ADDRESS:PORT; none are the host's.
	Servers []string `json:"servers,omitempty"`
	// Publish are the jail's ports that can be connected to from outside.
	Publish []string `json:"publish,omitempty"`
	// Credentials have the jail's own placeholders. They are never written with the rest.
	Credentials credential.Set `json:"-"`
}

// Size is how many bytes the texts of rules for names have.
func (r Rules) Size() (n int) {
	for _, list := range [][]string{r.Allow, r.Deny, r.Pinned} {
		for _, text := range list {
			n += len(text)
		}
	}
	return n
}

// Changed is what other rules have done in a running jail.
type Changed struct {
	// Ended connections were ended.
	Ended int
	// Unserved ports are of the rules, and reached by a new helper alone.
	Unserved []uint16
}

// ErrNoHelper means that the helper of a jail's network has ended.
var ErrNoHelper = errors.New("its helper has ended, and the jail reaches nothing (remedy: agentjail network restart)")

// Audit is what a mode sees of a running jail's network, from outside.
type Audit struct {
	// Want says in some words what is to hold.
	Want string
	// Open reports that the network is left open, so that there are no protections; else having
	// none is a fault.
	Open bool
	// Detail is what there is, where all holds.
	Detail      string
	Protections []Finding
}

// Finding reports whether one protection holds, and why not.
type Finding struct {
	Name   string
	OK     bool
	Detail string
}

// MissingField is the field under which the report names a protection of the network that the
// kernel could not give. Inspect looks there for what is excused.
func MissingField(protection string) string { return "network seal: " + protection }

// Probe is something that a mode needs of the host, for check.
type Probe struct {
	Name string // stable, for programs
	What string // the feature, in a few words
	// Required reports whether no jail starts without it, where policy's mode is this.
	Required func(mode string) bool
	Run      func() Answer
}

// Answer is what a probe found out. Warn says of one that is not OK that jails start all the same,
// with less.
type Answer struct {
	OK, Warn       bool
	Detail, Remedy string
}
