package engine

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/state"
	"agentjail.dev/runtime/workspace"
	"agentjail.dev/tests/env"
)

// LayersOnDisk has the test program, and what it starts from then on, keep layers on a disk:
// hack/alone.sh has their directory in memory.
func LayersOnDisk(t testing.TB) {
	t.Helper()
	NeedsRoot(t, "it mounts")
	store := workspace.Of(state.Store{Root: state.DefaultRoot}).Dir
	dir := TempDir(t, "/var/tmp", "agentjail-layers-")
	env.Check(t, errors.Join(os.MkdirAll(store, 0o700), unix.Mount(dir, store, "", unix.MS_BIND, "")))
	t.Cleanup(func() {
		if err := unix.Unmount(store, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
}

// DiskPolicy has the roots of jails on disk, with less memory than OnDisk writes there.
const DiskPolicy = "root.backing = \"disk\"\nroot.disk = \"96MiB\"\nlimits.memory = \"48MiB\"\n"

// OnDisk is a script that fails in a jail whose root is not that of DiskPolicy: it writes more than
// the jail's memory, and then until there is no room.
const OnDisk = `set -e
size=$(df -k / | tail -n 1 | awk '{print $2}')
[ "$size" -gt 80000 ] && [ "$size" -le 98304 ] || { echo "the root has $size KiB"; exit 3; }
dd if=/dev/zero of=/most bs=1M count=64 2>/dev/null
[ "$(stat -c %s /most)" = 67108864 ]
dd if=/dev/zero of=/more bs=1M count=64 2>&1 | grep -q "No space left on device" || { echo "there is room for more"; exit 4; }
rm /most /more
echo on disk`

// DiskRoots lists the loop devices that are bound to roots of jails, by the names of their files.
func DiskRoots() (out []string) {
	bound, _ := filepath.Glob("/sys/block/loop*/loop/backing_file")
	for _, f := range bound {
		if text, err := os.ReadFile(f); err == nil && strings.Contains(string(text), "/workspaces/#") {
			out = append(out, string(text))
		}
	}
	return out
}

// NoDiskRoots waits until none is left.
func NoDiskRoots(t testing.TB) {
	t.Helper()
	env.Eventually(t, "the end of the loop device", func() bool { return len(DiskRoots()) == 0 })
}
