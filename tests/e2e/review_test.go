package e2e

import (
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
