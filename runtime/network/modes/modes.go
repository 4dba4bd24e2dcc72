// Package modes lists the network modes.
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

// Mode is a way for jails to have a network, or none. Each group of methods serves one user.
type Mode interface {
	// Name is what policy calls it (network.mode).
	Name() string

	// Decide is asked of policy's mode: it decides on a namespace that the bundle names, or on a
	// new one. A decision for network.Own means that the named one is not joined. Decide and Terms
	// are pure; hardening calls them.
	Decide(network.Found) network.Decision
	// Terms report what a decision for this mode means for the jail's configuration.
	Terms(network.Decision) network.Terms

	// Prepare makes ready what the delegate needs of the network, before the configuration is
	// written, and may change the configuration. A namespace that it returns is the one that the
	// delegate is started in, and the caller's to close.
	Prepare(network.Decision, *specs.Spec) (*os.File, error)
	// Launch starts what the jail's network will need outside of it, while the delegate makes the
	// jail: there is no first process yet. An error keeps the jail from being made.
	Launch(network.Jail) error
	// Seal is called at start, when the engine has done its work and the jail's program has not
	// begun; after a failed start it can be called again. An error stops the start.
	Seal(network.Jail) (network.Sealed, error)

	// Audit looks at a running jail's network, for inspect. It changes nothing. Its error is for a
	// network that cannot be looked at.
	Audit(network.Jail) (network.Audit, error)

	// Probes report what the mode needs of a host, for check.
	Probes() []network.Probe
}

// Changing is a mode whose rules can change while a jail runs.
type Changing interface {
	// Change puts other rules in force. After an error the former ones may be in force still.
	Change(network.Jail, network.Rules) (network.Changed, error)
	// Restart starts a running jail's helper anew that has ended, or ends it first by force. The
	// changes are for the jail's report.
	Restart(j network.Jail, force bool) ([]report.Change, error)
}

// all lists the modes. Policy's list of their names (policy.NetworkModes) is data, so that it need
// not know them; a test holds the two against each other.
var all = []Mode{none.Mode{}, engine.Mode{}, names.Mode{}}

// All lists the modes, in the order in which they are to be named.
func All() []Mode { return all }

// Named is the mode of that name. The error, a refusal.Error, is for one that this version does not
// have, such as a later version's in a jail's record: a jail whose network cannot be told is not
// started.
func Named(name string) (Mode, error) {
	for _, m := range all {
		if m.Name() == name {
			return m, nil
		}
	}
	return nil, refusal.New(refusal.Network, "this version has no network mode %q", name).WithRemedy("network.mode in the policy, or the version that made the jail")
}
