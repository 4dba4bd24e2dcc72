package inside

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"agentjail.dev/tests/contract/promise"
	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// shims are Docker's ways to the shim: by its name, without any registration; and as a runtime of
// daemon.json whose options name a profile.
var shims = []string{"io.containerd.agentjail.v2", "agentjail-shim"}

// isJail tests what `probe identity` printed of a process.
func isJail(t testing.TB, what, said string) {
	t.Helper()
	w := promise.Identity(t, said)
	promise.Confined(t, what, w)
	promise.OnlyLo(t, what, w)
}

// TestShim: docker run with the shim in containerd's place of its own, by either way, gives the
// same jail.
func TestShim(t *testing.T) {
	need(t, "apparmor")
	for _, runtime := range shims {
		t.Run(runtime, func(t *testing.T) {
			isJail(t, "run", docker(t, "run", "--rm", "--runtime="+runtime, image, "probe", "identity"))
			r := run(t, "docker", "run", "--rm", "--privileged", "--runtime="+runtime, image, "sh", "-c", "probe identity; exit 7")
			env.Equal(t, "status", r.Code, 7)
			isJail(t, "run --privileged", r.Stdout)
			id := detached(t, "--runtime="+runtime, "-m", "64m")
			isJail(t, "exec", docker(t, "exec", id, "probe", "identity"))
			isJail(t, "exec --privileged", docker(t, "exec", "--privileged", id, "probe", "identity"))
			g := group(t, id)
			env.Equal(t, "memory.max", read(t, filepath.Join(g, "memory.max")), "67108864")
			docker(t, "update", "-m", "32m", "--memory-swap", "32m", id)
			env.Equal(t, "memory.max after update", read(t, filepath.Join(g, "memory.max")), "33554432")
			if out := docker(t, "stats", "--no-stream", "--format", "{{.MemUsage}} {{.PIDs}}", id); !strings.HasSuffix(out, "/ 32MiB 1") {
				t.Errorf("stats: %q", out)
			}
			if out := docker(t, "top", id); !strings.Contains(out, "sleep 3600") {
				t.Errorf("top: %q", out)
			}
			docker(t, "pause", id)
			docker(t, "unpause", id)
			docker(t, "restart", "-t", "0", id)
			isJail(t, "after restart", docker(t, "exec", id, "probe", "identity"))
			pid := docker(t, "inspect", "-f", "{{.State.Pid}}", id)
			shim := env.Status(t, pid, "PPid")
			if exe, _ := os.Readlink("/proc/" + shim + "/exe"); filepath.Base(exe) != "containerd-shim-agentjail-v2" {
				t.Errorf("the jail's parent is %q", exe)
			}
			if r := run(t, "agentjail", "inspect", id); r.Code != 0 || strings.Contains(r.Stdout, "BROKEN") {
				t.Errorf("inspect: %s", r)
			}
		})
	}
	// The profile of the registration's options is in force: its delegate is crun.
	id := detached(t, "--runtime="+shims[1])
	env.Contain(t, "the jail's record", read(t, filepath.Join(engine.JailDir(t, id), "state.json")), "crun")
}

// TestAnnotation: docker run --annotation (Docker 24) can tighten, and not loosen.
func TestAnnotation(t *testing.T) {
	need(t, "apparmor")
	for annotation, want := range map[string]string{"dev.agentjail.limits.pids=77": "77", "dev.agentjail.limits.pids=100000": "1024"} {
		id := detached(t, "--runtime=agentjail", "--annotation", annotation)
		env.Equal(t, annotation, read(t, filepath.Join(group(t, id), "pids.max")), want)
	}
}

