package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// mountAt mounts a directory at a second place for the test.
func mountAt(t *testing.T, from, to string) {
	t.Helper()
	env.Check(t, os.MkdirAll(to, 0o755))
	env.Check(t, os.Chown(to, 1000, 1000))
	env.Check(t, syscall.Mount(from, to, "", syscall.MS_BIND|syscall.MS_REC, ""))
	t.Cleanup(func() { _ = syscall.Unmount(to, syscall.MNT_DETACH) })
}

// TestForcedReview: no mount that reaches a directory of workspace.review's is written at once, whatever it is called by.
func TestForcedReview(t *testing.T) {
	engine.NeedsViews(t)
	top := engine.Workspace(t, map[string]string{"ws/src/old": "", "other/f": "", "people/a/x": "", "moved/src/f": "", "disk/f": "", "around/f": ""})
	own := func(path string) string { return filepath.Join(top, path) }
	link := func(to, at string) {
		t.Helper()
		env.Check(t, os.Symlink(to, own(at)))
		env.Check(t, os.Lchown(own(at), 1000, 1000))
	}
	link("ws", "name")
	link("../moved", "people/b")
	mountAt(t, own("ws/src"), own("alias"))
	mountAt(t, own("ws"), own("around/in"))
	mountAt(t, own("disk"), own("ws/src/disk"))
	mountAt(t, own("other"), own("hook/src"))
	policy := engine.PolicyFile(t, fmt.Sprintf("workspace.size = \"32MiB\"\nworkspace.files = 4000\nworkspace.review = [%q, %q, %q, %q]\n",
		own("ws/src/**"), own("people/*/src"), own("hook/src"), own("later/**/src")))
	env.Check(t, os.MkdirAll(own("later/a"), 0o755))
	env.Check(t, os.Chown(own("later/a"), 1000, 1000))
	held, err := os.Open(own("ws/src"))
	env.Check(t, err)
	defer held.Close()
	fd := fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), held.Fd())
	for _, c := range []struct {
		name string
		args []string
		dir  string // as the jail has it
		host string
		open bool // no view
	}{
		{"itself", []string{"-w", own("ws/src")}, own("ws/src"), "ws/src", false},
		{"a parent", []string{"-w", own("ws")}, own("ws/src"), "ws/src", false},
		{"beside it in a parent", []string{"-w", own("ws")}, own("ws"), "ws", false},
		{"a parent elsewhere", []string{"-v", own("ws") + ":/x"}, "/x/src", "ws/src", false},
		{"below", []string{"-v", own("ws/src/sub") + ":/x"}, "/x", "ws/src/sub", false},
		{"an alias", []string{"-v", own("alias") + ":/x"}, "/x", "ws/src", false},
		{"below an alias", []string{"-v", own("alias/sub") + ":/x"}, "/x", "ws/src/sub", false},
		{"a second volume", []string{"-w", own("other"), "-v", own("alias") + ":/x"}, "/x", "ws/src", false},
		{"read-only and writable", []string{"-v", own("ws/src") + ":/y:ro", "-v", own("ws/src") + ":/x"}, "/x", "ws/src", false},
		{"another name", []string{"-w", own("name/src")}, own("name/src"), "ws/src", false},
		{"a descriptor", []string{"-v", fd + ":/x"}, "/x", "ws/src", false},
		{"mounted below", []string{"-v", own("around") + ":/x"}, "/x/in/src", "ws/src", false},
		{"mounted in it", []string{"-v", own("disk") + ":/x"}, "/x", "disk", false},
		{"a bind that policy names", []string{"-v", own("other") + ":/x"}, "/x", "other", false},
		{"a link that policy names", []string{"-v", own("moved/src") + ":/x"}, "/x", "moved/src", false},
		{"a directory that is to come", []string{"-v", own("people/a") + ":/x"}, "/x", "people/a", false},
		{"one at any depth", []string{"-v", own("later/a") + ":/x"}, "/x", "later/a", false},
		{"another", []string{"-v", own("people/a/x2") + ":/x"}, "/x", "people/a/x2", true},
	} {
		for _, sub := range []string{"ws/src/sub", "people/a/x2"} {
			env.Check(t, os.MkdirAll(own(sub), 0o755))
			env.Check(t, os.Chown(own(sub), 1000, 1000))
		}
		mark := "W" + strings.ReplaceAll(c.name, " ", "-")
		args := append([]string{"--config", policy}, c.args...)
		code, out, errs := sandbox(t, append(args, "--", "sh", "-c", "mkdir -p "+c.dir+"; touch "+c.dir+"/"+mark)...)
		_, err := os.Stat(filepath.Join(own(c.host), mark))
		if c.open != (err == nil) {
			t.Errorf("%s: written at once: %v; status %d, %s%s", c.name, err == nil, code, out, errs)
		}
		if view := strings.Contains(errs, "in view "); !c.open && !view && !(code == 125 && strings.Contains(errs, "remedy")) || c.open && view {
			t.Errorf("%s: view %v; status %d, %s%s", c.name, view, code, out, errs)
		}
	}
	if code, _, errs := sandbox(t, "--config", policy, "-v", own("ws/src/old")+":/x", "--", "true"); code != 125 || !strings.Contains(errs, "not a directory, and policy has a view") {
		t.Errorf("a file: status %d, %s", code, errs)
	}
}
