package facts

import (
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/refusal"
	"agentjail.dev/runtime/spec/bundle"
	"agentjail.dev/runtime/spec/policy"
	"agentjail.dev/runtime/state"
)

// TestRefusedUnseen: what is refused before the bundle's files are looked at is
// refused with its code, too.
func TestRefusedUnseen(t *testing.T) {
	g := Gatherer{Store: state.Store{Root: t.TempDir()}, Policy: policy.Default()}
	for code, s := range map[refusal.Code]*specs.Spec{
		refusal.Spec:       {Version: "1.0.2", Process: &specs.Process{Args: []string{"sh"}}},
		refusal.MountCount: {Version: "1.0.2", Root: &specs.Root{Path: t.TempDir()}, Mounts: make([]specs.Mount, g.Policy.Limits.Mounts+1)},
	} {
		_, err := g.Gather("j", &bundle.Bundle{Dir: t.TempDir(), Spec: s})
		if got := refusal.All(err); len(got) != 1 || got[0].Code != code {
			t.Errorf("%s: %v, with the refusals %v", code, err, got)
		}
	}
}
