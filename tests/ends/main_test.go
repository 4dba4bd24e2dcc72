// Package ends tries how `agentjail sandbox` ends: by signals, by a terminal that is closed, by SIGKILL at any
// moment, and with another PID namespace beside it. The tests run over a state directory of their own.
package ends

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/state"
	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

var bin string

// stateDirs are the directories in which agentjail keeps state.
var stateDirs = []string{"/run/agentjail", "/var/lib/agentjail", "/var/log/agentjail"}

func TestMain(m *testing.M) {
	engine.SuiteNeedsRoot("it runs jails")
	engine.InOwnMounts()
	if err := ownState(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(engine.MainBare(m, "it runs jails", &bin))
}

// ownState mounts empty directories where agentjail's state is.
func ownState() error {
	for _, d := range stateDirs {
		if err := errors.Join(os.MkdirAll(d, 0o711), unix.Mount("tests", d, "tmpfs", 0, "mode=0711")); err != nil {
			return fmt.Errorf("%s: %w", d, err)
		}
	}
	return nil
}

// left lists what there still is of jails.
func left(ids map[string]bool) []string {
	var out []string
	for _, id := range engine.JailIDs(state.DefaultRoot) {
		ids[id] = true
	}
	for _, g := range []string{"/run/agentjail/jails/*", "/run/agentjail/ids/*", "/run/agentjail/sandbox/*/*", "/run/agentjail/sandbox/sandbox-*", "/var/lib/agentjail/placeholders/*.json"} {
		m, _ := filepath.Glob(g)
		out = append(out, m...)
	}
	for id := range ids {
		for _, g := range []string{"/sys/fs/cgroup/*/agentjail-" + id, "/sys/fs/cgroup/agentjail-" + id} {
			m, _ := filepath.Glob(g)
			out = append(out, m...)
		}
	}
	return out
}

// A run is one `agentjail sandbox`, whose output is a pipe.
type run struct {
	t    *testing.T
	cmd  *exec.Cmd
	out  *os.File
	said bytes.Buffer
}

func startSandbox(t *testing.T, args ...string) *run {
	t.Helper()
	r, w, err := os.Pipe()
	env.Check(t, err)
	defer w.Close()
	cmd := exec.Command(bin, append([]string{"sandbox"}, args...)...)
	cmd.Stdout, cmd.Stderr = w, w
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	env.Check(t, cmd.Start())
	x := &run{t: t, cmd: cmd, out: r}
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
		r.Close()
	})
	return x
}

// ready waits until the command prints that word.
func (r *run) ready() {
	r.t.Helper()
	_ = r.out.SetReadDeadline(time.Now().Add(env.Patience))
	buf := make([]byte, 64)
	for !strings.Contains(r.said.String(), "ready") {
		n, err := r.out.Read(buf)
		if r.said.Write(buf[:n]); err != nil {
			r.t.Fatalf("the command is never ready: %v, %q", err, r.said.String())
		}
	}
}

// status waits for the end, of all that holds the output too, and returns the exit status as shells have it.
func (r *run) status() int {
	r.t.Helper()
	_ = r.cmd.Wait()
	_ = r.out.SetReadDeadline(time.Now().Add(env.Patience))
	if _, err := r.said.ReadFrom(r.out); err != nil {
		r.t.Fatalf("something still holds the output: %v; jails %v", err, engine.JailIDs(state.DefaultRoot))
	}
	ws := r.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return ws.ExitStatus()
}

// nothingLeft waits until nothing is left.
func nothingLeft(t *testing.T, ids map[string]bool) {
	t.Helper()
	var l []string
	if !env.Poll(env.Patience, func() bool { l = left(ids); return len(l) == 0 }) {
		t.Fatalf("left on the host:\n%s", strings.Join(l, "\n"))
	}
}
