package modes

import (
	"errors"
	"slices"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/refusal"
	"agentjail.dev/runtime/spec/network"
	"agentjail.dev/runtime/spec/policy"
)

// TestNames: policy takes the names of the modes that there are, and no others.
func TestNames(t *testing.T) {
	var names []string
	for _, m := range All() {
		names = append(names, m.Name())
		if got, err := Named(m.Name()); err != nil || got != m {
			t.Errorf("%s: %v, %v", m.Name(), got, err)
		}
		pol := policy.Default()
		if pol.Network.Mode = m.Name(); pol.Validate() != nil {
			t.Errorf("%s: %v", m.Name(), pol.Validate())
		}
	}
	if !slices.Equal(names, policy.NetworkModes) {
		t.Errorf("modes %v, and policy has %v", names, policy.NetworkModes)
	}
	if !slices.Contains(names, network.Empty) || network.Empty != policy.NetworkNone {
		t.Errorf("%q is not the mode without a network", network.Empty)
	}
	for _, name := range []string{"", "later", "None"} {
		if m, err := Named(name); !errors.Is(err, refusal.Err) || m != nil {
			t.Errorf("%q: %v, %v", name, m, err)
		}
	}
}

// TestDecide: what every mode must do with a namespace.
func TestDecide(t *testing.T) {
	for _, m := range All() {
		own := network.Decision{Mode: m.Name(), Namespace: network.Own}
		// Nothing is named, or a namespace that no jail owns.
		if d := m.Decide(network.Found{}); d != own {
			t.Errorf("%s: %+v for a new one", m.Name(), d)
		}
		if d := m.Decide(network.Found{Jail: true, Mode: network.Empty}); d != (network.Decision{Mode: network.Empty, Namespace: network.Joined}) {
			t.Errorf("%s: %+v for that of a sealed jail", m.Name(), d)
		}
		if d := m.Decide(network.Found{Jail: true, Mode: m.Name()}); d.Namespace == network.Own || d.Mode != m.Name() {
			t.Errorf("%s: %+v for that of a jail of the same mode", m.Name(), d)
		}
		// Without network means without any that a bundle names.
		for _, other := range All() {
			for _, f := range []network.Found{{Pinned: true}, {Jail: true, Mode: other.Name()}} {
				if d := m.Decide(f); m.Name() == network.Empty && d.Mode != network.Empty {
					t.Errorf("%s: %+v for %+v", m.Name(), d, f)
				}
			}
		}
		for _, n := range []network.Namespace{network.Own, network.Joined, network.Given} {
			// The report's text matches the decision, and always has a reason.
			terms := m.Terms(network.Decision{Mode: m.Name(), Namespace: n})
			if terms.NoMore == "" || (terms.Reach == "") != (m.Name() == network.Empty) || (terms.Reach == "") != (terms.Why == "") {
				t.Errorf("%s, %s: %+v", m.Name(), n, terms)
			}
		}
		s := &specs.Spec{Linux: &specs.Linux{Namespaces: []specs.LinuxNamespace{{Type: specs.NetworkNamespace}}, Sysctl: map[string]string{"net.core.somaxconn": "5"}}}
		if f, err := m.Prepare(own, s); f != nil || err != nil || len(s.Linux.Namespaces) != 1 || len(s.Linux.Sysctl) != 1 {
			t.Errorf("%s: prepared %v, %v for a new one: %+v", m.Name(), f, err, s.Linux)
		}
	}
}

// TestProbes: each probe has a name for programs, and reports when it is required.
func TestProbes(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range All() {
		for _, p := range m.Probes() {
			if p.Name == "" || p.What == "" || p.Run == nil || seen[p.Name] || !p.Required(m.Name()) && !p.Required(network.Empty) {
				t.Errorf("%s: %+v", m.Name(), p)
			}
			seen[p.Name] = true
		}
	}
}
