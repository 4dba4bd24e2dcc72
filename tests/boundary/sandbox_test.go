package boundary

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// TestExitStatusIsTheCommands: a command's status is the sandbox's, as with any delegate.
func TestExitStatusIsTheCommands(t *testing.T) {
	for _, c := range []struct {
		args []string
		code int
	}{
		{[]string{"true"}, 0},
		{[]string{"sh", "-c", "exit 7"}, 7},
		{[]string{"no-such-command"}, 127},
		{[]string{"/etc/passwd"}, 126},
		{[]string{"sh", "-c", "sh -c 'kill -TERM $$'"}, 143},
	} {
		if r := sandbox(t, append([]string{"--"}, c.args...)...); r.Code != c.code {
			t.Errorf("want %d: %s", c.code, r)
		}
	}
}

// TestOwnKernel: another kernel answers, and in it both filters, no privilege, no way back to the host.
func TestOwnKernel(t *testing.T) {
	r := sandbox(t, "--", "sh", "-c", `
		cat /proc/self/uid_map; grep -E '^(Seccomp|NoNewPrivs|Cap)' /proc/self/status
		unshare -U true 2>/dev/null && echo made a user namespace
		mount -t tmpfs x /mnt 2>/dev/null && echo mounted
		echo x >/etc/hostname 2>/dev/null && echo wrote a file of the host
		echo x >/dev/agentjail-step/step 2>/dev/null && echo wrote the init step
		ls /proc/1/root/work 2>/dev/null; ls /home
		true`)
	want := []string{"0 0 4294967295", "NoNewPrivs: 1", "Seccomp: 2"}
	for _, set := range []string{"Inh", "Prm", "Eff", "Bnd", "Amb"} {
		want = append(want, "Cap"+set+": 0000000000000000")
	}
	got := map[string]bool{}
	for line := range strings.Lines(r.Stdout) {
		got[strings.Join(strings.Fields(line), " ")] = true
	}
	for _, w := range want {
		if !got[w] {
			t.Errorf("%q is missing", w)
		}
	}
	if r.Code != 0 || len(got) != len(want) {
		t.Error(r)
	}
}

// TestVsyscall: a program that calls time and getcpu at the vsyscall page goes on, as the JVM does at its start. gVisor never returns from such a call
// that a filter refuses (pkg/sentry/kernel/task_syscall.go, doVsyscall).
func TestVsyscall(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("only amd64 has such a page (vsyscall(2))")
	}
	const call = `import ctypes; f = ctypes.CFUNCTYPE(ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
print(f(0xffffffffff600400)(None, None, None) > 0, f(0xffffffffff600800)(None, None, None))`
	if r := sandbox(t, "--timeout", "30s", "--", "/usr/bin/python3", "-c", call); r.Code != 0 || r.Stdout != "True 0\n" {
		t.Error(r)
	}
}

// TestStandardFilesGoOn: a regular file as a standard file is read from, and written to, where it stands.
func TestStandardFilesGoOn(t *testing.T) {
	dir := engine.Workspace(t, nil)
	put(t, dir, "in", "skipped\nread\n")
	in, err := os.Open(filepath.Join(dir, "in"))
	env.Check(t, err)
	defer in.Close()
	if _, err := in.Seek(int64(len("skipped\n")), io.SeekStart); err != nil {
		t.Fatal(err)
	}
	out, err := os.Create(filepath.Join(dir, "out"))
	env.Check(t, err)
	defer out.Close()
	fmt.Fprintln(out, "before")
	cmd := exec.Command(bin, "sandbox", "--policy", "gvisor", "--", "cat")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, os.Stderr
	env.Check(t, cmd.Run())
	fmt.Fprintln(out, "after")
	if text, err := os.ReadFile(out.Name()); string(text) != "before\nread\nafter\n" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
}

