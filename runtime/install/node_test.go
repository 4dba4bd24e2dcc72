package install

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestNode: programs arrive on a machine's file tree, a second copy changes nothing, links on the
// machine do not lead out of it.
func TestNode(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: programs on a node belong to root")
	}
	from, root := t.TempDir(), t.TempDir()
	write(t, filepath.Join(from, "a"), "program a", 0o755)
	write(t, filepath.Join(from, "b"), "program b", 0o700)
	if err := os.MkdirAll(filepath.Join(root, "real"), 0o755); err != nil {
		t.Fatal(err)
	}
	// The machine's own /usr leads to its /real.
	if err := os.Symlink("/real", filepath.Join(root, "usr")); err != nil {
		t.Fatal(err)
	}
	o := Machine{From: from, Names: []string{"a", "b"}, Links: []string{"a-net"}, Root: root, To: "/usr/bin"}
	for i, want := range []bool{true, false} {
		if changed, err := copyToNode(o); err != nil || changed != want {
			t.Fatalf("copy %d: %v, %v", i, changed, err)
		}
	}
	dir := filepath.Join(root, "real/bin")
	for name, text := range map[string]string{"a": "program a", "b": "program b", "a-net": "program a"} {
		if got := read(t, filepath.Join(dir, name)); got != text {
			t.Errorf("%s holds %q", name, got)
		}
		if st, err := os.Stat(filepath.Join(dir, name)); err != nil || st.Mode() != 0o755 {
			t.Errorf("%s: %v, %v", name, st, err)
		}
	}
	// A newer program takes the place of the old one, of which a process may still have the file.
	old, err := os.Open(filepath.Join(dir, "a"))
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	write(t, filepath.Join(from, "a"), "program a, newer", 0o755)
	if changed, err := copyToNode(o); err != nil || !changed || read(t, filepath.Join(dir, "a")) != "program a, newer" {
		t.Errorf("a newer one: %v, %v", changed, err)
	}
	var b [64]byte
	if n, _ := old.Read(b[:]); string(b[:n]) != "program a" {
		t.Errorf("the open file holds %q", b[:n])
	}
	for range 2 {
		if err := removeFromNode(o); err != nil {
			t.Fatal(err)
		}
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	write(t, filepath.Join(dir, "a-net"), "somebody's", 0o755)
	if _, err := copyToNode(o); !errors.Is(err, errConflict) || read(t, filepath.Join(dir, "a-net")) != "somebody's" {
		t.Errorf("somebody else's program: %v", err)
	}
}
