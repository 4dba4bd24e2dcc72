// Package engine is the network mode in which a jail has the network that its engine gives it. The
// namespace stays open: what the engine puts there can be reached, and reach the jail.
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
)

// Mode is the mode; see runtime/network/modes for what its methods are for.
type Mode struct{}

const name = "engine"

// Name is the mode's name in policy.
func (Mode) Name() string { return name }

// Decide takes the namespace that an engine has made ready, or that of a jail which has its
// engine's. Another jail's with less is joined as that jail has it.
func (Mode) Decide(f network.Found) network.Decision {
	switch {
	case f.Pinned, f.Jail && f.Mode == name:
		return network.Decision{Mode: name, Namespace: network.Given}
	case f.Jail:
		return network.Decision{Mode: f.Mode, Namespace: network.Joined}
	}
	return network.Decision{Mode: name, Namespace: network.Own}
}

// Terms let the engine do its work in the namespace.
func (Mode) Terms(network.Decision) network.Terms {
	return network.Terms{
		Gives: "the engine's", Why: "what the engine gives it can be reached, and reach it (policy: network.mode)",
		NoMore:     "not for a jail to have, or of no use to it",
		EngineHook: true, LowPorts: true,
	}
}

// Prepare opens a given namespace, and takes it and the settings for it out of what the delegate is
// told. The settings are made here. Of a namespace that is not given there is nothing to prepare.
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

// open opens the network namespace that a hardened spec names; nil where it names none.
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
	// Looked at again, as it was opened again.
	if hosts, err := seal.IsHosts(f); err != nil || hosts {
		f.Close()
		return nil, fmt.Errorf("the engine's network namespace %s is the host's, or cannot be told from it (%v)", path, err)
	}
	return f, nil
}

// settings takes those for a network namespace out of a spec, by their names below net.
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

// Seal leaves the namespace open, with a ceiling on the connections that the jail makes with itself
// and does not accept. Where the kernel cannot give it, the report names it.
func (Mode) Seal(j network.Jail) (out network.Sealed, err error) {
	ns, err := j.Open()
	if err != nil {
		return out, err
	}
	defer ns.Close()
	if err := seal.BoundWaiting(ns); err != nil {
		out.Changes = append(out.Changes, report.Change{
			Ring: report.Resources, Kind: report.Missing, Field: network.MissingField(seal.SealWaiting), Why: err.Error(),
		})
	}
	return out, nil
}

// Audit reads that ceiling.
func (Mode) Audit(j network.Jail) (network.Audit, error) {
	a := network.Audit{Want: "the engine's", Open: true, Detail: fmt.Sprintf("the engine's, as policy says (network.mode = %q)", name)}
	ns, err := j.Open()
	if err != nil {
		return a, err
	}
	defer ns.Close()
	a.Protections = []network.Finding{network.Finding(seal.VerifyWaiting(ns))}
	return a, nil
}

// Probes are none: what the engine needs of the host is the engine's to say.
func (Mode) Probes() []network.Probe { return nil }
