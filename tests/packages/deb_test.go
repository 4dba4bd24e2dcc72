package packages

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// docker starts containerd and dockerd as a distribution's units do, with the configuration files that are in force by default, and
// makes an image.
func (m *machine) docker() {
	m.Helper()
	m.service("/tmp/containerd.log", []string{"test", "-S", "/run/containerd/containerd.sock"}, "containerd")
	m.service("/tmp/dockerd.log", []string{"docker", "version"}, "dockerd", "--containerd", "/run/containerd/containerd.sock",
		"--bridge=none", "--iptables=false", "--cgroup-parent", "/"+m.group())
	var tree bytes.Buffer
	env.Check(m, engine.BusyboxTree(&tree))
	env.Check(m, os.WriteFile(m.path("/tmp/busybox.tar"), tree.Bytes(), 0o644))
	m.must("docker", "import", "/tmp/busybox.tar", "busybox")
}

// isJail reports whether a container of Docker's default runtime has a jail's protections: a user namespace of its own, no capability, filters.
func (m *machine) isJail() bool {
	m.Helper()
	out := m.must("docker", "run", "--rm", "busybox", "sh", "-c", "cat /proc/self/uid_map; grep -e CapBnd -e Seccomp_filters /proc/self/status")
	f := strings.Fields(out)
	return len(f) >= 3 && f[1] != "0" && strings.Contains(out, "CapBnd:\t0000000000000000") && strings.Contains(out, "Seccomp_filters:\t2")
}

// profiles are AppArmor's, "" without AppArmor.
func (m *machine) profiles() string {
	m.Helper()
	return m.run("cat", "/sys/kernel/security/apparmor/profiles").Stdout
}

// TestDeb is a package's life on Debian: installed, registered with Docker, upgraded under a running jail, removed, purged.
func TestDeb(t *testing.T) {
	m := newMachine(t)
	start := time.Now()
	m.give(deb(first))
	r := m.apt("cd /tmp && apt install ./agentjail_*.deb")
	if r.Code != 0 || strings.Contains(r.Stderr, "error") {
		t.Fatal(r)
	}
	t.Logf("installed in %v:\n%s%s", time.Since(start), r.Stdout, r.Stderr)
	if !strings.Contains(r.Stdout, "agentjail: jails can start on this host") {
		t.Errorf("it does not state whether jails can start: %s", r)
	}
	if out := m.must("agentjail", "--version"); !strings.Contains(out, first) {
		t.Errorf("installed is %s", out)
	}
	m.must("agentjail", "check")
	if m.profiles() != "" && !strings.Contains(m.profiles(), "agentjail-default (enforce)") {
		t.Error("the AppArmor profile is not loaded")
	}
	if m.exists("/etc/docker/daemon.json") {
		t.Error("the package changed Docker's configuration")
	}

	m.docker()
	if m.isJail() {
		t.Error("a container is a jail before agentjail is registered")
	}
	if r := m.run("agentjail", "install", "docker", "--default"); r.Code != 0 {
		// An emulated machine can take longer than agentjail waits; a second call changes nothing more, and waits again.
		t.Log(r)
		m.must("agentjail", "install", "docker", "--default")
	}
	if !m.isJail() {
		t.Error("a container is no jail")
	}
	m.upgrade()
	m.remove()
	m.purge()
}

// apt runs a command of apt's as on a machine that has all that the package recommends, and has it answered.
func (m *machine) apt(command string) engine.Result {
	m.Helper()
	if err := os.WriteFile(m.path("/tmp/apt.conf"), []byte("APT::Install-Recommends \"false\"; APT::Get::Assume-Yes \"true\";\n"), 0o644); err != nil {
		m.Fatal(err)
	}
	return m.run("sh", "-c", "export APT_CONFIG=/tmp/apt.conf DEBIAN_FRONTEND=noninteractive; "+command)
}

