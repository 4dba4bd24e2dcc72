// Package shim tries agentjail's containerd shim, by real containerds of several releases.
package shim

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

func TestMain(m *testing.M) {
	engine.IfJanitor()
	code := m.Run()
	for _, d := range daemons {
		if err := d.stop(); err != nil {
			fmt.Fprintln(os.Stderr, "clean up:", err)
			code = 1
		}
	}
	if err := engine.RemoveBuilt(); err != nil {
		fmt.Fprintln(os.Stderr, "clean up:", err)
	}
	os.Exit(code)
}

// daemons are the containerds that the tests are run on: the distribution's and the newest, and those that the environment
// names, a list of programs as in $PATH.
var daemons = append([]*daemon{{name: "distribution"}, {name: "newest", tool: "containerd"}}, named(os.Getenv("AGENTJAIL_TEST_CONTAINERDS"))...)

func named(paths string) (out []*daemon) {
	for _, p := range filepath.SplitList(paths) {
		out = append(out, &daemon{name: "named", path: p})
	}
	return out
}

// A daemon is started when a test first needs it.
type daemon struct {
	name, tool, path string

	once sync.Once
	c    *engine.Containerd
	err  error
}

// quickRestarts has the restart monitor look each second, not each tenth.
func quickRestarts(*engine.Containerd) string {
	return "[plugins.\"io.containerd.internal.v1.restart\"]\n  interval = \"1s\"\n[plugins.\"io.containerd.monitor.container.v1.restart\"]\n  interval = \"1s\"\n"
}

func (d *daemon) start() (*engine.Containerd, error) {
	d.once.Do(func() {
		dir, err := engine.Shim()
		if err != nil {
			d.err = err
			return
		}
		o := engine.ContainerdOptions{Shims: []string{dir}, Binary: d.path, Config: quickRestarts}
		if d.tool != "" {
			if o.Binary, d.err = engine.Tool(d.tool); d.err != nil {
				return
			}
		}
		if d.c, d.err = engine.StartContainerd(o); d.err != nil {
			return
		}
		d.err = d.c.ImportBusybox(d.c.Namespace())
	})
	return d.c, d.err
}

func (d *daemon) stop() error {
	if d.c == nil {
		return nil
	}
	return d.c.Close()
}

// each runs a test on every containerd.
func each(t *testing.T, test func(*testing.T, *engine.CT)) {
	engine.NeedsRoot(t, "it runs jails")
	for _, d := range daemons {
		t.Run(d.name, func(t *testing.T) {
			if d.tool != "" {
				needGo(t)
			}
			c := env.Get(t, d.start)
			test(t, c.For(t))
		})
	}
}

// needGo skips where there is no Go to build the newest containerd with: in the virtual machines.
func needGo(t *testing.T) {
	t.Helper()
	if err := exec.Command("go", "version").Run(); err != nil {
		t.Skip("no Go to build this containerd with:", err)
	}
}
