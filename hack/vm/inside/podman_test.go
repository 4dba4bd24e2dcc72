package inside

import (
	"strings"
	"testing"

	"agentjail.dev/tests/contract/promise"
	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// podman runs a jail to its end. Its netavark plumbs the network before the runtime is called, so
// the default network is part of the test.
func podman(t testing.TB, args ...string) engine.Result {
	t.Helper()
	return run(t, append([]string{"podman", "--runtime=/usr/local/bin/agentjail", "--cgroup-manager=cgroupfs", "--log-level=error"}, args...)...)
}

// TestPodman: the same jail through conmon and Podman 5.
func TestPodman(t *testing.T) {
	need(t, "apparmor")
	env.Check(t, importImage("podman", "import", "-q"))
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
			"probe identity; exit 7")...)
		if r.Code != 7 {
			t.Errorf("podman run %s: %s", name, r)
			continue
		}
		w := promise.Identity(t, r.Stdout)
		promise.Jailed(t, "podman run "+name, w)
		promise.OnlyLo(t, "podman run "+name, w)
	}
	r := podman(t, "run", "-d", "--network=none", image, "sleep", "3600")
	if r.Code != 0 {
		t.Fatal(r)
	}
	id := r.Stdout
	defer podman(t, "rm", "-f", "-t", "0", id)
	if r := podman(t, "exec", id, "echo", "inside"); r.Stdout != "inside" {
		t.Error(r)
	}
	for _, verb := range []string{"pause", "unpause", "top", "inspect"} {
		if r := podman(t, verb, id); r.Code != 0 {
			t.Error(r)
		}
	}
	if r := podman(t, "kill", "-s", "KILL", id); r.Code != 0 {
		t.Error(r)
	}
	if r := podman(t, "wait", id); r.Stdout != "137" {
		t.Error(r)
	}
}
