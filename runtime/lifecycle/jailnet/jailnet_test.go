package jailnet

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"

	"agentjail.dev/runtime/network/modes"
	"agentjail.dev/runtime/spec/credential"
	"agentjail.dev/runtime/spec/network"
	"agentjail.dev/runtime/spec/policy"
	"agentjail.dev/runtime/state"
)

// TestBriefRules: what the part of a record that start reads states of rules is what the whole record
// states, and nothing once they have changed.
func TestBriefRules(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: the state directory is root's")
	}
	named, err := modes.Named(policy.NetworkNames)
	if err != nil {
		t.Fatal(err)
	}
	n := Networks{Store: state.Store{Root: t.TempDir()}}
	made := func(id string, allow ...string) *state.Jail {
		p := policy.Default()
		p.Network.Mode, p.Network.Allow, p.Network.Servers = policy.NetworkNames, allow, []string{"192.0.2.1"}
		return &state.Jail{Brief: state.Brief{ID: id, Key: state.Key("", id), BootID: state.BootID(), Network: network.Decision{Mode: policy.NetworkNames, Namespace: network.Own}}, Policy: p}
	}
	var many []string
	for i := range 500 {
		many = append(many, fmt.Sprintf("n%d.example.test", i))
	}
	credentials, joined := made("credentials", "a.example.test"), made("joined", "a.example.test")
	credentials.Policy.Credentials = credential.Set{"key": {Hosts: []string{"a.example.test"}}}
	joined.Network.Namespace = network.Joined
	for _, c := range []struct {
		j     *state.Jail
		brief bool
	}{{made("few", "b.example.test:22", "*.a.example.test"), true}, {made("none"), true}, {made("many", many...), false}, {credentials, false}, {joined, false}} {
		t.Run(c.j.ID, func(t *testing.T) {
			var err error
			if c.j.Rules, err = BriefRules(named, c.j); err != nil || (c.j.Rules != nil) != c.brief {
				t.Fatalf("%+v, %v", c.j.Rules, err)
			}
			if err := n.Store.Create(c.j); err != nil {
				t.Fatal(err)
			}
			brief, err := n.Store.Brief(c.j.Key)
			if err != nil || (brief.Rules != nil) != c.brief {
				t.Fatalf("%+v, %v", brief, err)
			}
			got, err := n.rulesOf(brief)
			brief.Rules = nil
			want, werr := n.rulesOf(brief)
			if err := errors.Join(err, werr); err != nil || fmt.Sprint(got) != fmt.Sprint(want) || len(got.Servers) != 1 {
				t.Errorf("%+v, not %+v (%v)", got, want, err)
			}
			if err := n.Store.SaveRules(c.j.Key, state.Rules{Allow: []string{"c.example.test"}, Pinned: []string{"c.example.test"}}); err != nil {
				t.Fatal(err)
			}
			if got, err = n.rulesOf(&c.j.Brief); err != nil || !slices.Equal(got.Allow, []string{"c.example.test:443,80"}) || len(got.Pinned) != 1 {
				t.Errorf("rules that have changed: %+v, %v", got, err)
			}
		})
	}
}
