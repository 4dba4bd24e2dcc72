package contract

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/tests/contract/promise"
	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// commandLine is agentjail, called as engines call runc, on a bundle that requests what a jail does not get.
func commandLine(t *testing.T) *promise.Engine {
	under := env.Get(t, engine.UnderTest)
	return overBundle(t, under)
}

// control is runc alone on the same bundle. Each promise must fail there.
func control(t *testing.T) *promise.Engine {
	for _, name := range []string{"runc", "crun"} {
		for _, dir := range []string{"/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin"} {
			if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
				e := overBundle(t, path)
				if e.Lacks, err = promise.Shared(); err != nil {
					t.Fatal(err)
				}
				return e
			}
		}
	}
	t.Skip("no runc and no crun (hack/deps.sh installs them)")
	return nil
}

// overBundle is a runtime with a bundle of its own, which all containers have their root file system from.
func overBundle(t *testing.T, runtime string) *promise.Engine {
	base := engine.TempDir(t, "/var/tmp", "agentjail-contract-")
	b := engine.NewBundle(t, base)
	loosen(b.Spec)
	// A bundle of its own: what a verb after create reads of config.json (runc exec: the capabilities) is the ordinary one's.
	most := engine.NewBundle(t, base)
	loosen(most.Spec)
	allOf(most.Spec, heldCapabilities(t))
	c := engine.Caller{Path: runtime, Args: []string{"--root", filepath.Join(b.Dir, "state")}}
	ask := func(t testing.TB, b *engine.Bundle, command []string, args ...string) engine.Result {
		t.Helper()
		b.Spec.Process.Args = command
		return b.Result(t, c, args...)
	}
	return &promise.Engine{
		Start: func(t testing.TB, command ...string) *promise.Jail {
			t.Helper()
			id := b.ID()
			t.Cleanup(func() { b.Result(t, c, "delete", "--force", id) })
			for _, r := range []engine.Result{ask(t, b, command, "create", "--bundle", b.Dir, id), b.Result(t, c, "start", id)} {
				if r.Code != 0 {
					t.Fatal(r)
				}
			}
			exec := func(args ...string) func(...string) engine.Result {
				return func(command ...string) engine.Result {
					return b.Result(t, c, slices.Concat([]string{"exec"}, args, []string{id}, command)...)
				}
			}
			return &promise.Jail{
				ID: id, PID: stateOf(t, b, c, id).Pid,
				Exec: exec(), Privileged: exec("--cap", "CAP_SYS_ADMIN"),
				Kill: func() int {
					if r := b.Result(t, c, "kill", id, "KILL"); r.Code != 0 {
						t.Error(r)
					}
					env.Eventually(t, "the container's end", func() bool { return stateOf(t, b, c, id).Status == specs.StateStopped })
					return -1
				},
				Remove: func() {
					if r := b.Result(t, c, "delete", "--force", id); r.Code != 0 {
						t.Error(r)
					}
				},
			}
		},
		Run: func(t testing.TB, privileged bool, command ...string) engine.Result {
			t.Helper()
			b := b
			if privileged {
				b = most
			}
			id := b.ID()
			defer b.Result(t, c, "delete", "--force", id) // what a failed run left
			return ask(t, b, command, "run", "--bundle", b.Dir, id)
		},
		Viewed: func(t testing.TB, dir string, command ...string) func() engine.Result {
			b, id := engine.NewBundle(t, base), b.ID()
			loosen(b.Spec)
			b.Mount(dir, "/w")
			b.Spec.Annotations = map[string]string{}
			for _, a := range promise.ViewAnnotations {
				name, value, _ := strings.Cut(a, "=")
				b.Spec.Annotations[name] = value
			}
			return func() engine.Result {
				defer b.Result(t, c, "delete", "--force", id)
				return ask(t, b, command, "run", "--bundle", b.Dir, id)
			}
		},
		Query:  promise.Query,
		Places: []string{filepath.Join(b.Dir, "state", "%s")},
	}
}

// loosen takes the network namespace out of a configuration, and brings a device of the host's in.
func loosen(s *specs.Spec) {
	s.Linux.Namespaces = slices.DeleteFunc(s.Linux.Namespaces, func(n specs.LinuxNamespace) bool { return n.Type == specs.NetworkNamespace })
	s.Linux.Devices = []specs.LinuxDevice{{Path: "/dev/kmsg", Type: "c", Major: 1, Minor: 11}}
	s.Linux.Resources = &specs.LinuxResources{Devices: []specs.LinuxDeviceCgroup{{Allow: true, Access: "rwm"}}}
}

// heldCapabilities are all that this process has. runc cannot give others: on a machine where root lacks some, the control would not start.
func heldCapabilities(t *testing.T) []string {
	text := env.Read(t, "/proc/self/status")
	var held uint64
	for line := range strings.Lines(string(text)) {
		if set, ok := strings.CutPrefix(line, "CapEff:"); ok {
			var err error
			if held, err = strconv.ParseUint(strings.TrimSpace(set), 16, 64); err != nil {
				t.Fatal(err)
			}
		}
	}
	var names []string
	for number, name := range everyCapability {
		if held&(1<<number) != 0 {
			names = append(names, name)
		}
	}
	if !slices.Contains(names, "CAP_SYS_ADMIN") {
		t.Fatalf("without CAP_SYS_ADMIN (CapEff %x) no request is privileged", held)
	}
	return names
}

// everyCapability is what engines request with --privileged, by number (linux/capability.h).
var everyCapability = strings.Fields(`CAP_CHOWN CAP_DAC_OVERRIDE CAP_DAC_READ_SEARCH CAP_FOWNER CAP_FSETID CAP_KILL CAP_SETGID CAP_SETUID CAP_SETPCAP
	CAP_LINUX_IMMUTABLE CAP_NET_BIND_SERVICE CAP_NET_BROADCAST CAP_NET_ADMIN CAP_NET_RAW CAP_IPC_LOCK CAP_IPC_OWNER CAP_SYS_MODULE CAP_SYS_RAWIO
	CAP_SYS_CHROOT CAP_SYS_PTRACE CAP_SYS_PACCT CAP_SYS_ADMIN CAP_SYS_BOOT CAP_SYS_NICE CAP_SYS_RESOURCE CAP_SYS_TIME CAP_SYS_TTY_CONFIG CAP_MKNOD
	CAP_LEASE CAP_AUDIT_WRITE CAP_AUDIT_CONTROL CAP_SETFCAP CAP_MAC_OVERRIDE CAP_MAC_ADMIN CAP_SYSLOG CAP_WAKE_ALARM CAP_BLOCK_SUSPEND
	CAP_AUDIT_READ CAP_PERFMON CAP_BPF CAP_CHECKPOINT_RESTORE`)

// allOf requests as much as a bundle can, but other containers.
func allOf(s *specs.Spec, capabilities []string) {
	s.Process.Capabilities = &specs.LinuxCapabilities{Bounding: capabilities, Effective: capabilities, Permitted: capabilities}
	s.Linux.MaskedPaths, s.Linux.ReadonlyPaths, s.Linux.Seccomp = nil, nil, nil
}

func stateOf(t testing.TB, b *engine.Bundle, c engine.Caller, id string) specs.State {
	t.Helper()
	r := b.Result(t, c, "state", id)
	var s specs.State
	if err := json.Unmarshal([]byte(r.Stdout), &s); err != nil {
		t.Fatalf("%v: %s", err, r)
	}
	return s
}
