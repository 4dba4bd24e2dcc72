package engine

import (
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/state"
	"agentjail.dev/runtime/workspace"
)

// LayersOnDisk has the test program, and what it starts from then on, keep layers on a disk:
// hack/alone.sh has their directory in memory.
func LayersOnDisk(t testing.TB) {
	t.Helper()
	store := workspace.Of(state.Store{Root: state.DefaultRoot}).Dir
	dir := TempDir(t, "/var/tmp", "agentjail-layers-")
	if err := errors.Join(os.MkdirAll(store, 0o700), unix.Mount(dir, store, "", unix.MS_BIND, "")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(store, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
}
