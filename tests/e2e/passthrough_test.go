package e2e

import (
	"strings"
	"testing"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// TestPassthrough: a container of a profile that passes calls through is the delegate's own and no jail, and no jail has
// anything to do with it.
func TestPassthrough(t *testing.T) {
	needAgentjail(t)
	d := d(t)
	plain := func(options ...string) string {
		return d.Detached(append(append([]string{"--runtime=" + engine.Passthrough}, options...), engine.Busybox, "sleep", "3600")...)
	}
	id := plain("--ipc", "shareable")
	status := sh(d, id, "cat /proc/self/status")
	if !strings.Contains(status, "CapEff:\t00000000a80425fb") || !strings.Contains(status, "NoNewPrivs:\t0") || !strings.Contains(status, "Uid:\t0") {
		t.Errorf("not Docker's default container:\n%s", status)
	}
	env.Equal(t, "map of ids", strings.Join(strings.Fields(sh(d, id, "cat /proc/self/uid_map")), " "), "0 0 4294967295")
	// No jail joins it, whichever of the two was requested to.
	for _, option := range []string{"--network", "--ipc", "--pid"} {
		r := d.Docker("run", "--rm", jail, option, "container:"+id, engine.Busybox, "sh", "-c", `for n in /proc/self/ns/*; do readlink $n; done`)
		theirs := sh(d, id, `for n in /proc/self/ns/*; do readlink $n; done`)
		if theirs == "" {
			t.Fatal("no namespaces")
		}
		for ns := range strings.Lines(r.Stdout) {
			if strings.Contains(theirs, strings.TrimSpace(ns)) {
				t.Errorf("a jail with %s is in %s of a container that is no jail", option, ns)
			}
		}
	}
	// No verb of a jail's touches it.
	for _, args := range [][]string{{"exec", id, "true"}, {"start", id}, {"update", "--pids-limit", "9", id}, {"inspect", id}} {
		if out, code := ownVerb(t, args...); code == 0 {
			t.Errorf("agentjail %v: %s", args, out)
		}
	}
	if out, _ := ownVerb(t, "inspect", id); !strings.Contains(out, "a policy with passthrough made is no jail") {
		t.Errorf("inspect: %s", out)
	}
	d.Must("pause", id)
	d.Must("unpause", id)
	d.Must("restart", "-t", "0", id)
	env.Equal(t, "after a restart", sh(d, id, "echo alive"), "alive")
	d.Must("kill", id)
	env.Equal(t, "exit code", d.Must("wait", id), "137")
	// A jail's name and image do not make one.
	env.Equal(t, "by a variable", strings.TrimSpace(mustRunJail(d, "-e", "AGENTJAIL_PROFILE=passthrough", engine.Busybox, "grep", "-c", "^CapEff:.0000000000000000", "/proc/self/status")), "1")
}
