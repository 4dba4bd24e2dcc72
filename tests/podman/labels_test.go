package podman

import (
	"os"
	"path/filepath"
	"testing"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// TestLabels: a label of Podman's counts wherever its events are, at each start of a container, for root and for a user.
func TestLabels(t *testing.T) {
	for name, p := range map[string]*engine.PodmanT{"root": root(t), "user": user(t)} {
		for _, events := range []string{"none", "file"} {
			podman := []string{"--events-backend=" + events}
			run := append(podman, "run", "--rm", "--network=none", "--label=dev.agentjail.limits.pids=33")
			seen := p.Must(append(run, engine.Busybox, "sh", "-c", "cat /sys/fs/cgroup/pids/pids.max /sys/fs/cgroup/pids.max 2>/dev/null || ulimit -u")...)
			env.Equal(t, name+", events "+events, engine.LastLine(seen), "34") // and the init step's
			env.Equal(t, name+", without a label", p.Must(append(podman, "run", "--rm", "--network=none", engine.Busybox, "echo", "works")...), "works")
		}
	}
	dir := filepath.Join(t.TempDir(), "d")
	env.Check(t, os.Mkdir(dir, 0o755))
	env.Check(t, os.Chown(dir, 1000, 1000))
	p := root(t)
	id := p.Must("--events-backend=none", "create", "--network=none", "--label=dev.agentjail.workspace=review", "-v", dir+":/w", engine.Busybox, "touch", "/w/new")
	t.Cleanup(func() { p.Remove("rm", "-f", "-t", "0", id) })
	for range 2 {
		p.Must("--events-backend=none", "start", "--attach", id)
	}
	if left := env.Get(t, func() ([]os.DirEntry, error) { return os.ReadDir(dir) }); len(left) != 0 {
		t.Errorf("with a label for review, the directory has %v", left)
	}
}
