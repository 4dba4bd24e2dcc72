package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentjail.dev/runtime/state"
	"agentjail.dev/runtime/workspace"
	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

func init() {
	engine.Policies["agentjail-review"] = "[workspace]\nsize = \"32MiB\"\nfiles = 4000\n"
	engine.Policies["agentjail-forced"] = fmt.Sprintf("[workspace]\nsize = \"32MiB\"\nfiles = 4000\nreview = [%q]\n", forced+"/ws/src/**")
}

// forced is the parent of the directory that policy agentjail-forced has reviewed.
const forced = "/srv/agentjail-test-forced"

// TestForcedReview: no mount of an engine's that reaches what policy has reviewed is written at once: a parent, a volume that is a bind of it.
func TestForcedReview(t *testing.T) {
	needAgentjail(t)
	engine.NeedsViews(t)
	d := d(t)
	t.Cleanup(func() { os.RemoveAll(forced) })
	for _, dir := range []string{"", "/ws", "/ws/src"} {
		env.Check(t, os.MkdirAll(forced+dir, 0o755))
		env.Check(t, os.Chown(forced+dir, 1000, 1000))
	}
	volume := "agentjail-forced-" + filepath.Base(t.TempDir())
	d.Must("volume", "create", "-o", "type=none", "-o", "o=bind", "-o", "device="+forced+"/ws/src", volume)
	t.Cleanup(func() { d.Docker("volume", "rm", "-f", volume) })
	for _, mount := range [][2]string{{forced + "/ws", "/x/src"}, {forced, "/x/ws/src"}, {forced + "/ws/src", "/x"}, {volume, "/x"}} {
		r := d.Docker("run", "--rm", "--runtime=agentjail-forced", "-v", mount[0]+":/x", engine.Busybox, "touch", mount[1]+"/new")
		if _, err := os.Lstat(forced + "/ws/src/new"); err == nil || r.Code != 0 && !strings.Contains(r.Stderr, "remedy") {
			t.Errorf("%s: written %v: %s", mount[0], err == nil, r)
			os.Remove(forced + "/ws/src/new")
		}
		for _, dir := range []string{forced, forced + "/ws", forced + "/ws/src"} {
			discard(t, dir)
		}
	}
}

// viewOf is the view of a directory; nil without one.
func viewOf(t *testing.T, dir string) *workspace.Record {
	t.Helper()
	all, err := workspace.Of(state.Store{Root: state.DefaultRoot}).List()
	env.Check(t, err)
	for _, r := range all {
		if r.Path == dir {
			return r
		}
	}
	return nil
}

func discard(t *testing.T, dir string) {
	t.Helper()
	if r := viewOf(t, dir); r != nil {
		if err := workspace.Of(state.Store{Root: state.DefaultRoot}).Discard(r); err != nil {
			t.Error(err)
		}
	}
}

// TestReview: a container writes into a view of its mounted directory, by a label; it goes on in it when it is started again, and the view
// stays when the container is removed.
func TestReview(t *testing.T) {
	needAgentjail(t)
	engine.NeedsViews(t)
	d := d(t)
	dir := directory(t, 1000)
	t.Cleanup(func() { discard(t, dir) })
	const label = "dev.agentjail.workspace="
	id := d.Must("create", "--runtime=agentjail-review", "--label", label+"review", "-v", dir+":/w", engine.Busybox, "sh", "-ec",
		"echo run >>/w/new; mkdir -p /w/d; mv /w/d /w/d2; wc -l </w/new")
	for _, want := range []string{"1", "2"} {
		out := d.Must("start", "-a", id)
		env.Equal(t, "lines", strings.TrimSpace(out), want)
		if _, err := os.Lstat(filepath.Join(dir, "new")); err == nil {
			t.Fatal("the directory has what the container wrote")
		}
		r := viewOf(t, dir)
		if r == nil || r.State != workspace.Ended || r.Jail != id {
			t.Fatalf("view: %+v", r)
		}
	}
	d.Must("rm", id)
	if viewOf(t, dir) == nil {
		t.Error("the view is gone with the container")
	}
	for labels, why := range map[string]string{label + "/x": "no directory of the host is mounted there", label + "direct": "neither"} {
		r := d.Docker("run", "--rm", "--runtime=agentjail-review", "--label", labels, "-v", dir+":/w", engine.Busybox, "true")
		if r.Code == 0 || !strings.Contains(r.Stderr, why) {
			t.Errorf("%s: %s", labels, r)
		}
	}
	r := d.Docker("run", "--rm", "--runtime=agentjail-review", "--label", label+"/v", "-v", "/v", engine.Busybox, "true")
	if r.Code == 0 || !strings.Contains(r.Stderr, "an engine's own") {
		t.Errorf("a volume: %s", r)
	}
}
