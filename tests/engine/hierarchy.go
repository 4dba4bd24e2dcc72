package engine

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"agentjail.dev/tests/env"
)

// NamedHierarchy makes one of control groups of version 1 without controllers, for attempts at its release_agent: nothing
// of the machine's hangs on it, and containers are at its root, as they are in those that their engine does not use. It
// is named after the directory base, and is gone with the test.
//
// No container sees where it was mounted: runc would mount it into containers, and cannot where those have a control group
// namespace.
func NamedHierarchy(t testing.TB, base string) string {
	t.Helper()
	dir, err := os.MkdirTemp(base, "hierarchy-")
	env.Check(t, err)
	name := filepath.Base(base) + filepath.Base(dir)
	if err := unix.Mount("cgroup", dir, "cgroup", 0, "none,name="+name); err != nil {
		t.Skip("this kernel has no control groups of version 1:", err)
	}
	open, err := os.Open(dir)
	if derr := unix.Unmount(dir, unix.MNT_DETACH); err == nil {
		err = derr
	}
	env.Check(t, err)
	t.Cleanup(func() { open.Close() })
	return name
}
