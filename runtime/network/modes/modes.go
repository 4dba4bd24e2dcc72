// Package modes lists the network modes: none, engine and names.
//
// # The life of a jail's network
//
// Hardening calls Decide and Terms, once. Then the life cycle calls Prepare before the delegate,
// Launch beside it, and Seal before the jail's program runs. Audit is for inspect, Probes for
// check. docs/architecture.md has the steps for a new mode.
package modes

import (
	"os"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/network/engine"
	"agentjail.dev/runtime/network/names"
	"agentjail.dev/runtime/network/none"
	"agentjail.dev/runtime/refusal"
	"agentjail.dev/runtime/spec/network"
	"agentjail.dev/runtime/spec/report"
)

// Mode is one kind of network for jails. Each group of methods has one caller.
type Mode interface {
	// Name returns the mode's name in policy (network.mode).
	Name() string

	// Decide is called for policy's mode. It decides on the namespace that the bundle names, or on
	// a new one. A decision for network.Own means that the named namespace is not joined. Decide
	// and Terms are pure; hardening calls them.
	Decide(network.Found) network.Decision
	// Terms returns the consequences of a decision for the jail's configuration.
	Terms(network.Decision) network.Terms

	// Prepare prepares the network for the delegate before the configuration is written, and may
	// change the configuration. If it returns a namespace, the caller starts the delegate in that
	// namespace and closes the file.
	Prepare(network.Decision, *specs.Spec) (*os.File, error)
	// Launch starts the processes that the jail's network needs outside, while the delegate makes
	// the jail. The jail has no first process yet. After an error the jail is not made.
	Launch(network.Jail) error
	// Seal is called at start, after the engine's set-up and before the jail's program. It can be
	// called again after a failed start. An error stops the start.
	Seal(network.Jail) (network.Sealed, error)

	// Audit reads the state of a running jail's network, for inspect. It changes nothing. An error
	// means that the network cannot be read.
	Audit(network.Jail) (network.Audit, error)

	// Probes returns the host features that the mode needs, for check.
	Probes() []network.Probe
}

// Changing is a mode whose rules can be changed while a jail runs.
type Changing interface {
	// Change applies new rules. After an error the former rules may still be in force.
	Change(network.Jail, network.Rules) (network.Changed, error)
	// Restart starts a new helper for a running jail whose helper has exited. With force it ends a
	// running helper first. The changes are for the jail's report.
	Restart(j network.Jail, force bool) ([]report.Change, error)
}

// Approving is a mode in which names that no rule has can be decided on while a jail runs.
type Approving interface {
	// Approve puts a decision in force, and returns how many connections that ended.
	Approve(network.Jail, network.Approval) (ended int, err error)
	// Waiting returns what waits for a decision.
	Waiting(network.Jail) ([]network.Waiting, error)
	// Attach attaches this process as one that can decide.
	Attach(network.Jail) (network.Attached, error)
}

// all lists the modes. Policy has its own list of the names (policy.NetworkModes), so that it need
// not import the modes. A test compares the two lists.
var all = []Mode{none.Mode{}, engine.Mode{}, names.Mode{}}

// All returns the modes in the order of reports.
func All() []Mode { return all }

// Named returns the mode of a name. It returns a refusal.Error for an unknown name, such as a later
// version's in a jail's record: a jail whose network mode is unknown is not started.
func Named(name string) (Mode, error) {
	for _, m := range all {
		if m.Name() == name {
			return m, nil
		}
	}
	return nil, refusal.New(refusal.Network, "this version has no network mode %q",
		name).WithRemedy("network.mode in the policy, or the version that made the jail")
}
