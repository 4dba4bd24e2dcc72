package promise

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// views is the name of the promise about views.
const views = "what a jail writes to a directory under review stays in a view of it"

// PodsLack is what a pod's container is not promised.
var PodsLack = map[string]string{
	views: "a pod gets no directory of the node's to write to, unless policy allows it: tests/kubernetes shows its views",
}

// ViewAnnotations request a small view of each writable directory of a container, as annotations or labels.
var ViewAnnotations = []string{"dev.agentjail.workspace=review", "dev.agentjail.workspace.size=32MiB"}

// ViewsDir is where View has its directories; it stays. A pod gets none of the node's to write to unless policy allows it.
const ViewsDir = "/var/tmp/agentjail-views"

// ViewOptions are an engine's options for a container with a view of a directory at /w; option is the engine's for an annotation.
func ViewOptions(option, dir string) []string {
	return []string{option, ViewAnnotations[0], option, ViewAnnotations[1], "-v", dir + ":/w"}
}

// A Viewed makes a container with a view of a directory at /w, or at the working directory. The function that it returns runs the
// container's command to its end; called again, it runs the same container again.
type Viewed func(t testing.TB, dir string, command ...string) (run func() engine.Result)

// inView is what a container does in its view, each time that it is run.
const inView = `[ ! -d /w ] || cd /w; echo x >>log; echo agent >kept; rm -f gone; mkdir -p .husky; echo evil >.husky/pre-commit`

// View reports what is wrong with the view of a container that is run some times: until apply the directory is as it was, there is one
// view of it with all that was written, what is protected is marked, and stays out of an apply.
func View(t testing.TB, ask func(t testing.TB, args ...string) engine.Result, begin Viewed, times int) error {
	t.Helper()
	dir, err := viewDir(t)
	if err != nil {
		return err
	}
	before := filesOf(dir)
	run := begin(t, dir, "sh", "-ec", inView)
	for range times {
		if r := run(); r.Code != 0 {
			return fmt.Errorf("%w: %s", ErrNoAnswer, r)
		}
		if after := filesOf(dir); after != before {
			return fmt.Errorf("the directory was\n%sand is\n%s", before, after)
		}
	}
	id, err := viewOf(t, ask, dir)
	if err != nil {
		return err
	}
	defer ask(t, "workspace", "discard", id)
	r := ask(t, "workspace", "diff", id)
	if err := hasAll(r, 1, "A .husky/pre-commit  [protected: ", "A log\n", "M kept\n", "D gone\n"); err != nil {
		return err
	}
	if strings.Index(r.Stdout, "A .husky") > strings.Index(r.Stdout, "A log") {
		return fmt.Errorf("what is marked is not first: %s", r)
	}
	if err := hasAll(ask(t, "workspace", "apply", id), 1, "left out: .husky: a protected path"); err != nil {
		return err
	}
	return want("the applied directory", filesOf(dir), "kept 1000:1000 agent\nlog 1000:1000 "+strings.Repeat("x\n", times))
}

// viewDir makes a directory of uid 1000 with two files.
func viewDir(t testing.TB) (string, error) {
	if err := os.MkdirAll(ViewsDir, 0o755); err != nil {
		return "", err
	}
	dir := engine.TempDir(t, ViewsDir, "view-")
	return dir, errors.Join(os.Chmod(dir, 0o755), engine.FillWorkspace(dir, map[string]string{"kept": "kept\n", "gone": "gone\n"}))
}

// filesOf lists a directory's entries with their owners and texts.
func filesOf(dir string) string {
	list, err := os.ReadDir(dir)
	if err != nil {
		return err.Error()
	}
	var b strings.Builder
	for _, e := range list {
		fi, err := e.Info()
		if err != nil {
			return err.Error()
		}
		st := fi.Sys().(*syscall.Stat_t)
		text, _ := os.ReadFile(filepath.Join(dir, e.Name())) // of a directory there is none
		fmt.Fprintf(&b, "%s %d:%d %s", e.Name(), st.Uid, st.Gid, text)
	}
	return b.String()
}

// viewOf returns the id of the one view of a directory, once it has ended.
func viewOf(t testing.TB, ask func(t testing.TB, args ...string) engine.Result, dir string) (id string, err error) {
	env.Poll(env.Patience, func() bool {
		id, err = endedView(ask(t, "workspace", "list", "--json"), dir)
		return err == nil
	})
	return id, err
}

func endedView(r engine.Result, dir string) (string, error) {
	list, err := answer[struct {
		Views []struct{ ID, Directory, State string }
	}](r)
	if err != nil {
		return "", err
	}
	var ids []string
	for _, v := range list.Views {
		if v.Directory == dir && v.State == "ended" {
			ids = append(ids, v.ID)
		}
	}
	if len(ids) != 1 {
		return "", fmt.Errorf("%d ended views of %s: %s", len(ids), dir, r)
	}
	return ids[0], nil
}

// hasAll reports what a result lacks.
func hasAll(r engine.Result, code int, parts ...string) error {
	if r.Code != code {
		return fmt.Errorf("status %d, not %d: %s", r.Code, code, r)
	}
	for _, p := range parts {
		if !strings.Contains(r.Stdout+r.Stderr, p) {
			return fmt.Errorf("no %q: %s", p, r)
		}
	}
	return nil
}

func viewed(s *Subject) error { return View(s.TB, s.Query, s.Viewed, 2) }

// ViewByCtr is a container of containerd's own client, with agentjail's shim.
func ViewByCtr(c *engine.CT, id string) Viewed {
	return func(t testing.TB, dir string, command ...string) func() engine.Result {
		args := []string{"containers", "create", "--runtime", engine.ShimRuntime, "--mount", "type=bind,src=" + dir + ",dst=/w,options=rbind:rw"}
		for _, a := range ViewAnnotations {
			args = append(args, "--annotation", a)
		}
		c.Must(slices.Concat(args, []string{engine.BusyboxImage, id}, command)...)
		t.Cleanup(func() { c.Must("containers", "rm", id) })
		return func() engine.Result { return c.Ctr("tasks", "start", id) }
	}
}
