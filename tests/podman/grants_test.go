package podman

import (
	"encoding/base64"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"agentjail.dev/tests/contract/promise"
	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// loosening are options by which podman run gives a container more than the default. A jail starts without the grants.
// (TestLooseningOptionsStartPlainJail in tests/e2e tries each by itself: what podman makes of them differs in the mounts and namespaces.)
var loosening = []struct {
	name    string
	options []string
}{
	{"--privileged", []string{"--privileged"}},
	{"one by one", []string{"--cap-add", "ALL", "--security-opt", "seccomp=unconfined", "--security-opt", "unmask=ALL", "--device", "/dev/fuse", "--device-cgroup-rule", "a *:* rwm"}},
	{"the host's namespaces", []string{"--pid", "host", "--ipc", "host", "--uts", "host", "--userns", "host", "--cgroupns", "host"}},
	{"annotations", annotations},
}

// annotations are those by which crun leaves protections away (crun(1)).
var annotations = []string{
	"--annotation", "run.oci.seccomp_bpf_data=" + allowAll, "--annotation", "run.oci.seccomp_fail_unknown_syscall=0",
	"--annotation", "run.oci.keep_original_groups=1", "--annotation", "run.oci.systemd.subgroup=other",
}

// allowAll is a filter of one instruction, BPF_RET of SECCOMP_RET_ALLOW, as crun's annotation takes it (crun(1)).
var allowAll = base64.StdEncoding.EncodeToString([]byte{0x06, 0, 0, 0, 0, 0, 0xff, 0x7f})

// TestLooseningOptionsStartPlainJail: options that would loosen a container start a plain jail.
func TestLooseningOptionsStartPlainJail(t *testing.T) {
	for _, g := range loosening {
		t.Run(g.name, func(t *testing.T) {
			p := root(t)
			tamed(t, p, g.name, p.Detached(append(append([]string{"--network=none"}, g.options...), engine.Busybox, "sleep", "3600")...))
		})
	}
}

// tamed tests that a running container is a jail like any other.
func tamed(t *testing.T, p *engine.PodmanT, what, id string) {
	t.Helper()
	held(t, p, what, probeIn[engine.Who](p, id, "identity"))
	attempts(t, p, id)
}

// attempts tests that nothing of what the probe tries in a running container gets through.
func attempts(t *testing.T, p *engine.PodmanT, id string) {
	t.Helper()
	for name, o := range probeIn[map[string]engine.Outcome](p, id, "attempts") {
		if !engine.Refused(name, o) {
			t.Errorf("%s: %s %s", name, o.Errno, o.Note)
		}
	}
	for broke, how := range probeIn[map[string]string](p, id, "attack") {
		t.Errorf("%s: %s", broke, how)
	}
	for dev := range strings.FieldsSeq(sh(p, id, "ls /dev")) {
		if dev == "fuse" || dev == "kvm" || dev == "mem" || strings.HasPrefix(dev, "vd") {
			t.Errorf("the device %s", dev)
		}
	}
	env.Equal(t, "processes of the host", sh(p, id, "cat /proc/[0-9]*/comm | grep -c -e podman -e conmon -e agentjail; true"), "0")
}

// TestJailsByCrun: with crun, podman's own choice, in runc's place, and with the annotations that only crun reads.
func TestJailsByCrun(t *testing.T) {
	if !engine.UnderTestIsAgentjail() {
		t.Skip("the runtime under test is not agentjail")
	}
	if _, err := exec.LookPath("crun"); err != nil {
		t.Skip("no crun on this machine:", err)
	}
	dir := env.Get(t, engine.BinDir)
	config := filepath.Join(dir, "crun.toml")
	env.Put(t, config, "delegate = \"crun\"\n", 0o644, 0)
	flag := "--runtime-flag=config=" + config
	for name, get := range map[string]func(*testing.T) *engine.PodmanT{"root": root, "user": user} {
		t.Run(name, func(t *testing.T) {
			p := get(t)
			id := strings.TrimSpace(p.Must(append([]string{flag, "run", "-d", "--network=none"}, append(annotations, engine.Busybox, "sleep", "3600")...)...))
			t.Cleanup(func() { p.Remove("rm", "-f", "-t", "0", id) })
			tamed(t, p, "the jail", id)
			env.Equal(t, "exit code of an exec", p.Podman("exec", id, "sh", "-c", "exit 4").Code, 4)
		})
	}
}

// TestWithoutCgroups: podman leaves limits away only for runtimes of which it knows that they can do without.
func TestWithoutCgroups(t *testing.T) {
	p := root(t)
	if r := p.Podman("run", "--rm", "--network=none", "--cgroups=disabled", engine.Busybox, "true"); r.Code == 0 {
		t.Errorf("a container without limits: %s", r)
	}
}

// noNetwork ends a test whose container was not started, as podman cannot make networks on some machines.
func noNetwork(t *testing.T, r engine.Result) {
	t.Helper()
	if strings.Contains(r.Stderr, "netavark") || strings.Contains(r.Stderr, "iptables") || strings.Contains(r.Stderr, "nftables") {
		t.Skip("podman cannot make networks on this machine:", r.Stderr)
	}
	t.Fatal(r)
}

// TestNetworks: nothing but lo, on each kind of network.
func TestNetworks(t *testing.T) {
	for _, options := range [][]string{nil, {"--network=host"}, {"--network=none"}, {"--publish=127.0.0.1:5055:80"}} {
		t.Run(strings.Join(append([]string{"run"}, options...), " "), func(t *testing.T) {
			p := root(t)
			r := p.Podman(append(append([]string{"run", "-d"}, options...), engine.Busybox, "sleep", "3600")...)
			id := strings.TrimSpace(r.Stdout)
			if id != "" {
				t.Cleanup(func() { p.Remove("rm", "-f", "-t", "0", id) })
			}
			if r.Code != 0 {
				noNetwork(t, r)
			}
			promise.Jailed(t, "the jail", probeIn[engine.Who](p, id, "identity"))
			for to, o := range probeIn[map[string]engine.Outcome](p, id, "connect", "tcp,10.88.0.1:80", "udp,10.0.0.1:53", "tcp,[2001:db8::1]:80") {
				if o.Errno == "" || o.Errno == "ECONNREFUSED" {
					t.Errorf("%s: %q", to, o.Errno)
				}
			}
		})
	}
}

// TestDeniedOptions: what a jail has in another way, or not, is reported or refused, with the remedy. The remedies work.
func TestDeniedOptions(t *testing.T) {
	if !engine.UnderTestIsAgentjail() {
		t.Skip("the runtime under test is not agentjail")
	}
	p := root(t)
	// The kernel refuses noswap in a user namespace; the jail has no swap.
	if r := p.Podman("run", "--rm", "--network=none", "--tmpfs=/t:noswap", engine.Busybox, "touch", "/t/x"); r.Code != 0 && !strings.Contains(r.Stderr, "unknown mount option") {
		t.Errorf("noswap: %s", r)
	}
	for option, want := range map[string][2]string{
		"--mount=type=ramfs,dst=/t": {"type=tmpfs", "--mount=type=tmpfs,dst=/t"},
		"--uidmap=0:1000:10000":     {"0:100000:65536", "--uidmap=0:100000:65536"},
	} {
		r := p.Podman("run", "--rm", "--network=none", option, engine.Busybox, "true")
		if strings.Contains(r.Stderr, "invalid filesystem type") {
			continue // of Podman 4.3
		}
		if r.Code == 0 || !strings.Contains(r.Stderr, "(remedy: ") || !strings.Contains(r.Stderr, want[0]) {
			t.Errorf("%s: %s", option, r)
		}
		mustRunJail(p, want[1], engine.Busybox, "true")
	}
	const name = "preserved"
	p.Run(nil, "sh", "-c", "exec podman run -d --name="+name+" --network=none --preserve-fds=1 "+engine.Busybox+" sleep 3600 3</dev/null").Must(t)
	t.Cleanup(func() { p.Remove("rm", "-f", "-t", "0", name) })
	r := p.Run(nil, filepath.Join(filepath.Dir(under), "agentjailctl"), "denied", name)
	env.Contain(t, "agentjail denied", r.Stdout, "privilege.denied --preserve-fds")
}