// TestImageStore: a second dockerd that keeps images in containerd
// (features.containerd-snapshotter), whose root file systems lie elsewhere and are mounted by
// another program.
func TestImageStore(t *testing.T) {
	need(t, "apparmor")
	second := secondDocker(t, "image-store", `{"features":{"containerd-snapshotter":true},"runtimes":{"agentjail":{"path":"/usr/local/bin/agentjail"}},"exec-opts":["native.cgroupdriver=cgroupfs"]}`)
	d := func(args ...string) string { t.Helper(); return docker(t, second.args(args...)...) }
	if out := d("info", "-f", "{{.DriverStatus}}"); !strings.Contains(out, "io.containerd.snapshotter.v1") {
		t.Fatalf("this dockerd has no containerd image store: %s", out)
	}
	for _, runtime := range []string{"agentjail", shims[0]} {
		isJail(t, runtime, d("run", "--rm", "--network=none", "--runtime="+runtime, image, "probe", "identity"))
		got := d("run", "--rm", "--network=none", "--runtime="+runtime, image, "sh", "-c", "stat -c '%u %a' /etc/image-secret; echo more >>/etc/passwd && echo written; df -k / | tail -n 1 | tr -s ' ' | cut -d' ' -f2")
		env.Equal(t, runtime+": root", got, "0 600\nwritten\n1048576")
	}
	env.Equal(t, "the image, afterwards", run(t, append([]string{"docker"}, second.args("run", "--rm", "--network=none", "--runtime=runc", image, "grep", "-c", "more", "/etc/passwd")...)...).Stdout, "0")
	if text := read(t, "/proc/self/mountinfo"); strings.Contains(text, second.store+"/rootfs/") {
		t.Error("root file systems stay mounted")
	}
}

// A dockerd is a second Docker, over the machine's containerd.
type dockerd struct {
	config, pidfile, socket, store string
	command                        []string
	process                        *exec.Cmd
}

// secondDocker starts a dockerd with that configuration file, whose images and containers are in
// directories and a containerd namespace of that name, loads the image, and ends it with the test.
func secondDocker(t *testing.T, name, config string) *dockerd {
	t.Helper()
	dir := t.TempDir()
	d := &dockerd{config: filepath.Join(dir, "daemon.json"), pidfile: filepath.Join(dir, "pid"), socket: filepath.Join(dir, "docker.sock"), store: "/var/lib/docker-" + name}
	env.Check(t, os.WriteFile(d.config, []byte(config), 0o600))
	// In a network namespace of its own: without a bridge, it would take the other Docker's away.
	d.command = []string{
		"unshare", "--net", "dockerd", "--config-file", d.config, "--host", "unix://" + d.socket, "--data-root", d.store, "--exec-root", dir + "/run",
		"--pidfile", d.pidfile, "--containerd", "/run/containerd/containerd.sock", "--containerd-namespace", name, "--bridge=none", "--iptables=false",
	}
	d.up(t)
	t.Cleanup(func() { d.down(t) })
	archive := filepath.Join(dir, "image.tar")
	docker(t, "save", "-o", archive, image)
	docker(t, d.args("load", "-i", archive)...)
	return d
}

// args are the arguments of a docker command of this Docker's.
func (d *dockerd) args(args ...string) []string {
	return append([]string{"-H", "unix://" + d.socket}, args...)
}

// up starts the daemon and waits until it answers.
func (d *dockerd) up(t *testing.T) {
	t.Helper()
	log, err := os.CreateTemp(t.TempDir(), "log-")
	env.Check(t, err)
	defer log.Close()
	d.process = command(d.command...)
	d.process.Stdout, d.process.Stderr = log, log
	env.Check(t, d.process.Start())
	if !env.Poll(commandWait, func() bool { return run(t, append([]string{"docker"}, d.args("version")...)...).Code == 0 }) {
		d.down(t)
		t.Fatalf("the second dockerd does not answer: %s", read(t, log.Name()))
	}
}

// down ends the daemon.
func (d *dockerd) down(t *testing.T) {
	_ = d.process.Process.Signal(os.Interrupt)
	if err := d.process.Wait(); err != nil {
		t.Logf("the second dockerd: %v", err)
	}
}

// TestSystemdDriver: where systemd makes the control groups, a jail's are a scope with policy's
// limits, through the command line and through the shim, and nothing is left of it.
func TestSystemdDriver(t *testing.T) {
	needSystemd(t)
	for _, runtime := range append(runtimes, shims[0]) {
		t.Run(runtime, func(t *testing.T) {
			inScope(t, runtime, func(args ...string) string { t.Helper(); return docker(t, args...) })
		})
	}
}

