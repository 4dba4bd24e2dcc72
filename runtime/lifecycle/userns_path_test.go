package lifecycle

import (
	"fmt"
	"os"
	"testing"
)

// TestUserNSPath: the path leads to the descriptor, and runc's scan for the process does not match
// it.
func TestUserNSPath(t *testing.T) {
	f, err := os.Open("/proc/self/ns/user")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	path := userNSPath(os.Getpid(), f.Fd())
	other, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if same, err := sameFile(f, other); err != nil || !same {
		t.Errorf("%s is another namespace: %v", path, err)
	}
	var pid int
	var extra rune
	// As in runc 1.1.15, libcontainer/userns/userns_maps_linux.go.
	if n, _ := fmt.Sscanf(path, "/proc/%d/ns/user%c", &pid, &extra); n == 1 {
		t.Errorf("runc takes %s for the namespace of process %d", path, pid)
	}
}
