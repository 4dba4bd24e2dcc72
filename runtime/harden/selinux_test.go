package harden

import (
	"fmt"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/kernel/idmap"
	"agentjail.dev/runtime/spec/bindsource"
	"agentjail.dev/runtime/spec/policy"
)

// TestOwnLevel: no two blocks of ids have the same pair of categories, and what
// has no block does not get a block's.
func TestOwnLevel(t *testing.T) {
	seen := map[string]int{}
	for block := range 1 << 16 {
		level := ownLevel(idmap.Map{Block: block}, "x")
		if other, twice := seen[level]; twice || !isPair(level) {
			t.Fatalf("blocks %d and %d have %s", other, block, level)
		}
		seen[level] = block
	}
	others := map[string]bool{}
	for i := range 1000 {
		level := ownLevel(idmap.Map{Block: -1}, fmt.Sprint(i))
		if block, ok := seen[level]; ok || !isPair(level) {
			t.Errorf("container %d has %s, as block %d", i, level, block)
		}
		others[level] = true
	}
	if len(others) < 990 {
		t.Errorf("1000 containers have %d levels", len(others))
	}
}

func TestIsPair(t *testing.T) {
	for level, want := range map[string]bool{
		"s0:c1,c2": true, "s0:c1023,c0": true, "s0:c123,c456": true,
		"": false, "s0": false, "s0:c1": false, "s0:c1,c1": false, "s0:c0.c1023": false, "s0:c1,c2.c5": false, "s0:c1,c2,c3": false,
		"s0-s0:c1,c2": false, "s0:c1,c2-s0:c0.c1023": false, "s1:c1,c2": false, "s0:c1,c1024": false, "s0:c+1,c2": false, "s0:c1, c2": false,
		"s15:c0.c1023": false, "SystemLow": false,
	} {
		if got := isPair(level); got != want {
			t.Errorf("%q: %v", level, got)
		}
	}
}

// TestEngineFilesFollowTheLabel: where the jail's label is not the engine's, the engine's own files get the jail's, and
// its shared memory, whose label is the mount's, is replaced.
func TestEngineFilesFollowTheLabel(t *testing.T) {
	for _, c := range []struct{ label, wantLabel, wantType string }{
		{"", "system_u:object_r:container_file_t:s0:c1,c4", "tmpfs"},
		{"system_u:system_r:container_t:s0:c1,c2", "", "bind"},
	} {
		s := mount(specs.Mount{Destination: "/dev/shm", Type: "bind", Source: "/v/shm", Options: []string{"bind"}})
		s.Process.SelinuxLabel = c.label
		if c.label != "" {
			s.Linux.MountLabel = "system_u:object_r:container_file_t:s0:c1,c2"
		}
		f := testFacts(s)
		f.Host.SELinux, f.Host.ProcessLabel, f.Host.FileLabel = true, processLabel, fileLabel
		f.Sources[2] = &bindsource.Fact{Path: "/v/shm", Kind: bindsource.Dir, Role: bindsource.Injected, Room: 64 << 20}
		res, _, err := Harden(s, policy.Default(), f)
		if err != nil || res.Plan.Label != c.wantLabel || res.Spec.Mounts[2].Type != c.wantType {
			t.Errorf("%q: %q, %+v, %v", c.label, res.Plan.Label, res.Spec.Mounts[2], err)
		}
	}
}