// upgrade: a jail that runs meanwhile goes on, and is served by the new programs.
func (m *machine) upgrade() {
	m.Helper()
	id := m.must("docker", "run", "-d", "busybox", "sleep", "1000")
	pid := m.must("docker", "inspect", "--format", "{{.State.Pid}}", id)
	old := m.shimJail()
	config := "/etc/agentjail/config.toml"
	m.must("sh", "-c", "echo 'limits.pids = 512' >>"+config)
	// The new version's is the same: the administrator's stays without a question.
	m.must("install", "-D", m.give(deb(second)), "/tmp/dist/release/"+filepath.Base(deb(second)))
	r := m.apt(strings.ReplaceAll("cd /tmp && apt install ./dist/release/agentjail_*_amd64.deb", "amd64", runtime.GOARCH))
	if r.Code != 0 {
		m.Fatal(r)
	}
	m.Logf("upgraded:\n%s%s", r.Stdout, r.Stderr)
	if out := m.must("agentjail", "--version"); !strings.Contains(out, second) {
		m.Errorf("after the upgrade there is %s", out)
	}
	if !strings.Contains(m.must("cat", config), "limits.pids = 512") {
		m.Error("the upgrade changed the administrator's policy")
	}
	if now := m.must("docker", "inspect", "--format", "{{.State.Running}} {{.State.Pid}}", id); now != "true "+pid {
		m.Errorf("the jail that ran with process %s is %s after the upgrade", pid, now)
	}
	if out := m.must("docker", "exec", id, "sh", "-c", "grep Seccomp_filters /proc/self/status"); !strings.HasSuffix(out, "2") {
		m.Errorf("a process that joins it has %s", out)
	}
	m.must("agentjail", "inspect", id)
	if !m.isJail() {
		m.Error("a container is no jail after the upgrade")
	}
	old.served()
	// Nothing could stop it any more.
	if r := m.run("dpkg", "--remove", "agentjail"); r.Code == 0 || !strings.Contains(r.Stderr, "refused: 1 jails run") {
		m.Errorf("removed under a running jail: %s", r)
	}
	if !m.isJail() {
		m.Error("a container is no jail after the refused removal")
	}
	m.must("docker", "rm", "-f", id)
}

// remove: engines lead nowhere that is gone, and to what else is there.
func (m *machine) remove() {
	m.Helper()
	m.must("cp", "/usr/bin/agentjail", "/usr/bin/agentjailctl", "/usr/bin/agentjail-enter", "/usr/bin/agentjail-egress", "/usr/local/bin/")
	m.must("/usr/local/bin/agentjail", "install", "docker", "--name", "built")
	m.must("/usr/bin/agentjail", "install", "containerd")
	m.must("/usr/bin/agentjail", "install", "podman")
	r := m.run("dpkg", "--remove", "agentjail")
	if r.Code != 0 || !strings.Contains(r.Stdout, "/etc/docker/daemon.json") || !strings.Contains(r.Stdout, "/etc/containerd/config.toml") {
		m.Fatalf("it does not state what became of the engines' configuration: %s", r)
	}
	m.Logf("removed:\n%s%s", r.Stdout, r.Stderr)
	if m.isJail() {
		m.Error("a container is a jail although agentjail was removed")
	}
	conf := m.must("cat", "/etc/docker/daemon.json")
	if strings.Contains(conf, "/usr/bin/agentjail") || strings.Contains(conf, "default-runtime") || !strings.Contains(conf, "/usr/local/bin/agentjail") {
		m.Errorf("Docker's configuration is\n%s", conf)
	}
	if out := m.run("grep", "-rl", "/usr/bin/agentjail", "/etc/containerd", "/etc/containers").Stdout; out != "" {
		m.Errorf("engines still lead to what was removed:\n%s", out)
	}
	if !m.exists("/etc/agentjail/config.toml") {
		m.Error("removal took the administrator's policy away")
	}
	m.must("sh", "-c", "rm /usr/local/bin/agentjail*; rm /etc/docker/daemon.json*")
}

// purge: nothing is left.
func (m *machine) purge() {
	m.Helper()
	m.must("mkdir", "-p", "/var/lib/agentjail", "/var/log/agentjail")
	if r := m.run("dpkg", "--purge", "agentjail"); r.Code != 0 || strings.Contains(r.Stderr, "not removed") {
		m.Fatal(r)
	}
	for _, dir := range []string{"/etc/agentjail", "/var/lib/agentjail", "/var/log/agentjail"} {
		if m.exists(dir) {
			m.Errorf("%s is left after the purge", dir)
		}
	}
	// Besides what dpkg keeps of any package, and what is there on the machine that this is a copy of.
	more, less := m.written("/var/lib/dpkg", "/var/log", "/var/cache/man", "/run", "/etc/agentjail", "/var/lib/agentjail", "/opt/containerd")
	if len(more)+len(less) > 0 {
		m.Errorf("left after the purge: %.2000q; gone: %.2000q", more, less)
	}
	if out := m.run("sh", "-c", "find /var/lib/dpkg /run -xdev -name 'agentjail*' ! -name "+m.group()).Stdout; out != "" {
		m.Errorf("left after the purge:\n%s", out)
	}
	if strings.Contains(m.profiles(), "agentjail-default ") {
		m.Error("the AppArmor profile is still loaded")
	}
}
