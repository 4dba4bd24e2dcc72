package main

import (
	"slices"
	"testing"

	"agentjail.dev/runtime/runccli"
)

// TestPeople: the list that agentjail hands over names all commands that this program has beyond
// runc's.
func TestPeople(t *testing.T) {
	var names []string
	for _, c := range ownCommands() {
		names = append(names, c.Name)
	}
	slices.Sort(names)
	if listed := slices.Sorted(slices.Values(runccli.CtlCommands)); !slices.Equal(names, listed) {
		t.Errorf("the commands are %v, the list %v", names, listed)
	}
}
