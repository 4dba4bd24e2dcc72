package inside

import (
	"strings"
	"testing"
)

// podman runs a jail to its end. Its netavark plumbs the network before the runtime is called, so the default network is
// part of the test.
func podman(t testing.TB, args ...string) result {
	t.Helper()
	return run(t, append([]string{"podman", "--runtime=/usr/local/bin/agentjail", "--cgroup-manager=cgroupfs", "--log-level=error"}, args...)...)
}

// TestPodman: the same jail through conmon and Podman 5.
func TestPodman(t *testing.T) {
	need(t, "apparmor")
	for _, c := range []struct {
		options []string
		network bool
	}{
		{[]string{"--network=none"}, false},
		{nil, true},
		{[]string{"--privileged", "--network=none"}, false},
	} {
		name := strings.Join(c.options, " ")
		r := podman(t, append(append([]string{"run", "--rm"}, c.options...), image, "sh", "-c",
			"grep -c '^Cap.*0000000000000000$' /proc/self/status; grep NoNewPrivs /proc/self/status | tr -d '\\t'; "+interfaces+"; cut -c 1-22 /proc/self/uid_map | tr -s ' '; exit 7")...)
		if r.code != 7 {
			t.Errorf("podman run %s: %s", name, r)
			continue
		}
		lines := strings.Split(r.out, "\n")
		if len(lines) < 4 || lines[0] != "5" || lines[1] != "NoNewPrivs:1" || lines[2] != "lo" || strings.HasPrefix(strings.TrimSpace(lines[3]), "0 0") {
			t.Errorf("podman run %s: %s", name, r)
		}
	}
	r := podman(t, "run", "-d", "--network=none", image, "sleep", "3600")
	if r.code != 0 {
		t.Fatal(r)
	}
	id := r.out
	defer podman(t, "rm", "-f", "-t", "0", id)
	if r := podman(t, "exec", id, "echo", "inside"); r.out != "inside" {
		t.Error(r)
	}
	for _, verb := range []string{"pause", "unpause", "top", "inspect"} {
		if r := podman(t, verb, id); r.code != 0 {
			t.Error(r)
		}
	}
	if r := podman(t, "kill", "-s", "KILL", id); r.code != 0 {
		t.Error(r)
	}
	if r := podman(t, "wait", id); r.out != "137" {
		t.Error(r)
	}
}