// TestProtectedPaths: hooks cannot be written, git's directory cannot be replaced, and a hidden file is neither read nor moved away, whatever
// the delegate. With runc and crun the protections are mounts of the jail's; gVisor has them from the mounts' sources.
func TestProtectedPaths(t *testing.T) {
	for _, name := range []string{"runc", "crun", "runsc"} {
		t.Run(name, func(t *testing.T) {
			delegate := runsc
			if name != "runsc" {
				var err error
				if delegate, err = exec.LookPath(name); err != nil {
					t.Fatalf("%v (hack/deps.sh installs it)", err)
				}
			}
			protects(t, delegate)
		})
	}
}

func protects(t *testing.T, delegate string) {
	dir := engine.Workspace(t, nil)
	paths := map[string]string{
		".git/HEAD": "ref: refs/heads/main\n", ".git/config": "[core]\n", ".git/hooks/pre-commit": "theirs", ".git/objects/x": "", ".git/refs/x": "",
		".env": "secret", "sub/.env": "secret", ".vscode/tasks.json": "theirs", ".envrc": "theirs",
	}
	for name, text := range paths {
		put(t, dir, name, text)
	}
	root := env.Get(t, engine.ModuleRoot)
	// crun does not run beside a version 2 hierarchy with controllers.
	r := engine.Run(t, filepath.Join(root, "hack/without-unified.sh"), bin, "sandbox",
		"--config", policyOver(t, delegate, "[binds]\nhide = [\".env\"]"), "--workspace", dir, "--", "sh", "-c", `
		echo ours >.git/hooks/pre-commit && echo wrote a hook
		echo ours >.git/hooks/post-commit && echo added a hook
		echo ours >>.git/config # a copy of the jail's
		rm -f .git/config && echo removed the settings
		mv .git/hooks .git/h && echo moved the hooks
		mv .git .g && echo moved .git
		echo ours >.vscode/tasks.json && echo wrote a task
		mv .vscode v && echo moved the tasks
		echo ours >.envrc && echo wrote .envrc
		echo ours >e; mv -f e .envrc && echo replaced .envrc; rm -f e
		cat .env sub/.env | grep . && echo read a secret
		rm -f .env && echo removed a secret
		mv sub/.env sub/e && echo moved a secret
		mv sub s; cat s/.env | grep . && echo read a moved secret; mv s sub
		echo made >made`)
	if r.Code != 0 || r.Stdout != "" {
		t.Error(r)
	}
	paths["made"] = "made\n"
	for name, want := range paths {
		if text, err := os.ReadFile(filepath.Join(dir, name)); string(text) != want || err != nil {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, ".git/hooks/post-commit")); err == nil {
		t.Error("a hook was added on the host")
	}
}

// TestReviewBehindSandbox: what is written to a workspace under review stays in a view, behind a sandbox too.
func TestReviewBehindSandbox(t *testing.T) {
	engine.NeedsViews(t)
	dir := engine.Workspace(t, nil)
	put(t, dir, "kept", "theirs")
	r := sandbox(t, "--review", "--workspace", dir, "--", "sh", "-c", "cat kept; echo ours >kept; mkdir made; mv made moved; cat kept; ls")
	if r.Code != 0 || r.Stdout != "theirsours\nkept\nmoved\n" {
		t.Error(r)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "kept")); string(text) != "theirs" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "moved")); err == nil {
		t.Error("a directory was made on the host")
	}
	view := regexp.MustCompile(`workspace diff ([0-9a-f]+)`).FindStringSubmatch(r.Stderr)
	if view == nil {
		t.Fatal(r)
	}
	if r := engine.Run(t, bin, "workspace", "apply", view[1]); r.Code != 0 {
		t.Error(r)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "kept")); string(text) != "ours\n" || err != nil {
		t.Errorf("applied: %q, %v", text, err)
	}
}

