package packages

import (
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// rpm is the package for distributions with rpm of a version.
func rpm(version string) string {
	return filepath.Join(made, version, "agentjail-"+version+"-1."+map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]+".rpm")
}

// TestRPM is a package's life where rpm installs it: installed, upgraded, removed. Debian's rpm has a database without packages, so that
// requirements are looked at and not held.
func TestRPM(t *testing.T) {
	if _, err := exec.LookPath("rpm"); err != nil {
		t.Skip("needs rpm: ", err)
	}
	m := newMachine(t)
	file := m.give(rpm(first))
	if out := m.must("rpm", "--query", "--requires", "--package", file); !strings.Contains(out, "(runc or crun)") {
		t.Errorf("it requires %q", out)
	}
	install := func(action, file string) {
		t.Helper()
		if r := m.run("rpm", action, "--nodeps", "--force-debian", file); r.Code != 0 || strings.Contains(r.Stderr, "scriptlet failed") {
			t.Fatal(r)
		} else {
			t.Logf("%s:\n%s%s", action, r.Stdout, r.Stderr)
		}
	}
	install("--install", file)
	if out := m.must("agentjail", "--version"); !strings.Contains(out, first) {
		t.Errorf("installed is %s", out)
	}
	if out := m.must("rpm", "--query", "--configfiles", "agentjail"); out != "/etc/agentjail/config.toml" {
		t.Errorf("the configuration files are %q", out)
	}
	m.must("rpm", "--verify", "--nodeps", "agentjail")
	m.must("agentjail", "install", "docker", "--default")
	m.must("sh", "-c", "echo 'limits.pids = 512' >>/etc/agentjail/config.toml")
	install("--upgrade", m.give(rpm(second)))
	if out := m.must("agentjail", "--version"); !strings.Contains(out, second) {
		t.Errorf("after the upgrade there is %s", out)
	}
	if !strings.Contains(m.must("cat", "/etc/agentjail/config.toml"), "limits.pids = 512") {
		t.Error("the upgrade changed the administrator's policy")
	}
	if !strings.Contains(m.must("cat", "/etc/docker/daemon.json"), "/usr/bin/agentjail") {
		t.Error("the upgrade took agentjail out of Docker's configuration")
	}
	install("--erase", "agentjail")
	if m.exists("/etc/docker/daemon.json") {
		t.Errorf("Docker's configuration is\n%s", m.must("cat", "/etc/docker/daemon.json"))
	}
	more, less := m.written("/var/lib/rpm", "/root/.rpmdb", "/etc/agentjail", "/var/lib/agentjail", "/var/log/agentjail")
	if len(more)+len(less) > 0 {
		t.Errorf("left after the removal: %.2000q; gone: %.2000q", more, less)
	}
	if m.must("ls", "/etc/agentjail") != "config.toml.rpmsave" {
		t.Error("the administrator's policy is gone")
	}
}
