package state

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"agentjail.dev/runtime/spec/bundle"
	"agentjail.dev/runtime/spec/credential"
)

// TestRules: rules that have changed are in the policy's place, whatever the record states, and are
// never passed over.
func TestRules(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: the state directory is root's")
	}
	s := Store{Root: t.TempDir()}
	j := record("rules")
	j.Policy.Network.Allow, j.Policy.Network.Mode, j.Policy.Network.Servers = []string{"a.example.test", "b.example.test"}, "names", []string{"192.0.2.1"}
	j.Policy.Credentials = credential.Set{"key": {Hosts: []string{"a.example.test"}}}
	if err := s.Create(j); err != nil {
		t.Fatal(err)
	}
	before, err := s.Load(j.Key)
	if err != nil || len(before.Policy.Network.Allow) != 2 || before.Pinned != nil {
		t.Fatalf("%+v, %v", before, err)
	}
	if s.RulesChanged(j.Key) {
		t.Error("rules count as changed that are the policy's")
	}
	r := Rules{Allow: []string{"b.example.test"}, Deny: []string{"c.example.test"}, Pinned: []string{"a.example.test", "b.example.test"}}
	if err := s.SaveRules(j.Key, r); err != nil {
		t.Fatal(err)
	}
	if !s.RulesChanged(j.Key) {
		t.Error("changed rules count as the policy's")
	}
	// A caller that saves what was read before does not undo it.
	if err := s.Save(before); err != nil {
		t.Fatal(err)
	}
	got, err := s.Load(j.Key)
	if err != nil || !slices.Equal(got.Policy.Network.Allow, r.Allow) || !slices.Equal(got.Policy.Network.Deny, r.Deny) || !slices.Equal(got.Pinned, r.Pinned) {
		t.Errorf("%+v, %q, %v", got.Policy.Network, got.Pinned, err)
	}
	part, err := s.Network(j.Key)
	if err != nil || !reflect.DeepEqual(part.Policy.Network, got.Policy.Network) || !reflect.DeepEqual(part.Policy.Credentials, j.Policy.Credentials) || !slices.Equal(part.Pinned, r.Pinned) {
		t.Errorf("alone: %+v, %v", part, err)
	}
	if _, err := s.Network("no-such-jail"); !errors.Is(err, ErrNotFound) {
		t.Errorf("of no jail: %v", err)
	}
	if err := s.SaveRules(j.Key, Rules{Pinned: []string{string(make([]byte, bundle.MaxConfig))}}); err == nil {
		t.Error("rules are recorded that are too long to be read")
	}
	for _, text := range []string{"", "{", `{"allow":"all"}`} {
		if err := os.WriteFile(filepath.Join(s.Dir(j.Key), rulesFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := s.Load(j.Key); err == nil {
			t.Errorf("%q: the policy's rules are taken: %+v", text, got.Policy.Network)
		}
		if got, err := s.Network(j.Key); err == nil {
			t.Errorf("%q: the policy's rules are taken alone: %+v", text, got.Policy.Network)
		}
	}
}
