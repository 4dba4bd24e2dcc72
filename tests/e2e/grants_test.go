package e2e

import (
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// grants are options by which docker run gives a container more than the default. A jail starts without the grant.
var grants = []struct {
	name    string
	options []string
	says    string // what the log names
}{
	{"--privileged", []string{"--privileged"}, "capabilities"},
	{"--cap-add ALL", []string{"--cap-add", "ALL"}, "CAP_"},
	{"--cap-add SYS_ADMIN", []string{"--cap-add", "SYS_ADMIN"}, "CAP_SYS_ADMIN"},
	{"seccomp=unconfined", []string{"--security-opt", "seccomp=unconfined"}, "seccomp"},
	{"apparmor=unconfined", []string{"--security-opt", "apparmor=unconfined"}, ""},
	{"no-new-privileges=false", []string{"--security-opt", "no-new-privileges=false"}, ""},
	{"--pid host", []string{"--pid", "host"}, "pid"},
	{"--ipc host", []string{"--ipc", "host"}, "ipc"},
	{"--uts host", []string{"--uts", "host"}, "uts"},
	{"--network host", []string{"--network", "host"}, "net"},
	{"--userns host", []string{"--userns", "host"}, ""},
	{"--cgroupns host", []string{"--cgroupns", "host"}, ""},
	{"--device fuse", []string{"--device", "/dev/fuse"}, "/dev/fuse"},
	{"--device kvm", []string{"--device", "/dev/kvm"}, "/dev/kvm"},
	{"--device-cgroup-rule", []string{"--device-cgroup-rule", "a *:* rwm"}, ""},
	{"--ulimit", []string{"--ulimit", "nofile=1000000:1000000"}, ""},
	{"--oom-kill-disable", []string{"--oom-kill-disable", "-m", "64m"}, ""},
	{"--sysctl", []string{"--sysctl", "net.ipv4.ip_forward=1"}, "net.ipv4.ip_forward"},
}

// TestLooseningOptionsStartPlainJail: options that would loosen a container start a plain jail, and the loss is reported.
func TestLooseningOptionsStartPlainJail(t *testing.T) {
	for _, g := range grants {
		t.Run(g.name, func(t *testing.T) {
			d := d(t)
			options := g.options
			if options[0] == "--device" {
				options = []string{"--device", device(t, options[1])}
			}
			r := d.Docker(append(append([]string{"run", "-d", jail}, options...), engine.Busybox, "sleep", "3600")...)
			id := strings.TrimSpace(r.Stdout)
			if id != "" {
				t.Cleanup(func() { d.Remove(id) })
			}
			if r.Code != 0 {
				t.Fatal(r)
			}
			jailed(t, "the jail", probeIn[who](d, nil, id, "identity"))
			sealed(t, "the jail", probeIn[links](d, nil, id, "interfaces"))
			for name, o := range probeIn[map[string]outcome](d, nil, id, "attempts") {
				if !refused(name, o) {
					t.Errorf("%s: %s %s", name, o.Errno, o.Note)
				}
			}
			for what, how := range probeIn[map[string]string](d, nil, id, "attack") {
				t.Errorf("%s: %s", what, how)
			}
			if dev := sh(d, id, "cd /dev && ls"); strings.Contains(dev, "kvm") || strings.Contains(dev, "fuse") || strings.Contains(dev, "vda") || strings.Contains(dev, "mem\n") {
				t.Errorf("devices: %s", strings.Fields(dev))
			}
			if g.says != "" {
				log := runtimeLog(t, d, id)
				if !strings.Contains(log, `"level":"warning"`) || !strings.Contains(log, g.says) {
					t.Errorf("the runtime's log has no warning that names %q: %s", g.says, log)
				}
			}
		})
	}
}

// deviceNumbers are those of misc devices (Documentation/admin-guide/devices.txt).
var deviceNumbers = map[string]uint64{"/dev/fuse": unix.Mkdev(10, 229), "/dev/kvm": unix.Mkdev(10, 232)}

// device is docker's option for a device of the host. Where there is none, it gets a node with that number: the engine does not open it.
func device(t *testing.T, path string) string {
	t.Helper()
	if exists(path) {
		return path
	}
	node := filepath.Join(t.TempDir(), filepath.Base(path))
	env.Check(t, unix.Mknod(node, unix.S_IFCHR|0o600, int(deviceNumbers[path])))
	return node + ":" + path
}

// TestGrantsRefused: the host's owner can have such containers refused instead.
func TestGrantsRefused(t *testing.T) {
	needAgentjail(t)
	d := d(t)
	const rt = "--runtime=agentjail-refuse"
	for _, options := range [][]string{{"--privileged"}, {"--cap-add", "SYS_ADMIN"}, {"--pid", "host"}, {"--security-opt", "seccomp=unconfined"}} {
		r := d.Docker(append(append([]string{"run", "--rm", rt}, options...), engine.Busybox, "true")...)
		if r.Code == 0 {
			t.Errorf("%v starts", options)
		} else if !strings.Contains(r.Stderr, "refuse") {
			t.Errorf("%v: the reason is not reported: %s", options, r.Stderr)
		}
	}
	env.Equal(t, "a plain container", d.Must("run", "--rm", rt, engine.Busybox, "echo", "starts"), "starts")
}

// TestExecLoosensNothing: an exec gets no more than its jail, whatever it requests.
func TestExecLoosensNothing(t *testing.T) {
	d := d(t)
	id := sleeper(d)
	for _, options := range [][]string{{"--privileged"}, {"--privileged", "-u", "0"}, {"-u", "0"}, {"-u", "1000"}} {
		what := "docker exec " + strings.Join(options, " ")
		jailed(t, what, probeIn[who](d, options, id, "identity"))
		for name, o := range probeIn[map[string]outcome](d, options, id, "attempts") {
			if !refused(name, o) {
				t.Errorf("%s: %s: %s %s", what, name, o.Errno, o.Note)
			}
		}
		for broke, how := range probeIn[map[string]string](d, options, id, "attack") {
			t.Errorf("%s: %s: %s", what, broke, how)
		}
	}
}

// runtimeLog is what the runtime logged for a running container: containerd keeps it in the container's bundle.
func runtimeLog(t testing.TB, d *engine.T, id string) string {
	t.Helper()
	return string(env.Read(t, d.Dir+"/containerd-run/io.containerd.runtime.v2.task/moby/"+id+"/log.json"))
}
