package ebpf

import (
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"agentjail.dev/tests/env"
)

func itoa(n int) string { return strconv.Itoa(n) }

// child is a process's only child whose first argument is verb.
func child(t *testing.T, pid int, verb string) int {
	t.Helper()
	found := childrenOf(t, pid, verb)
	if len(found) != 1 {
		t.Fatalf("process %d has the children %v with the verb %s, and not one", pid, found, verb)
	}
	return found[0]
}

// childrenOf are a process's children whose first argument is verb.
func childrenOf(t *testing.T, pid int, verb string) []int {
	t.Helper()
	return slices.DeleteFunc(children(t, pid), func(c int) bool {
		line, _ := os.ReadFile("/proc/" + itoa(c) + "/cmdline")
		return slices.Index(strings.Split(string(line), "\x00"), verb) != 1
	})
}

// children are a process's.
func children(t *testing.T, pid int) (all []int) {
	t.Helper()
	tasks, err := os.ReadDir("/proc/" + itoa(pid) + "/task")
	env.Check(t, err)
	for _, task := range tasks {
		text := env.Read(t, "/proc/"+itoa(pid)+"/task/"+task.Name()+"/children")
		for f := range strings.FieldsSeq(string(text)) {
			n, err := strconv.Atoi(f)
			env.Check(t, err)
			all = append(all, n)
		}
	}
	return all
}

func runProbe(path string, args ...string) (string, error) {
	out, err := exec.Command(path, args...).Output()
	return string(out), err
}
