package names

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"agentjail.dev/runtime/refusal"
	"agentjail.dev/runtime/spec/network"
	"agentjail.dev/runtime/state"
	"agentjail.dev/tests/env"
)

// TestOpenHook: the hook's program is that of a process which began before the jail's first one, and no other.
func TestOpenHook(t *testing.T) {
	mine, _, err := state.StartTime(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	var later *exec.Cmd
	env.Eventually(t, "a process that began later", func() bool { // the clock of processes is coarse
		later = exec.Command("sleep", "100")
		if err := later.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = later.Process.Kill(); _ = later.Wait() })
		began, _, err := state.StartTime(later.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		if began <= mine {
			_ = later.Process.Kill()
			_ = later.Wait()
		}
		return began > mine
	})
	hook := func(pid int) *network.Hook { return &network.Hook{Path: fmt.Sprintf("/proc/%d/exe", pid)} }
	f, err := openHook(hook(os.Getpid()), later.Process.Pid)
	if err != nil {
		t.Fatalf("the engine's: %v", err)
	}
	f.Close()
	for _, c := range []struct{ engine, jail int }{{later.Process.Pid, os.Getpid()}, {os.Getpid(), os.Getpid()}, {1 << 30, os.Getpid()}} {
		if f, err := openHook(hook(c.engine), c.jail); f != nil || !errors.Is(err, refusal.Err) {
			t.Errorf("%+v: %v, %v", c, f, err)
		}
	}
	for _, path := range []string{"/bin/sh", "/proc/self/exe", "/proc/1/exe/../../bin/sh", "/proc/01/exe", ""} {
		if f, err := openHook(&network.Hook{Path: path}, later.Process.Pid); f != nil || err == nil {
			t.Errorf("%q: %v, %v", path, f, err)
		}
	}
}
