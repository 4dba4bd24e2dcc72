package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// bare makes a bundle and a caller of the runtime under test, which keeps its state in a directory of the test's own.
func bare(t *testing.T, id string) (*engine.Bundle, engine.Caller) {
	t.Helper()
	needAgentjail(t)
	t.Parallel()
	under := env.Get(t, engine.UnderTest)
	base := filepath.Join(docker.Dir, id)
	env.Check(t, os.Mkdir(base, 0o711))
	b := engine.NewBundle(t, base)
	c := engine.Caller{Path: under, Args: []string{"--root", filepath.Join(base, "state")}}
	t.Cleanup(func() { _, _, _ = b.Call(t, c, "delete", "--force", id) })
	return b, c
}

// TestOwnName: a bundle without a name, and one without a UTS namespace, get the jail's id, and inspect names it.
func TestOwnName(t *testing.T) {
	const id = "e2e-own_name"
	b, c := bare(t, id)
	b.Spec.Hostname = ""
	b.Spec.Linux.Namespaces = slices.DeleteFunc(b.Spec.Linux.Namespaces, func(n specs.LinuxNamespace) bool { return n.Type == specs.UTSNamespace })
	b.Spec.Process.Args = []string{"sleep", "3600"}
	if _, errOut, err := b.Call(t, c, "run", "--detach", "--bundle", b.Dir, id); err != nil {
		t.Fatal(err, errOut)
	}
	out, _, err := b.Call(t, c, "exec", id, "uname", "-n")
	if err != nil || strings.TrimSpace(out) != "e2e-own-name" {
		t.Errorf("%v: %q", err, out)
	}
	out, _, _ = b.Call(t, c, "inspect", "--json", id)
	var r struct{ Hostname string }
	if err := json.Unmarshal([]byte(out), &r); err != nil || r.Hostname != "e2e-own-name" {
		t.Errorf("inspect: %v: %q", err, r.Hostname)
	}
}

// TestVariables: variables that steer Go's runtime, a C library or a delegate change no program of agentjail's in the jail. All of the
// container's reach its program as they are, duplicates and their order too, at run and exec.
func TestVariables(t *testing.T) {
	const id = "e2e-variables"
	b, c := bare(t, id)
	own := append(b.Spec.Process.Env,
		"GODEBUG=inittrace=1,gctrace=1,schedtrace=1", "GOTRACEBACK=crash", "GOGC=1", "GOMEMLIMIT=none", "GOMAXPROCS=3", "GOCOVERDIR=/", "A=1", "LD_PRELOAD=/none.so",
		"LD_DEBUG=all", "A=2", "_LIBCONTAINER_LOGLEVEL=5", "GOGC=2", "HOME=", "NOTIFY_SOCKET=/x", "LONG="+strings.Repeat("x", 100<<10), "TAR_OPTIONS=", "ASAN_OPTIONS=", "LSAN_OPTIONS=")
	b.Spec.Process.Env = own
	b.Spec.Process.Args = []string{"cat", "/proc/self/environ"}
	want := strings.Join(own, "\x00") + "\x00"
	out, errOut, err := b.Call(t, c, "run", "--bundle", b.Dir, id)
	if err != nil || strings.Count(errOut, "\n") != strings.Count(errOut, "agentjail: ") || out != want {
		t.Errorf("run: %v: %s%.400q", err, errOut, out)
	}
	b.Spec.Process.Args = []string{"sleep", "3600"}
	if _, errOut, err := b.Call(t, c, "run", "--detach", "--bundle", b.Dir, id); err != nil {
		t.Fatal(err, errOut)
	}
	out, errOut, err = b.Call(t, c, "exec", id, "cat", "/proc/self/environ")
	if err != nil || errOut != "" || out != want {
		t.Errorf("exec: %v: %s%.400q", err, errOut, out)
	}
}

// TestUmask: the mask of config.json holds for the first process and, where exec names none, for a further one
// (moby, TestContainerExecWithUmask and TestHealthCheckUmask).
func TestUmask(t *testing.T) {
	zero, all, some := uint32(0), uint32(0o777), uint32(0o27)
	for name, v := range map[string]struct {
		first, further *uint32
		want           string
	}{
		"none": {nil, nil, "0022"}, "0000": {&zero, nil, "0000"}, "0777": {&all, nil, "0777"}, "both": {&all, &some, "0027"},
	} {
		t.Run(name, func(t *testing.T) {
			id := "e2e-umask-" + name
			b, c := bare(t, id)
			b.Spec.Process.User.Umask = v.first
			b.Spec.Process.Args = []string{"sleep", "3600"}
			if _, errOut, err := b.Call(t, c, "run", "--detach", "--bundle", b.Dir, id); err != nil {
				t.Fatal(err, errOut)
			}
			p := *b.Spec.Process
			p.Args, p.User.Umask = []string{"sh", "-c", "umask"}, v.further
			data, err := json.Marshal(p)
			env.Check(t, err)
			file := filepath.Join(b.Dir, "process.json")
			env.Check(t, os.WriteFile(file, data, 0o600))
			out, errOut, err := b.Call(t, c, "exec", "--process", file, id)
			if err != nil || strings.TrimSpace(out) != v.want {
				t.Errorf("exec: %v: %q %s", err, out, errOut)
			}
			want := v.want
			if v.further != nil {
				want = "0777"
			}
			out, _, err = b.Call(t, c, "exec", id, "grep", "Umask", "/proc/1/status")
			if f := strings.Fields(out); err != nil || len(f) != 2 || f[1] != want {
				t.Errorf("the first process: %v: %q, want %s", err, out, want)
			}
		})
	}
}

