package shim

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// fragile starts a containerd with a shim that ends, once, where the returned function states.
func fragile(t *testing.T, tool string) (*engine.CT, func(how, point string)) {
	t.Helper()
	engine.NeedsRoot(t, "it runs jails")
	bin := env.Get(t, engine.BinDir)
	dir := filepath.Join(bin, "fragile")
	env.Check(t, engine.Build("./cmd/"+engine.ShimName, filepath.Join(dir, engine.ShimName), "-tags=crashtest"))
	env.Check(t, engine.Build("./cmd/agentjail-enter", filepath.Join(dir, "agentjail-enter")))
	file := filepath.Join(t.TempDir(), "point")
	o := engine.ContainerdOptions{Shims: []string{dir}, Env: []string{"AGENTJAIL_TEST_CRASH=@" + file}}
	if tool != "" {
		needGo(t)
		var err error
		o.Binary, err = engine.Tool(tool)
		env.Check(t, err)
	}
	c := engine.ContainerdFor(t, o)
	return c.For(t), func(how, point string) {
		env.Check(t, os.WriteFile(file, []byte(how+" "+point), 0o600))
		t.Cleanup(func() { os.Remove(file) })
	}
}

// A shim that is killed in the middle of anything leaves nothing, once its daemon has noticed.
func TestShimKilledAtEveryStep(t *testing.T) {
	c, end := fragile(t, "")
	for _, s := range engine.CrashPoints {
		t.Run(s.Point, func(t *testing.T) {
			c := c.Containerd.For(t)
			id := newID()
			defer c.Remove(id)
			var r engine.Result
			switch s.Verb {
			case "create", "start":
				end("kill", s.Point)
				r = c.Ctr(runArgs(id, "-d")...)
			case "exec":
				start1(t, c, id)
				end("kill", s.Point)
				r = execIn(c, id, "true")
			case "delete":
				start1(t, c, id)
				end("kill", s.Point)
				r = c.Ctr("tasks", "rm", "-f", id)
			}
			if r.Code == 0 && s.Verb != "delete" {
				t.Errorf("was not killed: %s", r)
			}
			env.Eventually(c, "the daemon has noticed", func() bool { return status(c, id) != "RUNNING" })
			c.Remove(id)
			nothingLeft(t, c)
		})
	}
}

func start1(t *testing.T, c *engine.CT, id string) {
	t.Helper()
	if r := c.Ctr(runArgs(id, "-d")...); r.Code != 0 {
		t.Fatal(r)
	}
}

// An error of the program's own, wherever it is, ends a call, and neither the shim nor another jail of its group.
func TestInternalErrors(t *testing.T) {
	c, end := fragile(t, "containerd")
	other := startJail(t, c, "--annotation", group+"fragile")
	shim := shimOf(t, c, other)
	for _, s := range engine.CrashPoints {
		t.Run(s.Point, func(t *testing.T) {
			c := c.Containerd.For(t)
			id := newID()
			defer c.Remove(id)
			run := runArgs(id, "-d", "--annotation", group+"fragile")
			var r engine.Result
			switch s.Verb {
			case "create", "start":
				end("panic", s.Point)
				r = c.Ctr(run...)
			default:
				if r := c.Ctr(run...); r.Code != 0 {
					t.Fatal(r)
				}
				end("panic", s.Point)
				if s.Verb == "exec" {
					r = execIn(c, id, "true")
				} else {
					r = c.Ctr("tasks", "rm", "-f", id)
				}
			}
			if r.Code == 0 || !strings.Contains(r.Stderr, "internal error: a test's, at "+s.Point) {
				t.Errorf("did not fail: %s", r)
			}
			c.Remove(id)
			if r := execIn(c, other, "true"); r.Code != 0 || shimOf(t, c, other) != shim {
				t.Errorf("the other jail suffers: %s", r)
			}
			if n := len(records(t, c)); n != 1 {
				t.Errorf("%d jails are known", n)
			}
		})
	}
	c.Remove(other)
	nothingLeft(t, c)
}
