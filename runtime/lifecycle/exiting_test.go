package lifecycle

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/delegate"
	"agentjail.dev/runtime/spec/policy"
	"agentjail.dev/runtime/state"
)

// command starts a program that is killed at the test's end.
func command(t *testing.T, attr *syscall.SysProcAttr, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.SysProcAttr = attr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd
}

// running is the record of a jail whose first process is that command.
func running(t *testing.T, cmd *exec.Cmd) *state.Jail {
	t.Helper()
	start, _, err := state.StartTime(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	return &state.Jail{Brief: state.Brief{ID: "j", Key: state.Key("", "j"), BootID: state.BootID(), InitPid: cmd.Process.Pid, InitStart: start, OwnTime: true}}
}

// until waits for a condition of another process.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !is(); {
		if time.Now().After(deadline) {
			t.Fatal("in vain: " + what)
		}
	}
}

// TestExitingInit: a first process that has no namespaces left and still exits is waited for, before a delegate outside of its time namespace
// takes it for ended.
func TestExitingInit(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("it makes a process namespace")
	}
	defer func(was time.Duration) { endPatience = was }(endPatience)
	first := command(t, &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID}, "sleep", "60")
	j := running(t, first)
	// A process of the namespace that its parent, outside, does not reap keeps the first one from its end.
	other := command(t, nil, "nsenter", "-t", fmt.Sprint(first.Process.Pid), "-p", "sleep", "60")
	until(t, "a process in the namespace", func() bool {
		children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", other.Process.Pid))
		comm, _ := os.ReadFile(fmt.Sprintf("/proc/%s/comm", strings.TrimSpace(string(children))))
		return string(comm) == "sleep\n"
	})
	if err := other.Process.Signal(unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	until(t, "the parent's stop, before which it could still reap", func() bool {
		stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", other.Process.Pid))
		return strings.Contains(string(stat), ") T ")
	})
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	until(t, "the loss of namespaces", func() bool {
		_, err := os.Open(fmt.Sprintf("/proc/%d/ns/time", first.Process.Pid))
		return os.IsNotExist(err)
	})
	if !j.InitAlive() {
		t.Fatal("it has ended: the test shows nothing")
	}
	endPatience = time.Millisecond
	if _, err := inTime(&j.Brief); err == nil {
		t.Error("it still exits, and is taken for ended")
	}
	endPatience = time.Minute
	if err := other.Process.Signal(unix.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if in, err := inTime(&j.Brief); err != nil || in != (delegate.Time{}) || j.InitAlive() {
		t.Errorf("%v, %v, alive: %v", in, err, j.InitAlive())
	}
}

// TestDeletedByDelegate: a delete that ends well leaves neither a record nor a process.
func TestDeletedByDelegate(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("the jail is root's")
	}
	dir := t.TempDir()
	script := filepath.Join(dir, "runc")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	first := command(t, nil, "sleep", "60")
	j := running(t, first)
	j.Delegate, j.DelegateRoot = script, dir
	log := logrus.New()
	log.SetOutput(io.Discard)
	r := &Runtime{Store: state.Store{Root: filepath.Join(dir, "state")}, Policy: policy.Default(), Log: log}
	if err := r.Store.Create(j); err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() { done <- r.Delete("j", false) }() // its thread ends with it
	if err := <-done; err != nil {
		t.Error(err)
	}
	if r.Store.Exists(j.Key) || j.InitAlive() {
		t.Errorf("the record is there: %v; the process runs: %v", r.Store.Exists(j.Key), j.InitAlive())
	}
}
