// Package reset is tried in the virtual machine (hack/vm) in a step of its own: it resets the machine, and goes on when that is up again.
package reset

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// dir is the directory under review: of a user, and on the disk, which shows that the machine was reset.
const dir = "/srv/reset"

func agentjail(t *testing.T, args ...string) engine.Result {
	t.Helper()
	return engine.Run(t, "/usr/local/bin/agentjail", args...)
}

// TestReset: a view that a jail has when the machine is reset is incomplete: it is read and applied, which each command states, and no jail
// goes on in it. Nothing of it is mounted.
func TestReset(t *testing.T) {
	if os.Getenv("AGENTJAIL_VM") == "" {
		t.Skip("only in the virtual machine (make test-vm): it resets the machine")
	}
	engine.NeedsViews(t)
	config := filepath.Join(t.TempDir(), "config.toml")
	env.Check(t, os.WriteFile(config, []byte("workspace.size = \"32MiB\"\n"), 0o644))
	view := []string{"--config", config, "sandbox", "--workspace", dir, "--review", "--view", "open", "--", "sh", "-c"}
	if _, err := os.Stat(dir); err == nil {
		afterwards(t, view)
		return
	}
	env.Check(t, os.Mkdir(dir, 0o755))
	env.Check(t, os.Chown(dir, 1000, 1000))
	jail := exec.Command("/usr/local/bin/agentjail", append(view, "echo kept >new; echo 1 >ready; exec sleep 1000")...)
	env.Check(t, jail.Start())
	env.Eventually(t, "what the jail writes", func() bool { return strings.Contains(agentjail(t, "workspace", "diff", "open").Stdout, "A ready\n") })
	unix.Sync()
	env.Check(t, os.WriteFile("/proc/sysrq-trigger", []byte("b"), 0))
	_ = jail.Wait()
	t.Fatal("the machine goes on")
}

func afterwards(t *testing.T, view []string) {
	if bound, err := filepath.Glob("/sys/block/loop*/loop/backing_file"); err != nil || len(bound) > 0 {
		t.Errorf("bound: %q, %v", bound, err)
	}
	for _, c := range []struct {
		args []string
		code int
		says []string
	}{
		{[]string{"workspace", "list"}, 0, []string{dir, "incomplete"}},
		{append(view, "echo ran"), 125, []string{"the machine ended while a jail had it"}},
		{[]string{"gc"}, 0, nil},
		{[]string{"workspace", "list"}, 0, []string{dir, "incomplete"}},
		{[]string{"workspace", "diff", "open"}, 1, []string{"A new\n", "may be missing"}},
		{[]string{"workspace", "apply", "open"}, 0, []string{"new\n", "may be missing"}},
		{append(view, "echo ran"), 125, []string{"the machine ended while a jail had it"}},
		{[]string{"workspace", "discard", "open"}, 0, []string{"discarded"}},
	} {
		r := agentjail(t, c.args...)
		if r.Code != c.code || strings.Contains(r.Stdout, "ran") {
			t.Errorf("status %d, not %d: %s", r.Code, c.code, r)
		}
		for _, s := range c.says {
			if !strings.Contains(r.Stdout+r.Stderr, s) {
				t.Errorf("no %q: %s", s, r)
			}
		}
	}
	if text, err := os.ReadFile(dir + "/new"); err != nil || string(text) != "kept\n" {
		t.Errorf("applied: %q, %v", text, err)
	}
}
