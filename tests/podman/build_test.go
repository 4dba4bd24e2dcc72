package podman

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// TestBuild: an image's build, which would lose what its steps make, is refused in a jail with the way to do it, and the
// way works.
func TestBuild(t *testing.T) {
	if !engine.UnderTestIsAgentjail() {
		t.Skip("the runtime under test is not agentjail")
	}
	for name, get := range map[string]func(*testing.T) *engine.PodmanT{"root": root, "user": user} {
		t.Run(name, func(t *testing.T) {
			p := get(t)
			dir := shared(t, p, engine.RootlessUID)
			env.Put(t, filepath.Join(dir, "Containerfile"), "FROM localhost/busybox\nRUN echo made > /tmp/made\n", 0o644, engine.RootlessUID)
			r := p.Podman("build", "--network=none", "-t", "built", dir)
			if r.Code == 0 || !strings.Contains(r.Stderr, "podman build --runtime=crun") {
				t.Errorf("a build in a jail: %s", r)
			}
			if _, err := os.Stat("/usr/bin/crun"); err != nil {
				t.Skip("no crun on this machine:", err)
			}
			p.Must("build", "--runtime=crun", "--network=none", "-t", "built", dir)
			env.Equal(t, "what the build made, in a jail", mustRunJail(p, "localhost/built", "cat", "/tmp/made"), "made")
		})
	}
}
