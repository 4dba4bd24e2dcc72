package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"agentjail.dev/seccomp"
	"agentjail.dev/seccomp/readback"
	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// proved is what `agentjail seccomp prove --json` states.
type proved []struct {
	Profile string
	Of      string
	Holds   bool
	Claims  []struct {
		Claim, Detail string
		Holds         bool
	}
}

// TestLoadedFilters: what the kernel holds for the processes of a jail lets
// nothing pass that its profile does not list, whatever the engine requested, also
// for a process that an exec brings in; and an engine's tighter filter stays in
// force for calls that the init step itself makes.
func TestLoadedFilters(t *testing.T) {
	needAgentjail(t)
	if _, err := readback.Filters(os.Getppid()); err != nil {
		t.Skipf("filters cannot be read here: %v", err)
	}
	tight := filepath.Join(t.TempDir(), "tight.json")
	if err := os.WriteFile(tight, []byte(`{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names":
		["landlock_restrict_self", "landlock_create_ruleset", "sched_getaffinity", "getrandom", "close_range", "chmod", "socket"], "action": "SCMP_ACT_ERRNO"}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		options []string
		profile string
		fewer   int // calls than the profile allows: those that the engine refuses
		padding int // filters beside the two
	}{
		"plain":      {nil, "default", 0, 0},
		"unconfined": {[]string{"--security-opt", "seccomp=unconfined"}, "default", 0, 0},
		"privileged": {[]string{"--privileged"}, "default", 0, 0},
		"tight":      {[]string{"--security-opt", "seccomp=" + tight}, "default", 7, 0},
		"strict":     {[]string{"--runtime=agentjail-strict"}, "strict", 0, 0},
		"server":     {[]string{"--runtime=agentjail-server"}, "server", 0, 7},
		"kill":       {[]string{"--runtime=agentjail-kill"}, "default", 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			d := d(t)
			id := sleeper(d, c.options...)
			d.Must("exec", "-d", id, "sleep", "3600")
			awaitSleeps(d, id, 2)
			out, code := ownVerb(t, "seccomp", "prove", "--json", "--jail", id)
			if code != 0 {
				t.Fatalf("exit code %d: %s", code, out)
			}
			entries, err := seccomp.Entries(c.profile, runtime.GOARCH)
			env.Check(t, err)
			entries = slices.DeleteFunc(entries, func(e seccomp.Entry) bool { return e.Errno != "" })
			count := fmt.Sprintf("%d pass", len(entries)-c.fewer)
			p := env.Decode[struct{ Proofs proved }](d, out).Proofs
			if len(p) != 1 {
				t.Errorf("%d sets of filters: %s", len(p), out)
			}
			for _, p := range p {
				if !p.Holds || p.Profile != c.profile || !strings.Contains(p.Of, fmt.Sprintf("the %d filters", 2+c.padding)) {
					t.Errorf("%s, profile %s: holds %v", p.Of, p.Profile, p.Holds)
				}
				i := slices.IndexFunc(p.Claims, func(c struct {
					Claim, Detail string
					Holds         bool
				},
				) bool {
					return strings.HasPrefix(c.Claim, "at most")
				})
				if i < 0 || p.Claims[i].Detail != count {
					t.Errorf("%s: want %s: %+v", p.Of, count, p.Claims)
				}
			}
		})
	}
	t.Run("not a jail", func(t *testing.T) {
		if out, code := ownVerb(t, "seccomp", "prove", "--jail", "no-such-jail"); code == 0 {
			t.Errorf("proved: %s", out)
		}
	})
}

// TestViolationKills: with seccomp.on_violation = "kill" a call that the profile
// does not list ends the process; ordinary work goes on.
func TestViolationKills(t *testing.T) {
	needAgentjail(t)
	d := d(t)
	for _, rt := range []string{"--runtime=agentjail-kill", "--runtime=agentjail-strict-kill"} {
		env.Equal(t, rt+": a shell", d.Must("run", "--rm", rt, engine.Busybox, "sh", "-c", "echo a | cat; mkdir /tmp/x && ls /tmp"), "a\nx")
		id := d.Detached(rt, engine.Busybox, "sleep", "3600")
		for what, command := range map[string]string{"unshare": "unshare -m true", "mount": "mount -t tmpfs none /mnt", "chroot": "chroot / true", "set-id bit": "touch /tmp/f; chmod u+s /tmp/f"} {
			// The shell's status of a command that SIGSYS ended.
			env.Equal(t, rt+": "+what, d.Must("exec", id, "sh", "-c", command+" 2>/dev/null; echo $?"), "159")
		}
	}
	// Without it the same calls are only refused.
	env.Equal(t, "unshare", mustRunJail(d, engine.Busybox, "sh", "-c", "unshare -m true 2>/dev/null; echo $?"), "1")
}
