package podman

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// TestNothingLeft: a jail that is removed leaves no state, no host ids, no mounts and no control groups, in any order
// of ends.
func TestNothingLeft(t *testing.T) {
	p := root(t)
	file := filepath.Join(p.Dir, "left.id")
	t.Cleanup(func() { _ = os.Remove(file) })
	before := left(t, p)
	mustRunJail(p, "--cidfile", file, engine.Busybox, "true")
	ended := env.Read(t, file)
	id := p.Must("run", "-d", "--network=none", engine.Busybox, "sleep", "3600")
	if len(left(t, p, id)) < len(before)+2 {
		t.Error("a running jail leaves no trace: this test looks in the wrong places")
	}
	p.Remove("rm", "-f", "-t", "0", id)
	killed := p.Must("run", "-d", "--network=none", engine.Busybox, "sleep", "3600")
	p.Must("kill", killed)
	p.Remove("rm", "-f", "-t", "0", killed)
	// Podman's own clean-up goes on after its commands, with its storage mounted.
	var now []string
	if !env.Poll(env.Patience, func() bool {
		now = now[:0]
		for what := range left(t, p, string(ended), id, killed) {
			if !before[what] {
				now = append(now, what)
			}
		}
		return len(now) == 0
	}) {
		t.Errorf("left:\n%s", strings.Join(now, "\n"))
	}
}

// left lists what there is of jails in podman's place: their state and ids, and mounts; and the control groups of some containers,
// which are beside those of other Podmans.
func left(t *testing.T, p *engine.PodmanT, ids ...string) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	patterns := []string{
		p.Root() + "/run/agentjail/jails/*", p.Root() + "/run/agentjail/ids/*",
		p.Root() + "/run/user/*/agentjail/jails/*", p.Root() + "/run/user/*/agentjail/delegate/*",
	}
	for _, id := range ids {
		patterns = append(patterns, "/sys/fs/cgroup/*/libpod_parent/*"+id+"*", "/sys/fs/cgroup/libpod_parent/*"+id+"*")
	}
	for _, pattern := range patterns {
		found, err := filepath.Glob(pattern)
		env.Check(t, err)
		for _, f := range found {
			all[f] = true
		}
	}
	for _, at := range p.Mounts(t) {
		all["mount "+at] = true
	}
	return all
}
