package firstproc

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestThroughProc: a path leads through /proc by its own names, by a link, and by a link of a link.
func TestThroughProc(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "plain"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{"plain/fd": "/proc/self/fd/7", "further": "plain/fd", "out": "../../proc/1", "fine": "/plain", "loop": "loop"} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for name, want := range map[string]bool{"/plain/fd": true, "/further/x": true, "/out": true, "/plain/../proc": true, "/fine": false, "plain": false} {
		if got, err := throughProc(int(root.Fd()), name); err != nil || got != want {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	if _, err := throughProc(int(root.Fd()), "/loop"); !errors.Is(err, unix.ELOOP) {
		t.Errorf("a loop: %v", err)
	}
}
