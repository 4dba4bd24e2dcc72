package ebpf

import (
	"os/exec"
	"testing"

	"agentjail.dev/tests/env"
)

// child is a process's only child whose first argument is verb.
func child(t *testing.T, pid int, verb string) int {
	t.Helper()
	found := env.ChildrenNamed(pid, 1, verb)
	if len(found) != 1 {
		t.Fatalf("process %d has the children %v with the verb %s, and not one", pid, found, verb)
	}
	return found[0]
}

func runProbe(path string, args ...string) (string, error) {
	out, err := exec.Command(path, args...).Output()
	return string(out), err
}
