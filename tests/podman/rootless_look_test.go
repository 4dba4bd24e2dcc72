package podman

import (
	"encoding/json"
	"strings"
	"testing"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// TestRootlessLook: agentjail's own commands show an ordinary user the user's own jails.
func TestRootlessLook(t *testing.T) {
	p := user(t)
	if !engine.UnderTestIsAgentjail() {
		t.Skip("the runtime under test is not agentjail")
	}
	dir := shared(t, p, engine.RootlessUID)
	id := startJail(p, "-v", dir+":/work", engine.Busybox, "sleep", "3600")
	r := p.Run(nil, under, "inspect", "--json", id)
	var seen struct {
		Holds    bool
		Findings []struct{ Name, Verdict, Seen string }
	}
	if err := json.Unmarshal([]byte(r.Stdout), &seen); err != nil || r.Code != 0 || !seen.Holds {
		t.Fatalf("%v: %s", err, r)
	}
	holds := map[string]bool{}
	for _, f := range seen.Findings {
		holds[f.Name] = f.Verdict == "holds"
	}
	for _, protection := range []string{"namespaces", "namespace owner", "network", "root", "tmpfs", "rlimits", "capabilities", "no_new_privs", "masked paths", "read-only paths", "seccomp"} {
		if !holds[protection] {
			t.Errorf("%s does not hold: %s", protection, r.Stdout)
		}
	}
	for _, protection := range []string{"user ids", "bind mounts"} {
		if holds[protection] {
			t.Errorf("%s is stated to hold", protection)
		}
	}
	list := p.Run(nil, under, "list")
	env.Contain(t, "list", list.Stdout, id)
	env.Contain(t, "list", list.Stdout, "running")
	env.Equal(t, "exit code of gc", p.Run(nil, under, "gc").Code, 0)
	env.Equal(t, "the jail after gc", sh(p, id, "echo here"), "here")
}

// TestRootlessCheck: what an ordinary user cannot have is named, with what can be done.
func TestRootlessCheck(t *testing.T) {
	p := user(t)
	if !engine.UnderTestIsAgentjail() {
		t.Skip("the runtime under test is not agentjail")
	}
	r := p.Run(nil, under, "check", "--json")
	var said struct {
		CanStart bool
		Results  []struct{ Name, Status, Remedy string }
	}
	if err := json.Unmarshal([]byte(r.Stdout), &said); err != nil || !said.CanStart || r.Code != 0 {
		t.Fatalf("%v: %s", err, r)
	}
	for _, x := range said.Results {
		switch x.Name {
		case "privileges", "id-pool", "idmapped-mounts":
			if x.Status != "warning" || !strings.Contains(x.Remedy, "run the engine as root") {
				t.Errorf("%s: %+v", x.Name, x)
			}
		case "namespaces", "user-namespace", "overlay", "network-seal", "landlock", "seccomp", "state", "policy":
			if x.Status != "ok" {
				t.Errorf("%s: %+v", x.Name, x)
			}
		case "delegate": // Debian 12's crun has no command `features`
			if x.Status != "ok" && !strings.HasPrefix(x.Remedy, "a newer release ") {
				t.Errorf("%s: %+v", x.Name, x)
			}
		}
	}
}

// TestRootlessForkBomb: where no group bounds a jail, the number of its processes is bounded all the same, by the resource
// limit, which counts in each user namespace (Linux 5.14).
func TestRootlessForkBomb(t *testing.T) {
	p := user(t)
	got := env.Decode[struct {
		Started int    `json:"started"`
		Errno   string `json:"errno"`
	}](t, mustRunJail(p, engine.Busybox, "probe", "forks", "3000"))
	if got.Errno != "EAGAIN" || got.Started > 1100 {
		t.Errorf("%d processes came to be, then %q", got.Started, got.Errno)
	}
}