// TestForcedReviewBehindSandbox: a parent of what policy has reviewed is a view, and an agent's own directory keeps its settings, behind a
// sandbox too.
func TestForcedReviewBehindSandbox(t *testing.T) {
	engine.NeedsViews(t)
	dir := engine.Workspace(t, map[string]string{"ws/src/f": "", ".claude/projects/f": ""})
	pol := policy(t, fmt.Sprintf("[workspace]\nreview = [%q]\nsize = \"32MiB\"\nfiles = 4000", filepath.Join(dir, "ws/src/**")))
	r := engine.Run(t, bin, "sandbox", "--config", pol, "-v", dir+"/ws:/x", "-v", dir+"/.claude:/c", "--", "sh", "-c", `
		echo x >/x/src/new; echo x >/c/projects/new
		( mkdir -p /c/hooks; echo x >/c/hooks/a ) 2>/dev/null && echo wrote a hook
		( echo x >/c/settings.json ) 2>/dev/null && echo wrote settings
		true`)
	if r.Code != 0 || r.Stdout != "" || !strings.Contains(r.Stderr, "in view ") {
		t.Error(r)
	}
	for name, want := range map[string]bool{"ws/src/new": false, ".claude/projects/new": true, ".claude/hooks/a": false, ".claude/settings.json": false} {
		if _, err := os.Lstat(filepath.Join(dir, name)); (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestOnlyAllowedNamesResolve: what policy names is found at the helper's address, anything else is not.
func TestOnlyAllowedNamesResolve(t *testing.T) {
	r := sandbox(t, "--allow", "one.example.org", "--", "sh", "-c", "getent ahostsv4 one.example.org | head -1; getent hosts two.example.org || echo not two")
	if !strings.HasPrefix(r.Stdout, "127.64.") || !strings.HasSuffix(r.Stdout, "\nnot two\n") {
		t.Error(r)
	}
}

// TestUnsupportedRequirementsAreRefused: what a sandbox cannot hold is refused where policy requires it, with the reason.
func TestUnsupportedRequirementsAreRefused(t *testing.T) {
	for more, want := range map[string]string{
		"[ebpf]\nblock = [\"trace\"]":          "ebpf.block: refused",
		"[landlock]\nrequired = true":          "Landlock",
		"[apparmor]\nrequired = true":          "AppArmor",
		"[process]\ndeny_write_execute = true": "process.deny_write_execute: refused",
		"[seccomp]\nprofile = \"debug\"":       "Landlock",
	} {
		r := engine.Run(t, bin, "sandbox", "--config", policy(t, more), "--", "true")
		if r.Code != 125 || !strings.Contains(r.Stderr, want) || !strings.Contains(r.Stderr, "remedy:") {
			t.Errorf("%s: want %q: %s", more, want, r)
		}
	}
	// The policy of the name has the delegate's place.
	for name, code := range map[string]int{"xen": 125, "gvisor": 7} {
		if r := engine.Run(t, bin, "sandbox", "--boundary="+name, "--", "sh", "-c", "exit 7"); r.Code != code {
			t.Errorf("--boundary %s: %s", name, r)
		}
	}
}

// jails are the ids of the sandboxes that run. Those that have ended have a journal.
func jails(t *testing.T) (ids []string) {
	t.Helper()
	var list struct{ Jails []struct{ ID, State string } }
	env.Check(t, json.Unmarshal([]byte(engine.Run(t, bin, "ls", "--json").Stdout), &list))
	for _, j := range list.Jails {
		if j.State == "running" && strings.HasPrefix(j.ID, "sandbox-") {
			ids = append(ids, j.ID)
		}
	}
	return ids
}

// running starts a sandbox whose command waits, and returns it with its id when its program runs. At the test's end it is killed, and
// nothing of it stays.
func running(t *testing.T, args ...string) (*exec.Cmd, string) {
	t.Helper()
	others := jails(t)
	cmd := exec.Command(bin, append([]string{"sandbox"}, append(args, "--", "sh", "-c", "echo runs; sleep 1000")...)...)
	cmd.Stderr = os.Stderr
	id := ""
	t.Cleanup(func() {
		if id != "" {
			env.Eventually(t, "nothing is left", func() bool { return len(left(id)) == 0 })
		}
	})
	env.Begin(t, cmd).Await(t, "runs")
	for _, j := range jails(t) {
		if !slices.Contains(others, j) {
			id = j
			return cmd, id
		}
	}
	t.Fatalf("no jail is running beside %q", others)
	return nil, ""
}

type inspected struct {
	Pid      int
	Holds    bool
	Findings []struct{ Name, Verdict, Seen string }
}

func inspect(t *testing.T, id string) (in inspected) {
	t.Helper()
	r := engine.Run(t, bin, "inspect", "--json", id)
	if err := json.Unmarshal([]byte(r.Stdout), &in); err != nil {
		t.Fatal(err, r)
	}
	return in
}

// TestInspectChecksTheHostsRows: the rows that the host holds are checked at the sandbox, also where a helper opens its files; the others are not claimed.
func TestInspectChecksTheHostsRows(t *testing.T) {
	for name, args := range map[string][]string{
		"files of its own":     {"--policy", "gvisor"},
		"files by the helper":  {"--policy", "gvisor", "--workspace", engine.Workspace(t, nil)},
		"limits of the policy": {"--config", policy(t, "[limits]\npids = 100")},
	} {
		t.Run(name, func(t *testing.T) {
			_, id := running(t, args...)
			in := inspect(t, id)
			verdicts := map[string]string{}
			for _, f := range in.Findings {
				verdicts[f.Name] = f.Verdict
				if f.Verdict == "BROKEN" {
					t.Errorf("%s: %s", f.Name, f.Seen)
				}
				switch f.Name { // these are checked inside
				case "seccomp", "capabilities", "bind mounts", "tmpfs", "device nodes", "rlimits", "clocks", "root", "workspace", "procfs",
					"propagation", "masked paths", "read-only paths":
					if f.Verdict != "guest" || !strings.HasPrefix(f.Seen, "in the guest: ") {
						t.Errorf("%s: %s, %s", f.Name, f.Verdict, f.Seen)
					}
				}
			}
			for name, want := range map[string]string{
				"namespaces": "holds", "network": "holds", "processes": "holds", "oom score": "holds", "user ids": "holds", "process credentials": "holds",
				"no_new_privs": "holds", "sandbox filter": "holds", "nested namespaces": "holds", "control groups": "holds",
				"protected paths": "holds", "seccomp": "guest", "capabilities": "guest", "security module": "void", "resource accounting user": "void",
			} {
				if verdicts[name] != want {
					t.Errorf("%s: %s, want %s", name, verdicts[name], want)
				}
			}
			if r := engine.Run(t, bin, "journal", id); r.Code != 0 || strings.Contains(r.Stdout, "exec.") {
				t.Errorf("what the inspection ran is in the journal: %s", r)
			}
			if most := engine.CgroupLimit(in.Pid, "pids", "pids.max", "pids.max"); name == "limits of the policy" && most != 2*100+256 {
				t.Errorf("the host's limit on processes is %d", most)
			}
		})
	}
}

// TestInspectReportsRemovedProtections: a row that the host holds at the sandbox's process is BROKEN when its protection is taken away there, and one of the
// guest's when the bundle that it is compared with has less.
func TestInspectReportsRemovedProtections(t *testing.T) {
	_, id := running(t, "--policy", "gvisor")
	pid := inspect(t, id).Pid
	group := func(file string) string {
		for _, pattern := range []string{"/sys/fs/cgroup/*/agentjail-", "/sys/fs/cgroup/agentjail-"} {
			if found, _ := filepath.Glob(pattern + id + "/" + file); len(found) > 0 {
				return found[0]
			}
		}
		return ""
	}
	for _, c := range []struct {
		row string
		// files are ways to take the protection away, by the version of control groups: the first that exists is written to.
		files [][2]string
	}{
		{"processes", [][2]string{{group("pids.max"), "max"}}},
		{"swap", [][2]string{{group("memory.memsw.limit_in_bytes"), "-1"}, {group("memory.swap.max"), "max"}}},
		{"memory", [][2]string{{group("memory.limit_in_bytes"), "-1"}, {group("memory.max"), "max"}}},
		{"processors", [][2]string{{group("cpu.cfs_quota_us"), "-1"}, {group("cpu.max"), "max 100000"}}},
		{"oom score", [][2]string{{fmt.Sprintf("/proc/%d/oom_score_adj", pid), "0"}}},
		{"control groups", [][2]string{{"/sys/fs/cgroup/pids/cgroup.procs", strconv.Itoa(pid)}, {"/sys/fs/cgroup/cgroup.procs", strconv.Itoa(pid)}}},
	} {
		done := false
		for _, f := range c.files {
			if _, err := os.Stat(f[0]); err != nil || f[0] == "" || done {
				continue
			}
			if err := os.WriteFile(f[0], []byte(f[1]), 0); err != nil {
				t.Fatalf("%s: %v", c.row, err)
			}
			done = true
		}
		if !done {
			t.Logf("%s: this host has no such control group", c.row)
			continue
		}
		in := inspect(t, id)
		if v := in.verdict(c.row); v != "BROKEN" || in.Holds {
			t.Errorf("%s: %s after the protection was taken away", c.row, v)
		}
	}
	// The guest's: the record that they are compared with demands something else.
	for _, c := range []struct{ row, file, was, is string }{
		{"bind mounts", "bundle/config.json", `"destination":"/tmp"`, `"destination":"/tmp2"`},
		{"masked paths", "bundle/config.json", `"maskedPaths":[`, `"maskedPaths":["/etc/passwd",`},
		{"read-only paths", "bundle/config.json", `"readonlyPaths":[`, `"readonlyPaths":["/dev/null",`},
		{"root", "state.json", `"backing":"memory","size":"1GiB"`, `"backing":"memory","size":"1023MiB"`},
		{"root", "state.json", `"inodes":262144`, `"inodes":262143`},
	} {
		at := filepath.Join(engine.JailDir(t, id), c.file)
		text, err := os.ReadFile(at)
		if err != nil || !strings.Contains(string(text), c.was) {
			t.Errorf("%s: no %s in %s, %v", c.row, c.was, text, err)
			continue
		}
		env.Check(t, os.WriteFile(at, []byte(strings.Replace(string(text), c.was, c.is, 1)), 0o600))
		if in := inspect(t, id); in.verdict(c.row) != "BROKEN" {
			t.Errorf("%s, against %s: %+v", c.row, c.is, in)
		}
		env.Check(t, os.WriteFile(at, text, 0o600))
	}
}

func (in *inspected) verdict(name string) string {
	for _, f := range in.Findings {
		if f.Name == name {
			return f.Verdict
		}
	}
	return "no such row"
}

// TestHelperSeesLostProtection: a protection that a program of the host's takes away is seen, where a helper has it.
func TestHelperSeesLostProtection(t *testing.T) {
	dir := engine.Workspace(t, nil)
	put(t, dir, ".git/HEAD", "ref: refs/heads/main\n")
	put(t, dir, ".git/objects/x", "")
	put(t, dir, ".git/refs/x", "")
	put(t, dir, ".git/hooks/pre-commit", "theirs")
	_, id := running(t, "--policy", "gvisor", "--workspace", dir)
	if r := engine.Run(t, bin, "exec", id, "true"); r.Code != 0 || strings.Contains(r.Stderr, "protected path") {
		t.Errorf("a protection is reported as lost: %s", r)
	}
	hooks := filepath.Join(dir, ".git/hooks")
	env.Check(t, os.RemoveAll(hooks))
	env.Eventually(t, "the lost protection shows", func() bool {
		for _, f := range inspect(t, id).Findings {
			if f.Name == "protected paths" {
				return f.Verdict == "BROKEN" && strings.Contains(f.Seen, hooks)
			}
		}
		return false
	})
}

// TestSeenFromTheHost: what looks at system calls from the host refuses a jail whose calls it cannot see.
func TestSeenFromTheHost(t *testing.T) {
	_, id := running(t, "--policy", "gvisor")
	for _, args := range [][]string{
		{"seccomp", "prove", "--jail", id}, {"learn", "--from", id}, {"learn", "--policy", "gvisor", "--", "true"},
	} {
		if r := engine.Run(t, bin, args...); r.Code == 0 || !strings.Contains(r.Stderr, "gvisor sandbox answers the jail's system calls") {
			t.Error(r)
		}
	}
}

// TestAnnotations: no annotation by which a bundle steers a sandbox, or another boundary, reaches the delegate. gVisor obeys the first one
// without an option for it (runsc/container/container.go, cgroupParentAnnotation): it puts the sandbox outside the jail's control groups.
func TestAnnotations(t *testing.T) {
	b := engine.NewBundle(t, "/var/tmp")
	id := b.ID()
	elsewhere := "/elsewhere-" + id
	b.Spec.Annotations = map[string]string{
		"dev.gvisor.spec.cgroup-parent": elsewhere, "dev.gvisor.flag.debug": "true", "dev.gvisor.spec.mount.work.type": "bind",
		"dev.gvisor.spec.mount.work.share": "container", "dev.gvisor.spec.mount.work.source": "/work",
		"io.katacontainers.config.hypervisor.kernel": "/k", "krun.cpus": "8", "run.oci.handler": "krun", "other": "stays",
	}
	b.Spec.Process.Args = []string{"true"}
	b.Write(t)
	c := engine.Caller{Path: bin, Args: []string{"--config", policy(t, ""), "--root", filepath.Join(b.Dir, "state")}}
	if _, said, err := b.Call(t, c, "create", "--bundle", b.Dir, id); err != nil {
		t.Fatal(err, said)
	}
	t.Cleanup(func() { _, _, _ = b.Call(t, c, "delete", "--force", id) })
	state, _, err := b.Call(t, c, "state", id)
	var made specs.State
	if err == nil {
		err = json.Unmarshal([]byte(state), &made)
	}
	env.Check(t, err)
	groups, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", made.Pid))
	if err != nil || strings.Contains(string(groups), elsewhere) {
		t.Errorf("the sandbox is where an annotation has it: %v, %s", err, groups)
	}
	out := filepath.Join(engine.TempDir(t, "/var/tmp", "agentjail-export-"), "bundle")
	if r := engine.Run(t, bin, "export", "--bundle", id, out); r.Code != 0 {
		t.Fatal(r)
	}
	text, err := os.ReadFile(filepath.Join(out, "config.json"))
	if err != nil || !strings.Contains(string(text), `"other"`) {
		t.Errorf("%v: %s", err, text)
	}
	for name := range b.Spec.Annotations {
		if name != "other" && strings.Contains(string(text), name) {
			t.Errorf("%s reaches the delegate", name)
		}
	}
}

// TestIDsAlike: a call for a jail is about no other whose id begins with its id, also when the jail is gone. gVisor takes a part of an id for
// the whole.
func TestIDsAlike(t *testing.T) {
	b := engine.NewBundle(t, "/var/tmp")
	b.Spec.Process.Args = []string{"sleep", "1000"}
	b.Write(t)
	c := engine.Caller{Path: bin, Args: []string{"--config", policy(t, ""), "--root", filepath.Join(b.Dir, "state")}}
	call := func(args ...string) string {
		t.Helper()
		out, said, err := b.Call(t, c, args...)
		if err != nil {
			t.Errorf("%q: %v: %s", args, err, said)
		}
		return out
	}
	id := b.ID()
	other := id + "1"
	for _, id := range []string{id, other} {
		call("create", "--bundle", b.Dir, id)
		t.Cleanup(func() { _, _, _ = b.Call(t, c, "delete", "--force", id) })
		call("start", id)
	}
	call("exec", id, "true")
	if out := call("list", "--quiet"); !slices.Equal(strings.Fields(out), []string{id, other}) {
		t.Errorf("list: %q", out)
	}
	for range 2 { // the second time there is none
		call("delete", "--force", id)
	}
	if _, said, err := b.Call(t, c, "kill", id, "KILL"); err == nil || !strings.Contains(said, "does not exist") {
		t.Errorf("kill of one that is gone: %v, %s", err, said)
	}
	if out := call("state", other); !strings.Contains(out, `"running"`) {
		t.Errorf("the other jail: %s", out)
	}
	call("exec", other, "true")
}

// TestDelegateReplacedWhileJailRuns: a delegate that is replaced while a jail runs goes on with it. One that cannot, or that is gone, still has the jail ended and
// removed.
func TestDelegateReplacedWhileJailRuns(t *testing.T) {
	whole := env.Read(t, runsc)
	path := filepath.Join(engine.TempDir(t, "/var/tmp", "agentjail-boundary-"), "runsc")
	put := func(text []byte) {
		t.Helper()
		env.Check(t, errors.Join(os.WriteFile(path+".new", text, 0o755), os.Rename(path+".new", path)))
	}
	for _, c := range []struct {
		name    string
		replace func()
		knows   bool
	}{
		{"by another file", func() { put(append(slices.Clip(whole), 0)) }, true},
		{"by one that fails", func() { put([]byte("#!/bin/sh\nexit 9\n")) }, false},
		{"by none", func() { _ = os.Remove(path) }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			put(whole)
			b := engine.NewBundle(t, "/var/tmp")
			b.Spec.Process.Args = []string{"sleep", "1000"}
			b.Write(t)
			call := engine.Caller{Path: bin, Args: []string{"--config", policyOver(t, path, ""), "--root", filepath.Join(b.Dir, "state")}}
			id := b.ID()
			for _, args := range [][]string{{"create", "--bundle", b.Dir, id}, {"start", id}} {
				if _, said, err := b.Call(t, call, args...); err != nil {
					t.Fatal(err, said)
				}
			}
			c.replace()
			if _, said, err := b.Call(t, call, "exec", id, "true"); (err == nil) != c.knows {
				t.Errorf("exec: %v, %s", err, said)
			}
			if _, err := os.Stat(path); err != nil {
				if _, said, err := b.Call(t, call, "kill", id, "KILL"); err != nil {
					t.Errorf("kill: %v, %s", err, said)
				}
			}
			if _, said, err := b.Call(t, call, "delete", "--force", id); err != nil {
				t.Errorf("delete: %v, %s", err, said)
			}
			env.Eventually(t, "nothing is left", func() bool { return len(left(id)) == 0 })
		})
	}
}

// TestReceiptNamesBoundary: the receipt of a run names its boundary.
func TestReceiptNamesBoundary(t *testing.T) {
	for want, policy := range map[string][]string{"gvisor sandbox": {"--policy", "gvisor"}, "host kernel": nil} {
		dir := engine.Workspace(t, nil)
		r := engine.Run(t, bin, slices.Concat([]string{"sandbox"}, policy, []string{"--workspace", dir, "--", "sh", "-c", "exit 9"})...)
		if r.Code != 9 {
			t.Fatal(r)
		}
		var list struct{ Jails []struct{ ID, Name string } }
		env.Check(t, json.Unmarshal([]byte(engine.Run(t, bin, "ls", "--json").Stdout), &list))
		for _, j := range list.Jails {
			out := engine.Run(t, bin, "receipt", "--json", j.ID).Stdout
			if strings.Contains(out, dir) {
				if !strings.Contains(out, `"boundary": "`+want+`"`) {
					t.Errorf("policy %q: no boundary %q in %s", policy, want, out)
				}
				want = ""
			}
		}
		if want != "" {
			t.Errorf("policy %q: no receipt of %s", policy, dir)
		}
	}
}

// TestExplainAndCheck: each protection has a place, and what is void has something in its place.
func TestExplainAndCheck(t *testing.T) {
	config := policy(t, "")
	b := engine.NewBundle(t, "/var/tmp")
	b.Spec.Process.Args = []string{"true"}
	b.Write(t)
	r := engine.Run(t, bin, "--config", config, "explain", b.Dir)
	for _, want := range []string{"guest kernel  seccomp\n", "host kernel   network\n", "void          security module: the sentry", "gvisor sandbox"} {
		if !strings.Contains(r.Stdout, want) {
			t.Errorf("%q is missing: %s", want, r)
		}
	}
	if r := engine.Run(t, bin, "--config", config, "check", "-v"); !strings.Contains(r.Stdout, "platform systrap") || !strings.Contains(r.Stdout, "release-2026") {
		t.Error(r)
	}
}

// TestNothingLeftAfterKill: whatever is killed, the jail ends, and nothing of it stays.
func TestNothingLeftAfterKill(t *testing.T) {
	t.Run("the sentry", func(t *testing.T) {
		cmd, id := running(t, "--policy", "gvisor")
		kill(t, inspect(t, id).Pid)
		if _ = cmd.Wait(); cmd.ProcessState.ExitCode() != 137 {
			t.Errorf("status %d, want 137", cmd.ProcessState.ExitCode())
		}
		const named = "the sandbox's own kernel (gVisor's sentry), a process of the host's, ended"
		if r := engine.Run(t, bin, "why", id, "Killed"); !strings.Contains(r.Stdout, named) || !strings.Contains(r.Stdout, "journalctl -k") {
			t.Errorf("why: %s", r)
		}
		control, plain := running(t)
		kill(t, inspect(t, plain).Pid)
		_ = control.Wait()
		if r := engine.Run(t, bin, "why", plain, "Killed"); strings.Contains(r.Stdout, "sentry") || !strings.Contains(r.Stdout, "Killed") && r.Stdout == "" {
			t.Errorf("why, of a jail without a sentry: %s", r)
		}
		env.Eventually(t, "nothing is left", func() bool { return len(left(id)) == 0 })
	})
	t.Run("the gofer", func(t *testing.T) {
		cmd, id := running(t, "--policy", "gvisor")
		found := false
		for _, pid := range processesOf(id) {
			if strings.HasPrefix(env.CommandLine(pid), "runsc-gofer") {
				found = true
				kill(t, pid)
			}
		}
		if !found {
			t.Fatal("there is no gofer: this test looks at nothing")
		}
		if _ = cmd.Wait(); cmd.ProcessState.ExitCode() != 137 {
			t.Errorf("status %d, want 137", cmd.ProcessState.ExitCode())
		}
		env.Eventually(t, "nothing is left", func() bool { return len(left(id)) == 0 })
	})
	const delegates = "/run/agentjail/sandbox/delegate"
	t.Run("agentjail, while it makes the jail", func(t *testing.T) {
		for i := range 8 {
			cmd := exec.Command(bin, "sandbox", "--policy", "gvisor", "--", "true")
			env.Check(t, cmd.Start())
			env.Poll(time.Duration(i+1)*60*time.Millisecond, func() bool {
				found, _ := filepath.Glob(delegates + "/*/*.state")
				return i%2 == 1 && len(found) > 0
			})
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
		env.Eventually(t, "nothing is left", func() bool {
			jails, _ := filepath.Glob("/run/agentjail/jails/*")
			records, _ := filepath.Glob(delegates + "/*")
			return len(jails)+len(records) == 0
		})
	})
	t.Run("agentjail", func(t *testing.T) {
		cmd, id := running(t, "--policy", "gvisor")
		kill(t, cmd.Process.Pid)
		_ = cmd.Wait()
		env.Eventually(t, "nothing is left", func() bool { return len(left(id)) == 0 })
	})
	t.Run("agentjail, and before that the delegate while it writes its record", func(t *testing.T) {
		cmd, id := running(t, "--policy", "gvisor")
		records, err := filepath.Glob(delegates + "/" + id + "/*.state")
		if len(records) != 1 || err != nil {
			t.Fatalf("%q, %v", records, err)
		}
		env.Check(t, os.Truncate(records[0], 10))
		kill(t, cmd.Process.Pid)
		_ = cmd.Wait()
		env.Eventually(t, "nothing is left", func() bool { return len(left(id)) == 0 })
	})
}

// TestOthersFilesBehindSandbox: the files of other owners in a mounted directory are as far from the jail as from one of the host's kernel.
func TestOthersFilesBehindSandbox(t *testing.T) {
	dir := engine.Workspace(t, nil)
	engine.Others(t, dir)
	r := sandbox(t, "--workspace", dir, "--", "sh", "-c", engine.OthersScript)
	if r.Code != 0 {
		t.Fatal(r)
	}
	engine.CheckOthers(t, r.Stdout, "gvisor")
}
