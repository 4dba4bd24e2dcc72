package podman

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentjail.dev/runtime/state"
	"agentjail.dev/runtime/workspace"
	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// TestRootOnDisk: policy has a jail's root on disk, which ends with the jail. A rootless podman is refused by name.
func TestRootOnDisk(t *testing.T) {
	if !engine.UnderTestIsAgentjail() {
		t.Skip("roots on disk are agentjail's")
	}
	engine.NeedsViews(t)
	config := filepath.Join(engine.TempDir(t, "/etc", "agentjail-disk-"), "config.toml")
	env.Check(t, os.WriteFile(config, []byte(engine.DiskPolicy), 0o644))
	flag := "--runtime-flag=config=" + config
	t.Run("root", func(t *testing.T) {
		p := root(t)
		store, dir := workspace.Of(state.Store{Root: state.DefaultRoot}).Dir, engine.TempDir(t, "/var/tmp", "agentjail-layers-")
		for _, args := range [][]string{{"mkdir", "-p", "-m", "700", store}, {"mount", "--bind", dir, store}} {
			if out, err := place.Inside(context.Background(), args...).CombinedOutput(); err != nil {
				t.Fatalf("%v: %v: %s", args, err, out)
			}
		}
		t.Cleanup(func() {
			if out, err := place.Inside(context.Background(), "umount", store).CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
		env.Equal(t, "in the container", strings.TrimSpace(p.Must(flag, "run", "--rm", "--network=none", engine.Busybox, "sh", "-c", engine.OnDisk)), "on disk")
		engine.NoDiskRoots(t)
	})
	t.Run("user", func(t *testing.T) {
		r := user(t).Podman(flag, "run", "--rm", "--network=none", engine.Busybox, "true")
		if r.Code == 0 || !strings.Contains(r.Stderr, "a rootless engine cannot make a file system on disk") {
			t.Error(r)
		}
	})
}
