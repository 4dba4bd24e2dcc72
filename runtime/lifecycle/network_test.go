package lifecycle

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/network/engine"
	"agentjail.dev/runtime/network/modes"
	"agentjail.dev/runtime/spec/credential"
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
	r := &Runtime{Store: state.Store{Root: t.TempDir()}}
	// Two processes stand for jails, one with the engine's network and one sealed.
	jails := map[bool]*exec.Cmd{true: sleep(), false: sleep()}
	for open, cmd := range jails {
		start, _, err := state.StartTime(cmd.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		id := fmt.Sprintf("open-%v", open)
		j := &state.Jail{Brief: state.Brief{ID: id, Key: state.Key("", id), BootID: state.BootID(), InitPid: cmd.Process.Pid, InitStart: start, Network: network.Decision{Mode: modeOf(open), Namespace: network.Own}}}
		if err := r.Store.Create(j); err != nil {
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
		joins, _, err := r.joinedNamespaces(s)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		got := joins["network"]
		// These jails share the host's user namespace, which no jail does: nothing but the network
		// tells of them.
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

// TestBriefRules: what the part of a record that start reads says of rules is what the whole record
// says, and nothing once they have changed.
func TestBriefRules(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: the state directory is root's")
	}
	named, err := modes.Named(policy.NetworkNames)
	if err != nil {
		t.Fatal(err)
	}
	r := &Runtime{Store: state.Store{Root: t.TempDir()}}
	made := func(id string, allow ...string) *state.Jail {
		p := policy.Default()
		p.Network.Mode, p.Network.Allow, p.Network.Servers = policy.NetworkNames, allow, []string{"192.0.2.1"}
		return &state.Jail{Brief: state.Brief{ID: id, Key: state.Key("", id), BootID: state.BootID(), Network: network.Decision{Mode: policy.NetworkNames, Namespace: network.Own}}, Policy: p}
	}
	var many []string
	for i := range 500 {
		many = append(many, fmt.Sprintf("n%d.example.test", i))
	}
	credentials, joined := made("credentials", "a.example.test"), made("joined", "a.example.test")
	credentials.Policy.Credentials = credential.Set{"key": {Hosts: []string{"a.example.test"}}}
	joined.Network.Namespace = network.Joined
	for _, c := range []struct {
		j     *state.Jail
		brief bool
	}{{made("few", "b.example.test:22", "*.a.example.test"), true}, {made("none"), true}, {made("many", many...), false}, {credentials, false}, {joined, false}} {
		t.Run(c.j.ID, func(t *testing.T) {
			var err error
			if c.j.Rules, err = briefRules(named, c.j); err != nil || (c.j.Rules != nil) != c.brief {
				t.Fatalf("%+v, %v", c.j.Rules, err)
			}
			if err := r.Store.Create(c.j); err != nil {
				t.Fatal(err)
			}
			brief, err := r.Store.Brief(c.j.Key)
			if err != nil || (brief.Rules != nil) != c.brief {
				t.Fatalf("%+v, %v", brief, err)
			}
			got, err := r.rulesOf(brief)
			brief.Rules = nil
			want, werr := r.rulesOf(brief)
			if err := errors.Join(err, werr); err != nil || fmt.Sprint(got) != fmt.Sprint(want) || len(got.Servers) != 1 {
				t.Errorf("%+v, not %+v (%v)", got, want, err)
			}
			if err := r.Store.SaveRules(c.j.Key, state.Rules{Allow: []string{"c.example.test"}, Pinned: []string{"c.example.test"}}); err != nil {
				t.Fatal(err)
			}
			if got, err = r.rulesOf(&c.j.Brief); err != nil || !slices.Equal(got.Allow, []string{"c.example.test:443,80"}) || len(got.Pinned) != 1 {
				t.Errorf("rules that have changed: %+v, %v", got, err)
			}
		})
	}
}
