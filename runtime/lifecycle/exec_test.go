package lifecycle

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"
	"github.com/sirupsen/logrus"

	"agentjail.dev/runtime/jailinit/host"
	"agentjail.dev/runtime/kernel/idmap"
	"agentjail.dev/runtime/refusal"
	"agentjail.dev/runtime/spec/policy"
	"agentjail.dev/runtime/state"
)

// TestExecRequested: the process comes from a file, or is the jail's own with changes.
func TestExecRequested(t *testing.T) {
	j := &state.Jail{Process: &specs.Process{Args: []string{"own"}, Cwd: "/own"}}
	file := filepath.Join(t.TempDir(), "process.json")
	if err := os.WriteFile(file, []byte(`{"args": ["given"], "cwd": "/given"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	change := func(p *specs.Process) { p.Args = []string{"changed"} }
	for _, c := range []struct {
		o         ExecOptions
		args, cwd string
	}{
		{ExecOptions{}, "own", "/own"},
		{ExecOptions{Change: change}, "changed", "/own"},
		{ExecOptions{ProcessFile: file}, "given", "/given"},
	} {
		p, err := c.o.requestedProcess(j)
		if err != nil || p.Args[0] != c.args || p.Cwd != c.cwd {
			t.Errorf("%+v: %v, %v", c.o, p, err)
		}
	}
	if j.Process.Args[0] != "own" {
		t.Error("the jail's own process was changed")
	}
	o := ExecOptions{ProcessFile: file + ".not"}
	if _, err := o.requestedProcess(j); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
}

// TestUmaskOf: a process's own mask counts, then that of the jail's first process, then runc's.
func TestUmaskOf(t *testing.T) {
	with := func(mask uint32) *specs.Process { return &specs.Process{User: specs.User{Umask: &mask}} }
	none := &specs.Process{}
	for _, c := range []struct {
		p, first *specs.Process
		want     uint32
	}{
		{none, none, 0o022},
		{none, nil, 0o022},
		{none, with(0), 0},
		{none, with(0o777), 0o777},
		{with(0), with(0o777), 0},
		{with(0o777), none, 0o777},
		{with(0o27), nil, 0o27},
		{with(0o7027), nil, 0o27},
	} {
		if got := umaskOf(c.p, c.first); got != c.want {
			t.Errorf("%v after %v: %04o, want %04o", c.p.User.Umask, c.first, got, c.want)
		}
	}
}

// TestExecHandsOver: what the delegate gets of an exec, its status, and that
// nothing is left behind. A script is the delegate, and the test itself the jail's
// first process.
func TestExecHandsOver(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("an exec looks at another process's root: root only")
	}
	dir := t.TempDir()
	script := filepath.Join(dir, "runc")
	told := filepath.Join(dir, "told")
	if err := os.WriteFile(script, []byte("#!/bin/sh\necho \"$@\" >> "+told+"\nexit 7\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	step := filepath.Join(filepath.Dir(self), host.Name) // the init step is never started
	if err := os.WriteFile(step, []byte("#!/bin/false\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	defer os.Remove(step)
	sleep := exec.Command("/bin/sleep", "60")
	if err := sleep.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sleep.Process.Kill(); _ = sleep.Wait() }()
	start, _, err := state.StartTime(sleep.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	log := logrus.New()
	log.SetOutput(io.Discard)
	r := &Runtime{Store: state.Store{Root: filepath.Join(dir, "state")}, Policy: policy.Default(), Log: log}
	ids := []specs.LinuxIDMapping{{ContainerID: 0, HostID: 100000, Size: 65536}}
	j := &state.Jail{
		Brief: state.Brief{
			ID: "j", Key: state.Key("", "j"), Delegate: script, BootID: state.BootID(), InitPid: sleep.Process.Pid, InitStart: start,
			IDs: idmap.Map{UIDs: ids, GIDs: ids},
		},
		Policy: policy.Default(), Process: &specs.Process{Args: []string{"/bin/true"}, Cwd: "/"},
	}
	if err := r.Store.Create(j); err != nil {
		t.Fatal(err)
	}
	jail := r.Store.Dir(j.Key)
	if err := os.WriteFile(filepath.Join(jail, state.FilterFile), bytes.Repeat([]byte{6, 0, 0, 0, 0, 0, 0xff, 0x7f}, 1), 0o600); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadDir(jail)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Exec(ExecOptions{ID: "j", Cgroup: "/x"}); !errors.Is(err, refusal.Err) {
		t.Errorf("exec --cgroup: %v", err)
	}
	done := make(chan error)
	go func() { done <- r.Exec(ExecOptions{ID: "j", Detach: true, PidFile: "/p"}) }() // its thread ends with it
	var ended *ExitError
	if err := <-done; !errors.As(err, &ended) || ended.Code != 7 {
		t.Fatalf("%v", err)
	}
	text, err := os.ReadFile(told)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"exec --process " + jail + "/exec-", "--detach", "--pid-file /p", "--preserve-fds", " j\n"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the delegate got %q, without %q", text, want)
		}
	}
	if after, err := os.ReadDir(jail); err != nil || len(after) != len(before) {
		t.Errorf("left behind: %v, before %v (%v)", after, before, err)
	}
}
