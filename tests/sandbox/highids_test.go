package sandbox

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"agentjail.dev/tests/env"
)

// TestHighIDs: a person whose id is above 65535, as directory services give them, works in a sandbox as that person.
func TestHighIDs(t *testing.T) {
	work := t.TempDir()
	env.Check(t, os.Chown(work, 1234567, 1234568))
	if code, out, errs := sandbox(t, "--workspace", work, "--", "sh", "-c", "id -u; id -g; echo x >f"); code != 0 || out != "1234567\n1234568\n" {
		t.Errorf("the workspace's owner: %d, %s%s", code, out, errs)
	}
	var st unix.Stat_t
	if err := unix.Stat(filepath.Join(work, "f"), &st); err != nil || st.Uid != 1234567 || st.Gid != 1234568 {
		t.Errorf("on the host: %d:%d, %v", st.Uid, st.Gid, err)
	}
	t.Setenv("SUDO_UID", "1234567")
	t.Setenv("SUDO_GID", "1234568")
	if code, out, errs := sandbox(t, "--", "sh", "-c", "id -u; id -g"); code != 0 || out != "1234567\n1234568\n" {
		t.Errorf("the caller of sudo: %d, %s%s", code, out, errs)
	}
}
