package packages

import (
	"strings"
	"testing"
)

// TestPackageFirst: the package may come before the engine, and go after it.
func TestPackageFirst(t *testing.T) {
	m := newMachine(t)
	const programs = "/usr/sbin/dockerd /usr/bin/docker /usr/bin/containerd /usr/bin/ctr"
	m.must("sh", "-euc", "mkdir /tmp/engine; mv "+programs+" /tmp/engine/")
	m.must("dpkg", "--install", m.give(deb(first)))
	r := m.run("agentjail", "install", "docker", "--default")
	t.Logf("registered before Docker is there: %s", r)
	if r.Code != 0 || !m.exists("/etc/docker/daemon.json") {
		t.Errorf("registered before Docker is there: %s", r)
	}
	m.must("sh", "-euc", "for f in "+programs+"; do mv /tmp/engine/${f##*/} $f; done")
	m.docker()
	if !m.isJail() {
		t.Error("an engine that came later runs no jails by default")
	}
	m.must("docker", "system", "prune", "--all", "--force")
	m.must("sh", "-euc", "kill $(pidof dockerd); while pidof dockerd; do sleep 0.05; done; rm "+programs)
	r = m.run("dpkg", "--purge", "agentjail")
	if r.Code != 0 || !strings.Contains(r.Stdout, "/etc/docker/daemon.json") {
		t.Errorf("purged after Docker: %s", r)
	}
	t.Logf("purged after Docker:\n%s%s", r.Stdout, r.Stderr)
	if out := m.run("sh", "-c", "ls -d /etc/agentjail /usr/bin/*agentjail* /var/lib/agentjail; grep -l agentjail /etc/docker/*").Stdout; out != "" {
		t.Errorf("left:\n%s", out)
	}
}
