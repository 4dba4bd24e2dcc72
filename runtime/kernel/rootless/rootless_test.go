package rootless

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/idmap"
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
// tests/podman. Here, any user that can open a file as its owner will do.
func TestForeign(t *testing.T) {
	if os.Getuid() == idmap.Overflow {
		t.Skip("needs another user than 65534, whose own files look like those of foreign ids")
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	st := stat(t, file)
	if err := Foreign(file, st); err == nil || !strings.Contains(err.Error(), "belongs to the user who runs") {
		t.Errorf("one's own: %v", err)
	}
	st.Uid = idmap.Overflow
	if err := Foreign(file, st); err == nil || !strings.Contains(err.Error(), "belongs to an id of the user") {
		t.Errorf("the overflow id's by name, and one's own: %v", err)
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

// TestForbidden has the settings of machines that keep ordinary users from user namespaces.
func TestForbidden(t *testing.T) {
	for _, c := range []struct {
		file, value, label, want string
	}{
		{"", "", "unconfined\n", ""},
		{"sys/user/max_user_namespaces", "0\n", "", "user.max_user_namespaces=15000"},
		{"sys/user/max_user_namespaces", "95000\n", "", ""},
		{"sys/kernel/unprivileged_userns_clone", "0\n", "", "unprivileged_userns_clone=1"},
		{"sys/kernel/unprivileged_userns_clone", "1\n", "", ""},
		{"sys/kernel/apparmor_restrict_unprivileged_userns", "1\n", "unconfined\n", "the rule userns"},
		{"sys/kernel/apparmor_restrict_unprivileged_userns", "1\n", "agentjail (unconfined)\n", ""},
		{"sys/kernel/apparmor_restrict_unprivileged_userns", "1\n", "", ""},
		{"sys/kernel/apparmor_restrict_unprivileged_userns", "0\n", "unconfined\n", ""},
	} {
		proc := t.TempDir()
		for name, text := range map[string]string{c.file: c.value, "self/attr/current": c.label} {
			path := filepath.Join(proc, name)
			if name == "" || text == "" {
				continue
			}
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
				t.Fatal(err)
			}
		}
		switch err := forbidden(proc); {
		case c.want == "" && err != nil:
			t.Errorf("%+v: %v", c, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%+v: got %v", c, err)
		}
	}
}
