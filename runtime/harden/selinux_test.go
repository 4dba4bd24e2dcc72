package harden

import (
	"fmt"
	"testing"

	"agentjail.dev/runtime/idmap"
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
