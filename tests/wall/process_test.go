package wall

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

func itoa(n int) string { return strconv.Itoa(n) }

// child is a process's first child.
func child(t *testing.T, pid int) int {
	t.Helper()
	all := children(t, pid)
	if len(all) == 0 {
		t.Fatalf("process %d has no child", pid)
	}
	return all[0]
}

// children are a process's.
func children(t *testing.T, pid int) (all []int) {
	t.Helper()
	tasks, err := os.ReadDir("/proc/" + itoa(pid) + "/task")
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		text, err := os.ReadFile("/proc/" + itoa(pid) + "/task/" + task.Name() + "/children")
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range strings.Fields(string(text)) {
			n, err := strconv.Atoi(f)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, n)
		}
	}
	return all
}

func runProbe(path string, args ...string) (string, error) {
	out, err := exec.Command(path, args...).Output()
	return string(out), err
}
