package none

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"

	"agentjail.dev/runtime/spec/network"
)

// TestSeal: a fresh namespace is not as it has to be, and is once it is sealed.
func TestSeal(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	// Pdeathsig belongs to the thread that forks (prctl(2)), and Seal ends threads.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.Command("sleep", "1000")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Skipf("a process in a network namespace of its own: %v", err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	j := network.Jail{
		Decision: Mode{}.Decide(network.Found{}), FilterRequired: true,
		Open: func() (*os.File, error) { return os.Open(fmt.Sprintf("/proc/%d/ns/net", cmd.Process.Pid)) },
	}
	failed := func() (n int) {
		a, err := Mode{}.Audit(j)
		if err != nil || len(a.Protections) < 7 || a.Open || a.Want == "" || a.Detail == "" {
			t.Fatalf("%+v, %v", a, err)
		}
		for _, f := range a.Protections {
			if !f.OK {
				n++
			}
		}
		return n
	}
	if failed() == 0 {
		t.Error("a namespace that was not sealed counts as sealed")
	}
	for range 2 { // start can be called again
		sealed, err := Mode{}.Seal(j)
		if err != nil {
			t.Skipf("this kernel cannot seal: %v", err)
		}
		if n := failed(); n != len(sealed.Changes) {
			t.Errorf("%d protections do not hold, and the report has %v", n, sealed.Changes)
		}
	}
}

// TestOpening: a namespace that cannot be opened is not sealed.
func TestOpening(t *testing.T) {
	j := network.Jail{Open: func() (*os.File, error) { return nil, os.ErrNotExist }}
	if _, err := (Mode{}).Seal(j); err == nil {
		t.Error("sealed")
	}
	if _, err := (Mode{}).Audit(j); err == nil {
		t.Error("looked at")
	}
}
