package podman

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"agentjail.dev/apparmor"
	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// TestRootlessProfile: where root has loaded the profile it confines an ordinary user's jails, too, and it alone, although distributions (Debian
// 13) give the delegate a profile that confines nothing. One that confines the delegate is not left: no jail starts, and check reports why.
func TestRootlessProfile(t *testing.T) {
	p := user(t)
	if !apparmor.Enabled() {
		t.Skip("this kernel runs without AppArmor")
	}
	if !engine.UnderTestIsAgentjail() {
		t.Skip("the runtime under test is not agentjail")
	}
	const ours, want = "agentjail-default", "agentjail-default (enforce)"
	if _, err := apparmor.Ensure(t.Context(), apparmor.Params{Name: ours}); err != nil {
		t.Fatal(err)
	}
	profile(t, "abi <abi/4.0>, profile crun /usr/bin/crun flags=(unconfined) { userns, }")
	profile(t, "abi <abi/4.0>, profile runc /usr/{bin,sbin}/runc flags=(unconfined) { userns, }")

	id := startJail(p, engine.Busybox, "sleep", "3600")
	env.Equal(t, "first process", sh(p, id, "cat /proc/1/attr/current"), want)
	env.Equal(t, "exec", sh(p, id, "cat /proc/self/attr/current"), want)
	sh(p, id, "sleep 1000 & kill $!")
	p.Must("stop", "-t", "0", id)
	if x := checked(p, "lsm"); x.Status != "ok" {
		t.Errorf("%+v", x)
	}
	if x := checked(p, "delegate-label"); x.Status != "ok" || !strings.Contains(x.Detail, "/crun: crun (unconfined), which confines nothing and is left") {
		t.Errorf("%+v", x)
	}

	for _, name := range []string{"crun", "runc"} {
		profile(t, "abi <abi/4.0>, profile "+name+" /usr/{bin,sbin}/"+name+" { all, }")
	}
	if r := p.Podman("run", "--rm", "--network=none", engine.Busybox, "true"); r.Code == 0 {
		t.Errorf("a jail starts under a profile that confines its delegate: %s", r)
	}
	if x := checked(p, "delegate-label"); x.Status != "warning" || !strings.Contains(x.Detail, "(enforce), which stays") {
		t.Errorf("%+v", x)
	}
}

// profile loads a profile for the length of the test.
func profile(t *testing.T, text string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "profile")
	env.Check(t, os.WriteFile(file, []byte(text+"\n"), 0o600))
	parse := func(verb ...string) error {
		out, err := exec.Command("apparmor_parser", append(verb, file)...).CombinedOutput()
		if err != nil {
			t.Logf("apparmor_parser %s: %s", verb, out)
		}
		return err
	}
	env.Check(t, parse("--replace", "--skip-cache"))
	t.Cleanup(func() { _ = parse("--remove") }) // the first of two with one name removes both
}

// A finding is one of agentjail check's.
type finding struct{ Name, Status, Detail, Remedy string }

// checked is what check, run by the place's user, states under a name.
func checked(p *engine.PodmanT, name string) finding {
	p.Helper()
	r := p.Run(nil, under, "check", "--json")
	var said struct{ Results []finding }
	if err := json.Unmarshal([]byte(r.Stdout), &said); err != nil {
		p.Fatalf("%v: %s", err, r)
	}
	for _, x := range said.Results {
		if x.Name == name {
			return x
		}
	}
	p.Fatalf("check states nothing of %s: %s", name, r)
	return finding{}
}
