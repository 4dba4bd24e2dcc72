// Package engine is the network mode in which a jail has its engine's network. The namespace stays
// open: the jail and the engine's networks can reach each other.
package engine

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/kernel/namespace"
	"agentjail.dev/runtime/network/seal"
	"agentjail.dev/runtime/spec/network"
	"agentjail.dev/runtime/spec/report"
	"agentjail.dev/runtime/spec/rings"
)

// Mode implements the mode; see runtime/network/modes for its methods.
type Mode struct{}

const name = "engine"

// Name returns the mode's name in policy.
func (Mode) Name() string { return name }

// Decide takes the namespace that an engine has prepared, or the namespace of a jail with its
// engine's network. The namespace of a jail with less is joined as it is.
func (Mode) Decide(f network.Found) network.Decision {
	switch {
	case f.Pinned, f.Jail && f.Mode == name:
		return network.Decision{Mode: name, Namespace: network.Given}
	case f.Jail:
		return network.Decision{Mode: f.Mode, Namespace: network.Joined}
	}
	return network.Decision{Mode: name, Namespace: network.Own}
}

// Terms allow the engine's work in the namespace.
func (Mode) Terms(network.Decision) network.Terms {
	return network.Terms{
		Reach: "the engine's", Why: "the jail and the engine's network reach each other (policy: network.mode)",
		NoMore:     "not for a jail to have, or of no use to it",
		EngineHook: true, LowPorts: true,
	}
}

// Prepare opens a given namespace, and removes the namespace and its settings from the delegate's
// configuration. It makes the settings itself. For other namespaces it does nothing.
func (Mode) Prepare(d network.Decision, s *specs.Spec) (*os.File, error) {
	if d.Namespace != network.Given {
		return nil, nil
	}
	ns, err := open(s)
	if err != nil || ns == nil {
		return nil, err
	}
	if err := seal.Set(ns, settings(s)); err != nil {
		ns.Close()
		return nil, err
	}
	s.Linux.Namespaces = slices.DeleteFunc(s.Linux.Namespaces, isNetwork)
	return ns, nil
}

func isNetwork(n specs.LinuxNamespace) bool { return n.Type == specs.NetworkNamespace }

// open opens the network namespace that a hardened spec names; nil if it names none.
func open(s *specs.Spec) (*os.File, error) {
	i := slices.IndexFunc(s.Linux.Namespaces, isNetwork)
	if i < 0 || s.Linux.Namespaces[i].Path == "" {
		return nil, nil
	}
	path := s.Linux.Namespaces[i].Path
	f, err := namespace.Open(path)
	if err != nil {
		return nil, fmt.Errorf("the engine's network namespace %s: %w", path, err)
	}
	// The namespace was opened again, so it is checked again.
	if hosts, err := seal.IsHosts(f); err != nil || hosts {
		f.Close()
		return nil, fmt.Errorf("the engine's network namespace %s is the host's, or cannot be distinguished from it (%v)", path, err)
	}
	return f, nil
}

// settings removes a network namespace's settings from a spec and returns them by their names below
// net.
func settings(s *specs.Spec) map[string]string {
	out := map[string]string{}
	for _, k := range slices.Sorted(maps.Keys(s.Linux.Sysctl)) {
		if name, ok := strings.CutPrefix(strings.ReplaceAll(k, "/", "."), "net."); ok {
			out[name] = s.Linux.Sysctl[k]
			delete(s.Linux.Sysctl, k)
		}
	}
	return out
}

// Launch has nothing to do: there is no helper.
func (Mode) Launch(network.Jail) error { return nil }

// Seal leaves the namespace open, but limits the connections of the jail to itself that it does not
// accept. If the kernel lacks the limit, the report names it.
func (Mode) Seal(j network.Jail) (out network.Sealed, err error) {
	ns, err := j.Open()
	if err != nil {
		return out, err
	}
	defer ns.Close()
	if err := seal.BoundWaiting(ns); err != nil {
		out.Changes = append(out.Changes, report.Change{
			Ring: rings.Resources, Kind: report.Missing, Field: network.MissingField(seal.SealWaiting), Why: err.Error(),
		})
	}
	return out, nil
}

// Audit reads that limit.
func (Mode) Audit(j network.Jail) (network.Audit, error) {
	a := network.Audit{
		Want: "the engine's", Open: true,
		Detail: fmt.Sprintf("the engine's, as policy sets (network.mode = %q)", name),
	}
	ns, err := j.Open()
	if err != nil {
		return a, err
	}
	defer ns.Close()
	a.Protections = []network.Finding{seal.VerifyWaiting(ns)}
	return a, nil
}

// Probes returns none: the engine checks its own needs.
func (Mode) Probes() []network.Probe { return nil }
