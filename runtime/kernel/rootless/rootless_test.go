package rootless

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func stat(t *testing.T, path string) *unix.Stat_t {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		t.Fatal(err)
	}
	return &st
}

// Inside a user namespace the kernel reports whose a file is: see TestRootlessPolicy in
// tests/podman. Here, whoever can open a file as its owner does.
func TestForeign(t *testing.T) {
	if os.Getuid() == Overflow {
		t.Skip("needs another user than nobody, whose own files cannot be told from those of foreign ids")
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	st := stat(t, file)
	if err := Foreign(file, st); err == nil || !strings.Contains(err.Error(), "belongs to the user who runs") {
		t.Errorf("one's own: %v", err)
	}
	st.Uid = Overflow
	if err := Foreign(file, st); err == nil || !strings.Contains(err.Error(), "belongs to an id of the user") {
		t.Errorf("nobody's by name, and one's own: %v", err)
	}
	st.Mode |= 0o020
	if err := Foreign(file, st); err == nil || !strings.Contains(err.Error(), "can be written by others") {
		t.Errorf("writable: %v", err)
	}
}

func TestRuntimeDir(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path string
		mode os.FileMode
		want string // "" for none
	}{
		{dir, 0o700, ""},
		{dir, 0o755, ""},
		{dir, 0o775, "can be written by others"},
		{"relative", 0o700, "not an absolute path"},
		{dir + "/nowhere", 0o700, "set XDG_RUNTIME_DIR"},
		{link, 0o700, "not a directory"},
	} {
		if err := os.Chmod(dir, c.mode); err != nil {
			t.Fatal(err)
		}
		t.Setenv("XDG_RUNTIME_DIR", c.path)
		got, err := RuntimeDir()
		if c.want == "" && (err != nil || got != c.path) || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s, mode %o: %q, %v", c.path, c.mode, got, err)
		}
	}
}

func TestMaps(t *testing.T) {
	uids, gids, err := Maps()
	if err != nil || len(uids) == 0 || len(gids) == 0 {
		t.Fatalf("%v, %v, %v", uids, gids, err)
	}
	for _, m := range append(uids, gids...) {
		if m.ContainerID != m.HostID || m.Size == 0 {
			t.Errorf("%+v does not map each id to itself", m)
		}
	}
}
