package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentjail.dev/runtime/spec/policy"
	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// TestLabels: a container's labels in agentjail's name are its annotations, where an engine sets
// none; one that is unknown refuses the start, as an unknown annotation does.
func TestLabels(t *testing.T) {
	d := d(t)
	env.Equal(t, "the layer's size", strings.TrimSpace(mustRunJail(d, "--label", "dev.agentjail.root.size=5MiB", engine.Busybox, "sh", "-c", "df -k / | tail -n 1 | awk '{print $2}'")), "5120")
	for _, c := range [][2]string{{"root.sise=5MiB", "root.size"}, {"root.size=lots", "not a size"}, {"passthrough=true", "unknown annotation"}} {
		r := d.Docker("run", "--rm", jail, "--label", "dev.agentjail."+c[0], engine.Busybox, "true")
		if r.Code != 125 || !strings.Contains(r.Stderr, c[1]) {
			t.Errorf("%s: %+v", c[0], r)
		}
	}
}

// TestProject: a container's label names the mounted directory whose own policy file narrows; the
// file itself is protected.
func TestProject(t *testing.T) {
	d := d(t)
	dir := engine.TempDir(t, "/tmp", "agentjail-project-")
	file := filepath.Join(dir, policy.ProjectFile)
	env.Check(t, os.Chown(dir, 1000, 1000))
	run := func(text string) (int, string) {
		t.Helper()
		env.Check(t, os.WriteFile(file, []byte(text), 0o644))
		r := d.Docker("run", "--rm", jail, "-u", "1000", "--label", "dev.agentjail.project=/work", "-v", dir+":/work", engine.Busybox, "sh", "-c",
			"df -k / | tail -n 1 | awk '{print $2}'; echo x 2>/dev/null >>/work/.agentjail.toml && echo written")
		return r.Code, r.Stdout + r.Stderr
	}
	if _, out := run("root.size = \"5MiB\"\n"); !strings.HasPrefix(out, "5120\n") || strings.Contains(out, "written") {
		t.Error(out)
	}
	if code, out := run("\nroot.size = \"900GiB\"\n"); code != 125 || !strings.Contains(out, "line 2: root.size") || !strings.Contains(out, "(remedy: ") {
		t.Error(code, out)
	}
}
