package wall

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

func itoa(n int) string { return strconv.Itoa(n) }

// child is a process's only child.
func child(t *testing.T, pid int) int {
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
		if f := strings.Fields(string(text)); len(f) > 0 {
			n, err := strconv.Atoi(f[0])
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("process %d has no child", pid)
	return 0
}

func runProbe(path string, args ...string) (string, error) {
	out, err := exec.Command(path, args...).Output()
	return string(out), err
}