// TestBundlesFilterAnswers: a filter of the bundle's own answers as under runc; one that runc refuses is refused.
func TestBundlesFilterAnswers(t *testing.T) {
	errno := uint(5)
	for name, v := range map[string]struct {
		rule specs.LinuxSyscall
		want string
	}{
		"number":   {specs.LinuxSyscall{Names: []string{"mkdir"}, Action: specs.ActErrno, ErrnoRet: &errno}, "Input/output error"},
		"none":     {specs.LinuxSyscall{Names: []string{"mkdir"}, Action: specs.ActErrno}, "Operation not permitted"},
		"listener": {specs.LinuxSyscall{Names: []string{"mkdir"}, Action: specs.ActNotify}, "SCMP_ACT_NOTIFY is not for jails"},
		"unknown":  {specs.LinuxSyscall{Names: []string{"mkdir"}, Action: "SCMP_ACT_ODD"}, "is not an action"},
	} {
		t.Run(name, func(t *testing.T) {
			id := "e2e-errno-" + name
			b, c := bare(t, id)
			b.Spec.Linux.Seccomp = &specs.LinuxSeccomp{DefaultAction: specs.ActAllow, Syscalls: []specs.LinuxSyscall{v.rule}}
			b.Spec.Process.Args = []string{"mkdir", "/made"}
			_, errOut, err := b.Call(t, c, "run", "--bundle", b.Dir, id)
			if err == nil || !strings.Contains(errOut, v.want) {
				t.Errorf("%v: %q, want %q", err, errOut, v.want)
			}
		})
	}
}

// TestKeptOptions: times of access and the sysctls that engines set are as the bundle has them, and a dropped hook is reported.
func TestKeptOptions(t *testing.T) {
	const id = "e2e-kept"
	b, c := bare(t, id)
	b.Spec.Mounts = append(b.Spec.Mounts, specs.Mount{Destination: "/kept", Type: "bind", Source: directory(t, 1000), Options: []string{"rbind", "noatime"}})
	b.Spec.Linux.Sysctl = map[string]string{"net.ipv4.ip_unprivileged_port_start": "0", "net.ipv4.ping_group_range": "0 2147483647"}
	b.Spec.Hooks = &specs.Hooks{Poststop: []specs.Hook{{Path: "/bin/true"}}}
	b.Spec.Process.Args = []string{"sh", "-c", "grep ' /kept ' /proc/self/mounts; cat /proc/sys/net/ipv4/ip_unprivileged_port_start /proc/sys/net/ipv4/ping_group_range"}
	out, errOut, err := b.Call(t, c, "run", "--bundle", b.Dir, id)
	if err != nil {
		t.Fatal(err, errOut)
	}
	env.Contain(t, "mounts", out, "noatime")
	env.Contain(t, "sysctls", out, "\n0\n0\t65535\n")
	env.Contain(t, "log", errOut, "hooks.poststop: /bin/true dropped")
}

// TestLeastPids: a jail starts with a few processes, and is refused below the least (moby, TestRunPIDsLimit). At the least itself
// the threads of the delegate's runtime decide, whose number depends on the machine.
func TestLeastPids(t *testing.T) {
	b, c := bare(t, "e2e-least")
	b.Spec.Process.Args = []string{"true"}
	run := func(limit int64) (string, error) {
		b.Spec.Linux.Resources = &specs.LinuxResources{Pids: &specs.LinuxPids{Limit: &limit}}
		_, errOut, err := b.Call(t, c, "run", "--bundle", b.Dir, "e2e-least")
		return errOut, err
	}
	for range 5 {
		if errOut, err := run(9); err != nil {
			t.Fatal(err, errOut)
		}
	}
	errOut, err := run(4)
	if err == nil {
		t.Fatal("a jail starts with four processes")
	}
	env.Contain(t, "the refusal", errOut, "limits.pids of 4 is below 5, the least with which a jail starts (remedy: limits.pids of 5 or more")
}
