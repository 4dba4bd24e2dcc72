package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// TestNamesOverDocker: a network by name under an engine: the resolver's file is ours on every network of Docker's, allowed names have an
// address and others none, also for an exec'd process, inspect sees the helper, the engine's verbs work beside it, and nothing of it is left. Who is reached is tests/names'.
func TestNamesOverDocker(t *testing.T) {
	needAgentjail(t)
	d := d(t)
	for _, network := range []string{"bridge", "none"} {
		id := d.Detached("--runtime=agentjail-names", "--network", network, engine.Busybox, "sleep", "3600")
		env.Equal(t, network+": resolv.conf", d.Must("exec", id, "cat", "/etc/resolv.conf"), "nameserver 127.0.0.1")
		for name, want := range map[string]string{"api.example.test": "127.64.", "deep.a.wild.example.test": "127.64.", "other.example.test": "NXDOMAIN", "wild.example.test": "NXDOMAIN"} {
			if out := d.Docker("exec", id, "nslookup", "-type=a", name, "127.0.0.1").String(); !strings.Contains(out, want) {
				t.Errorf("%s: %s: %s", network, name, out)
			}
		}
		for _, to := range []string{"8.8.8.8 53", "127.63.255.254 443", "127.0.0.11 53"} {
			if r := d.Docker("exec", id, "sh", "-c", "nc "+to+" </dev/null"); r.Code == 0 {
				t.Errorf("%s: %s is reached: %s", network, to, r)
			}
		}
		out, code := ownVerb(t, "inspect", id)
		if code != 0 || !strings.Contains(out, "only lo; names by helper") {
			t.Errorf("%s: inspect: exit code %d: %s", network, code, out)
		}
		out, code = ownVerb(t, "network", "check", id, "api.example.test:22")
		if code != 1 || !strings.Contains(out, "refused") || !strings.Contains(out, "network.allow") {
			t.Errorf("%s: network check: exit code %d: %s", network, code, out)
		}
		// The engine does not take the helper for a process of the jail's.
		if out := d.Must("top", id); strings.Contains(out, "agentjail") {
			t.Errorf("%s: top: %s", network, out)
		}
		for _, verb := range [][]string{{"update", "--cpus", "0.5", id}, {"stats", "--no-stream", id}, {"pause", id}, {"unpause", id}} {
			d.Must(verb...)
		}
		if out := d.Docker("exec", id, "nslookup", "-type=a", "api.example.test", "127.0.0.1").String(); !strings.Contains(out, "127.64.") {
			t.Errorf("%s: after pause and update: %s", network, out)
		}
		d.Must("rm", "-f", id)
		if left, _ := filepath.Glob("/run/agentjail/jails/*" + id); len(left) > 0 {
			t.Errorf("%s: left: %v", network, left)
		}
		_ = filepath.Walk("/sys/fs/cgroup", func(path string, _ os.FileInfo, err error) error {
			if err == nil && strings.Contains(path, id) {
				t.Errorf("%s: left: %s", network, path)
			}
			return nil
		})
	}
}