// TestSystemdInstalled: what install docker registers is the shim, whose jails are scopes of
// systemd's, outlive the daemon (live-restore), and are its containers again afterwards.
func TestSystemdInstalled(t *testing.T) {
	needSystemd(t)
	second := secondDocker(t, "installed", `{"live-restore":true,"exec-opts":["native.cgroupdriver=systemd"]}`)
	d := func(args ...string) string { t.Helper(); return docker(t, second.args(args...)...) }
	must(t, "agentjail", "install", "docker", "--daemon-config", second.config, "--pidfile", second.pidfile, "--socket", second.socket)
	env.Equal(t, "driver", d("info", "-f", "{{.CgroupDriver}} {{.CgroupVersion}} {{.LiveRestoreEnabled}}"), "systemd 2 true")
	inScope(t, "agentjail", d)

	id := d("run", "-d", "--network=none", "--runtime=agentjail", "--pids-limit", "77", image, "sleep", "3600")
	pid := d("inspect", "-f", "{{.State.Pid}}", id)
	if exe, _ := os.Readlink("/proc/" + env.Status(t, pid, "PPid") + "/exe"); filepath.Base(exe) != "containerd-shim-agentjail-v2" {
		t.Errorf("the jail's parent is %q", exe)
	}
	second.down(t)
	second.up(t)
	env.Equal(t, "after a restart of the daemon", d("inspect", "-f", "{{.State.Running}} {{.State.Pid}}", id), "true "+pid)
	isJail(t, "exec after a restart of the daemon", d("exec", id, "probe", "identity"))
	scope := scopeOf(id)
	d("update", "--pids-limit", "66", id)
	env.Equal(t, "pids.max after a restart of the daemon", read(t, scope+"/pids.max"), "66")
	d("rm", "-f", id)
	if _, err := os.Stat(scope); err == nil {
		t.Error("its group stays")
	}
}

// needSystemd skips a test where systemd does not make the control groups.
func needSystemd(t *testing.T) {
	t.Helper()
	if os.Getenv(vmEnv) == "" {
		t.Skip("only in the virtual machine (make test-vm)")
	}
	if _, err := os.Stat("/run/systemd/system"); err != nil {
		t.Skip("is run where systemd makes the control groups (guest/under-systemd)")
	}
	need(t, "apparmor")
}

// scopeOf is the control group that systemd makes for a container of Docker's.
func scopeOf(id string) string { return "/sys/fs/cgroup/system.slice/docker-" + id + ".scope" }

// inScope makes a jail with d, which runs docker, and tests its control group.
func inScope(t *testing.T, runtime string, d func(args ...string) string) {
	t.Helper()
	id := d("run", "-d", "--network=none", "--runtime="+runtime, "-m", "64m", "--pids-limit", "77", image, "sleep", "3600")
	scope := scopeOf(id)
	g := groupOf(t, d("inspect", "-f", "{{.State.Pid}}", id))
	if g != scope && g != scope+"/container" { // crun makes the latter
		t.Errorf("its group is %s", g)
	}
	env.Equal(t, "memory.max", read(t, scope+"/memory.max"), "67108864")
	env.Equal(t, "pids.max", read(t, scope+"/pids.max"), "77")
	env.Equal(t, "memory.swap.max", read(t, g+"/memory.swap.max"), "0")
	env.Equal(t, "systemd knows it", must(t, "systemctl", "show", "-p", "ActiveState", "--value", "docker-"+id+".scope"), "active")
	isJail(t, "exec", d("exec", id, "probe", "identity"))
	d("update", "--pids-limit", "66", id)
	env.Equal(t, "pids.max after update", read(t, scope+"/pids.max"), "66")
	d("rm", "-f", id)
	if _, err := os.Stat(scope); err == nil {
		t.Error("its group stays")
	}
}
