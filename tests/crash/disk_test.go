package crash

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/state"
	"agentjail.dev/runtime/workspace"
	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// diskLeft lists loop devices of layers, and files in their store, but for templates.
func diskLeft(s workspace.Store) (out []string) {
	bound, _ := filepath.Glob("/sys/block/loop*/loop/backing_file")
	for _, f := range bound {
		if text, err := os.ReadFile(f); err == nil && strings.Contains(string(text), "/workspaces/#") {
			out = append(out, string(text))
		}
	}
	files, _ := os.ReadDir(s.Dir)
	for _, f := range files {
		if !strings.HasPrefix(f.Name(), ".template-root-") {
			out = append(out, f.Name())
		}
	}
	return out
}

// TestKilledOnDisk kills each verb of a jail whose root is on disk at each of its steps: after the usual clean-up neither a loop device nor
// a block of the layer is left, and after a kill before the root is attached there is nothing to clean up.
func TestKilledOnDisk(t *testing.T) {
	engine.NeedsViews(t)
	engine.LayersOnDisk(t)
	store := workspace.Of(state.Store{Root: state.DefaultRoot})
	conf := filepath.Join(t.TempDir(), "disk.toml")
	rootfs := filepath.Join(bundle, "rootfs")
	if err := errors.Join(
		os.WriteFile(conf, []byte("root.backing = \"disk\"\nroot.disk = \"64MiB\"\n"), 0o600), unix.Mount(rootfs, rootfs, "", unix.MS_BIND, ""),
	); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(rootfs, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	for i, p := range slices.Concat(engine.CrashPoints, engine.DiskCrashPoints) {
		t.Run(p.Point, func(t *testing.T) {
			id := fmt.Sprintf("crash%d-disk%d", os.Getpid(), i)
			defer agentjail(t, nil, "delete", "--force", id)
			for _, v := range verbs(id) {
				var env []string
				if v[0] == p.Verb {
					env = []string{"AGENTJAIL_TEST_CRASH=" + p.Point}
				}
				code, text := agentjail(t, env, append([]string{"--config", conf}, v...)...)
				if env != nil {
					if code != -1 {
						t.Fatalf("%s was not killed at %s: status %d\n%s", v[0], p.Point, code, text)
					}
					break
				}
				if code != 0 {
					t.Fatalf("%v: status %d\n%s", v, code, text)
				}
				if v[0] == "create" && len(diskLeft(store)) != 1 {
					t.Fatalf("of a jail there is: %q", diskLeft(store))
				}
			}
			gone := func() bool { return len(diskLeft(store)) == 0 }
			if slices.Contains(engine.DiskCrashPoints, p) {
				env.Eventually(t, "the end of the layer by itself", gone)
			}
			cleanUp(t, id)
			env.Eventually(t, "the end of the layer", gone)
		})
	}
}
