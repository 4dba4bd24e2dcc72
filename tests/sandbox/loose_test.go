package sandbox

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// A delegate that does not do what the hardened bundle states: the init step inside the jail has to notice, each time, and
// the jail's program must not run. What is changed in the bundle, and what the refusal names.
var loosened = []struct {
	name, from, to string
	want           string
}{
	{"a capability", `"capabilities":{}`, `"capabilities":{"bounding":["CAP_NET_RAW"]}`, "ring 1, access: CapBnd is "},
	{"new privileges", `"noNewPrivileges":true`, `"noNewPrivileges":false`, ", NoNewPrivs is 0 and must be 1"},
	{"another user", `"user":{"uid":0,"gid":0}`, `"user":{"uid":7,"gid":0}`, "ring 1, access: Uid is 7 7 7 7"},
	{"a group", `"user":{"uid":0,"gid":0}`, `"user":{"uid":0,"gid":0,"additionalGids":[42]}`, "ring 1, access: the process is in group 42"},
	{"no filter", `"seccomp":{`, `"none":{`, "ring 0, kernel surface: no system call filter is loaded"},
	{"the host's control groups", `,{"type":"cgroup"}`, ``, "ring 2, resources: the cgroup namespace is the host's"},
	{"no masks", `"maskedPaths":[`, `"none":[`, " is not masked"},
	{"writable settings", `"readonlyPaths":[`, `"none":[`, "ring 1, access: /proc/sys is not read-only"},
	{"set-id programs", `"destination":"/tmp","type":"tmpfs","source":"tmpfs","options":["nosuid","nodev",`, `"destination":"/tmp","type":"tmpfs","source":"tmpfs","options":["nodev",`, "ring 1, access: the mount at /tmp lacks nosuid or nodev"},
	{"a file left open", "", "", "ring 1, access: file 5 was left open (/etc/hostname)"},
}

// delegate writes a delegate that changes bundles before runc sees them, and a policy that names it.
func delegate(t *testing.T, from, to string) (policy string) {
	t.Helper()
	runc, err := exec.LookPath("runc")
	if err != nil {
		t.Fatal("needs runc (hack/deps.sh installs it): ", err)
	}
	dir := env.Get(t, engine.BinDir)
	if dir, err = os.MkdirTemp(dir, "loose-"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	env.Check(t, os.Chmod(dir, 0o755))
	script := "#!/bin/bash\nexec 5</etc/hostname\nexec " + runc + ` "${@/#2/3}"` + "\n" // --preserve-fds 2
	if from != "" {
		quote := strings.NewReplacer("[", `\[`, "]", `\]`, "*", `\*`).Replace
		script = "#!/bin/bash\nfor a; do [ \"$last\" = --bundle ] && sed -i 's|" + quote(from) + "|" + to + "|' \"$a/config.json\"; last=$a; done\nexec " + runc + ` "$@"` + "\n"
	}
	path := filepath.Join(dir, "runc-loose")
	policy = filepath.Join(dir, "config.toml")
	env.Check(t, os.WriteFile(path, []byte(script), 0o755))
	env.Check(t, os.WriteFile(policy, fmt.Appendf(nil, "delegate = %q\n", path), 0o644))
	return policy
}

func TestLooseDelegate(t *testing.T) {
	// Nothing is loosened: the way of doing it does no harm.
	out, err := exec.Command(bin, "--config", delegate(t, "nothing of the kind", ""), "sandbox", "--", "echo", "ran").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "ran") {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, c := range loosened {
		t.Run(c.name, func(t *testing.T) {
			cmd := exec.Command(bin, "--config", delegate(t, c.from, c.to), "sandbox", "--", "echo", "ran")
			out, _ := cmd.CombinedOutput()
			if code := cmd.ProcessState.ExitCode(); code != 125 || !strings.Contains(string(out), "refusing to start: ") || !strings.Contains(string(out), c.want) {
				t.Errorf("status %d, want 125 and %q\n%s", code, c.want, out)
			}
			if strings.Contains(string(out), "ran") {
				t.Error("the program ran")
			}
		})
	}
}

// TestOtherUserNS: a delegate that makes a user namespace instead of joining the jail's is refused from outside.
func TestOtherUserNS(t *testing.T) {
	cmd := exec.Command(bin, "--config", delegate(t, `"type":"user","path":`, `"type":"user","none":`), "sandbox", "--", "echo", "ran")
	out, _ := cmd.CombinedOutput()
	const want = "refused: the delegate used a different user namespace"
	if cmd.ProcessState.ExitCode() == 0 || !strings.Contains(string(out), want) {
		t.Errorf("%v, want %q\n%s", cmd.ProcessState, want, out)
	}
	if strings.Contains(string(out), "\nran") {
		t.Error("the program ran")
	}
}

// TestLateKilled: a delegate that leaves the OOM score as it was is put right from outside, before the program runs.
func TestLateKilled(t *testing.T) {
	out, err := exec.Command(bin, "--config", delegate(t, `"oomScoreAdj":900`, `"oomScoreAdj":0`), "sandbox", "--", "cat", "/proc/self/oom_score_adj").CombinedOutput()
	if err != nil || !strings.HasSuffix(strings.TrimSpace(string(out)), "900") {
		t.Errorf("%v\n%s", err, out)
	}
}
