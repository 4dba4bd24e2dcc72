package facts

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/network/engine"
	"agentjail.dev/runtime/spec/network"
	"agentjail.dev/runtime/spec/policy"
	"agentjail.dev/runtime/state"
)

// pin keeps a network namespace as a file, as CNI does.
func pin(t *testing.T, ns string) string {
	t.Helper()
	at := filepath.Join(t.TempDir(), "netns")
	if err := os.WriteFile(at, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(ns, at, "", unix.MS_BIND, ""); err != nil {
		t.Skipf("mounting: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(at, unix.MNT_DETACH) })
	return at
}

// Which network namespaces count as made by the engine: those that are pinned, and those of jails
// that have one. The host's never does, under whatever name, nor does that of any process.
func TestEnginesNetwork(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	sleep := func() *exec.Cmd {
		cmd := exec.Command("sleep", "1000")
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
		if err := cmd.Start(); err != nil {
			t.Skipf("a process in a network namespace of its own: %v", err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
		return cmd
	}
	modeOf := func(open bool) string {
		if open {
			return policy.NetworkEngine
		}
		return policy.NetworkNone
	}
	netOf := func(pid int) string { return fmt.Sprintf("/proc/%d/ns/net", pid) }
	g := Gatherer{Store: state.Store{Root: t.TempDir()}}
	// Two processes stand for jails, one with the engine's network and one sealed.
	jails := map[bool]*exec.Cmd{true: sleep(), false: sleep()}
	for open, cmd := range jails {
		start, _, err := state.StartTime(cmd.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		id := fmt.Sprintf("open-%v", open)
		j := &state.Jail{Brief: state.Brief{ID: id, Key: state.Key("", id), BootID: state.BootID(), InitPid: cmd.Process.Pid, InitStart: start, Network: network.Decision{Mode: modeOf(open), Namespace: network.Own}}}
		if err := g.Store.Create(j); err != nil {
			t.Fatal(err)
		}
	}
	other := sleep().Process.Pid
	for _, c := range []struct {
		name, path string
		engine     bool
		jail       string
	}{
		{"pinned", pin(t, netOf(other)), true, ""},
		{"of a process", netOf(other), false, ""},
		{"the host's", netOf(os.Getpid()), false, ""},
		{"the host's, pinned", pin(t, netOf(os.Getpid())), false, ""},
		{"of a jail that has it", netOf(jails[true].Process.Pid), true, "open-true"},
		{"of a jail that has it, pinned", pin(t, netOf(jails[true].Process.Pid)), true, "open-true"},
		{"of a sealed jail", netOf(jails[false].Process.Pid), false, ""}, // identified by its owner, which here is the host
		{"of a sealed jail, pinned", pin(t, netOf(jails[false].Process.Pid)), false, ""},
	} {
		s := &specs.Spec{Linux: &specs.Linux{Namespaces: []specs.LinuxNamespace{{Type: "network", Path: c.path}}}}
		joins, _, err := g.joinedNamespaces(s)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		got := joins["network"]
		// These jails share the host's user namespace, which no jail does: nothing but the network
		// reports them.
		if held := got.Pinned || got.Mode == policy.NetworkEngine; held != c.engine || c.engine && got.Jail != c.jail || got.Pinned && got.Jail != "" {
			t.Errorf("%s: %+v", c.name, got)
		}
		f, err := engine.Mode{}.Prepare(network.Decision{Mode: policy.NetworkEngine, Namespace: network.Given}, s)
		if hosts := c.name == "the host's" || c.name == "the host's, pinned"; (err != nil) != hosts {
			t.Errorf("%s: opening it: %v", c.name, err)
		}
		if f != nil {
			f.Close()
		}
	}
}
