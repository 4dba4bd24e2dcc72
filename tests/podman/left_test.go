package podman

import (
	"path/filepath"
	"testing"

	"agentjail.dev/tests/engine"
)

// TestNothingLeft: a jail that is removed leaves no state, no host ids, no mounts and no control groups, in any order
// of ends.
func TestNothingLeft(t *testing.T) {
	p := root(t)
	before := left(t, p)
	mustRun(p, engine.Busybox, "true")
	id := p.Must("run", "-d", "--network=none", engine.Busybox, "sleep", "3600")
	if len(left(t, p)) == len(before) {
		t.Error("a running jail leaves no trace: this test looks in the wrong places")
	}
	p.Remove("rm", "-f", "-t", "0", id)
	killed := p.Must("run", "-d", "--network=none", engine.Busybox, "sleep", "3600")
	p.Must("kill", killed)
	p.Remove("rm", "-f", "-t", "0", killed)
	for what := range left(t, p) {
		if !before[what] {
			t.Errorf("left: %s", what)
		}
	}
}

// left lists what there is of jails: their state and ids, their control groups, and mounts.
func left(t *testing.T, p *engine.PodmanT) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	for _, pattern := range []string{
		p.Root() + "/run/agentjail/jails/*", p.Root() + "/run/agentjail/ids/*",
		p.Root() + "/run/user/*/agentjail/jails/*", p.Root() + "/run/user/*/agentjail/delegate/*",
		"/sys/fs/cgroup/*/libpod_parent/*", "/sys/fs/cgroup/libpod_parent/*",
	} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range found {
			all[f] = true
		}
	}
	for _, at := range p.Mounts(t) {
		all["mount "+at] = true
	}
	return all
}
