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

// journaled is a policy with a journal of its own, and returns what reads the one jail's journal.
func journaled(t *testing.T, more string) (policy string, journal func() string) {
	t.Helper()
	dir := engine.TempDir(t, "/tmp", "agentjail-lost-")
	at := filepath.Join(dir, "journal")
	policy = filepath.Join(dir, "config.toml")
	env.Check(t, os.WriteFile(policy, fmt.Appendf(nil, "journal.dir = %q\n%s\n", at, more), 0o644))
	return policy, func() string {
		files, _ := filepath.Glob(filepath.Join(at, "*"))
		var all strings.Builder
		for _, f := range files {
			text, err := os.ReadFile(f)
			if err == nil {
				all.Write(text)
			}
		}
		return all.String()
	}
}

// alerts are the lines of a journal about lost protections.
func alerts(journal string) (out []string) {
	for line := range strings.Lines(journal) {
		if strings.Contains(line, `"protection.lost"`) {
			out = append(out, line)
		}
	}
	return out
}

// A held jail runs a shell's commands one by one, as the test has them.
type held struct{ *env.Session }

func hold(t *testing.T, policy, dir string) *held {
	t.Helper()
	return holdAs(t, "--config", policy, "sandbox", "--workspace", dir)
}

// holdWith is hold with options of `agentjail sandbox`.
func holdWith(t *testing.T, args ...string) *held {
	t.Helper()
	return holdAs(t, append([]string{"sandbox"}, args...)...)
}

func holdAs(t *testing.T, args ...string) *held {
	t.Helper()
	cmd := exec.Command(bin, append(args, "--", "sh")...)
	cmd.Stderr = os.Stderr
	h := &held{env.Begin(t, cmd)}
	t.Cleanup(func() { _ = h.End() })
	h.do(t, "true")
	return h
}

// do runs a command in the jail, and returns its status and output.
func (h *held) do(t *testing.T, script string) string {
	t.Helper()
	fmt.Fprintf(h.In, "(%s) 2>&1; echo \"=$?\"\n", script)
	var out strings.Builder
	for {
		line, err := h.Out.ReadString('\n')
		out.WriteString(line)
		if err != nil {
			t.Fatalf("%s: %v\n%s", script, err, out.String())
		}
		if strings.HasPrefix(line, "=") {
			return out.String()
		}
	}
}

// TestHostsGitKeepsProtection: what people do with git on the host while a jail runs leaves the jail's protection, and git inside works.
func TestHostsGitKeepsProtection(t *testing.T) {
	dir := filepath.Join(project(t), "repo")
	policy, journal := journaled(t, "")
	h := hold(t, policy, dir)
	asOwner(t, dir, `
		test -z "$(git status --porcelain)"
		echo n >untracked; git stash -q -u; git stash pop -q; git clean -fdq; git clean -ffdq
		find . -path ./.git -prune -o -type d -empty -print | grep -v '^./lib' | xargs -r rmdir
		test -z "$(git status --porcelain)"`)
	const writes = "mkdir -p .husky .vscode .claude; echo x >.husky/pre-commit; echo x >.vscode/tasks.json; echo x >.claude/settings.json; echo x >.git/commondir"
	h.do(t, writes)
	for _, name := range []string{".husky/pre-commit", ".vscode/tasks.json"} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			t.Errorf("the jail wrote %s", name)
		}
	}
	for _, c := range []struct{ script, says string }{
		{"echo 2 >>file; echo n >unt; git stash -u", "=0"},
		{"git stash pop && cat unt", "=0"},
		{"git clean -fdq && test ! -e unt", "=0"},
		{"git checkout -q file; git status --porcelain", "=0"},
		{"git sparse-checkout set --no-cone '/*' && git sparse-checkout disable", "=0"},
		{"git config --worktree core.editor ed && git config core.editor", "ed\n=0"},
		{"git status --porcelain", "=0"},
	} {
		if got := strings.TrimSpace(h.do(t, c.script)); !strings.HasSuffix(got, c.says) || strings.Contains(got, "warning") {
			t.Errorf("%s: %s", c.script, got)
		}
	}
	if err := h.End(); err != nil {
		t.Error(err)
	}
	if got := alerts(journal()); len(got) > 0 {
		t.Errorf("alerts: %s", got)
	}
	if got := asOwner(t, dir, "git status --porcelain; ls -A | tr '\\n' ' '; ls .git/config.worktree 2>/dev/null || :"); got != ".git .gitmodules file lib " {
		t.Errorf("the host has %q", got)
	}
}

// TestReceiptWithoutPlaceholders: what was made for the jail is none of what was changed since.
func TestReceiptWithoutPlaceholders(t *testing.T) {
	dir := filepath.Join(project(t), "repo")
	policy, journal := journaled(t, "")
	for range 3 { // by the kernel's clock for files, most starts fall into the tick of the last placeholder
		if r := engine.Run(t, bin, "--config", policy, "sandbox", "--workspace", dir, "--", "sh", "-c", "echo >one"); r.Code != 0 {
			t.Fatalf("status %d: %s", r.Code, r.Stderr)
		}
	}
	text := journal()
	if !strings.Contains(text, `"/one"`) {
		t.Errorf("the jail's own file is missing:\n%s", text)
	}
	for _, name := range []string{"/.vscode", "/.git/commondir", "/.claude"} {
		if strings.Contains(text, `"`+name) {
			t.Errorf("%s is listed:\n%s", name, text)
		}
	}
}

// TestStaleBranch: what git could not replace when it changed branches, and a commit after that, is in the journal.
func TestStaleBranch(t *testing.T) {
	for _, c := range []struct{ script, has string }{
		{"git switch -q main2; git status --porcelain", ""},
		{"git switch -q up", `"files":[".claude/settings.json"]`},
		{"git switch -q up; echo 9 >>file; git commit -qam work", `"committed":true`},
	} {
		dir := filepath.Join(project(t), "repo")
		// Before the jail is made, by git's clock of whole seconds.
		asOwner(t, dir, `export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@x GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@x GIT_COMMITTER_DATE='2020-01-01 00:00:00'
			mkdir .claude; echo old >.claude/settings.json; git add .claude; git commit -qm settings; git branch main2
			git checkout -q -b up; echo newer >.claude/settings.json; git commit -qam upstream; git checkout -q main`)
		policy, journal := journaled(t, "")
		engine.Run(t, bin, "--config", policy, "sandbox", "--workspace", dir, "--", "sh", "-c", c.script)
		text := journal()
		_, event, found := strings.Cut(text, `"git.stale"`)
		if found != (c.has != "") || !strings.Contains(event, c.has) {
			t.Errorf("%s: want %q in\n%s", c.script, c.has, text)
		}
	}
}

// TestSharedRepository: git works in a repository that a group shares, in which it makes directories with a set-gid bit.
func TestSharedRepository(t *testing.T) {
	dir := filepath.Join(project(t), "repo")
	asOwner(t, dir, "git config core.sharedRepository group; chmod -R g+w .git; find .git -type d -exec chmod g+s {} +")
	code, out, errs := sandbox(t, "--workspace", dir, "--", "sh", "-ec",
		"echo b >b; git add b; git -c user.name=a -c user.email=a@x commit -qm b; git log --oneline | wc -l; git config core.editor vi; git config core.editor")
	if code != 0 || out != "3\nvi\n" {
		t.Errorf("status %d: %s%s", code, out, errs)
	}
	if got := asOwner(t, dir, "git config core.sharedRepository; git fsck 2>&1 | grep -c error || :; find .git/objects -type d ! -perm -2000 | wc -l"); got != "group\n0\n0\n" {
		t.Errorf("the host has %q", got)
	}
}

// TestSharedByInheriting: in a directory with the set-gid bit, repositories can be made for a group; elsewhere that is refused.
func TestSharedByInheriting(t *testing.T) {
	dir := filepath.Join(project(t), "repo")
	asOwner(t, dir, "mkdir team; chmod 2775 team")
	const git = "git -c user.name=a -c user.email=a@x "
	for _, c := range []struct {
		script string
		code   int
		says   string
	}{
		{"umask 002; cd team; git init -q --shared a; cd a; echo 1 >f; git add f; " + git + "commit -qm one", 0, ""},
		{"umask 002; cd team; git clone -q -c core.sharedRepository=group a b; cd b; echo 2 >f; git add f; " + git + "commit -qm two; git push -q origin HEAD:two", 0, ""},
		{"umask 002; cd team; mkdir c; test -g c", 0, ""},
		{"umask 002; cd team; git init -q d; cd d; git config core.sharedRepository group; echo 1 >f; git add f; " + git + "commit -qm one", 0, ""},
		{"umask 002; git init -q --shared e", 128, "writable by group"},
		{"umask 002; cd team; mkdir -m 2775 g", 1, "Operation not permitted"},
		{"cd team; chmod 700 c || chmod 00770 c", 0, "Operation not permitted"},
	} {
		if code, out, errs := sandbox(t, "--workspace", dir, "--", "sh", "-ec", c.script); code != c.code || !strings.Contains(errs, c.says) {
			t.Errorf("%s: status %d: %s%s", c.script, code, out, errs)
		}
	}
	if got := asOwner(t, dir, "find team/a team/b team/d -type d ! -perm -2070 | wc -l; git -C team/a fsck 2>&1 | grep -c error || :; stat -c %a team/c"); got != "0\n0\n770\n" {
		t.Errorf("the host has %q", got)
	}
}

// TestRemovingAnEarlierRepository: a jail removes what it made itself, and of an earlier jail's repository all that is not protected; that stays so.
func TestRemovingAnEarlierRepository(t *testing.T) {
	dir := filepath.Join(project(t), "repo")
	const git = "git -c user.name=a -c user.email=a@x "
	for _, c := range []struct {
		script string
		code   int
		says   string
	}{
		{"git init -q own; mkdir own/d; rm -rf own; test ! -e own", 0, ""},
		{"git init -q r; cd r; echo 1 >f; git add f; " + git + "commit -qm one", 0, ""},
		{"rm -rf r", 1, "cannot remove 'r/.git/config': Device or resource busy"},
		{"test ! -e r/f; test ! -e r/.git/HEAD; test ! -e r/.git/objects; git -C r rev-parse --show-toplevel | grep -q '/repo$'", 0, ""},
		{"echo x >r/.git/hooks/post-commit", 2, "Read-only"},
		{"mv r/.git r/old", 1, "busy"},
		{"git init -q r; cd r; echo 2 >f; git add f; " + git + "commit -qm two; git fsck", 0, ""},
	} {
		code, out, errs := sandbox(t, "--workspace", dir, "--", "sh", "-ec", "export LC_ALL=C; "+c.script)
		if code != c.code || !strings.Contains(errs, c.says) {
			t.Errorf("%s: status %d: %s%s", c.script, code, out, errs)
		}
	}
	if got := asOwner(t, dir, "git -C r log --format=%s; ls -A r; ls r/.git/commondir 2>/dev/null || :; rm -r r"); got != "two\n.git\nf\n" {
		t.Errorf("the host has %q", got)
	}
}

// setIDAttempts tries each way to give a file a mode, with each of the bits; it prints those that succeeded.
const setIDAttempts = `
import ctypes, os, platform, shutil
libc = ctypes.CDLL(None, use_errno=True)
creat, fchmodat2, openat2 = {"x86_64": 85}.get(platform.machine(), -1), 452, 437
def call(*a):
    if libc.syscall(*(ctypes.c_long(x) if type(x) is int else x for x in a)) < 0: raise OSError(ctypes.get_errno(), a[0])
def made(p):
    shutil.copy("/bin/true", p); return p
def acl(p):
    os.chmod(p, 0o644)
    os.setxattr(p, "system.posix_acl_access", bytes.fromhex("02000000" "01000700ffffffff" "04000700ffffffff" "10000700ffffffff" "20000500ffffffff"))
def how(mode):
    return ctypes.create_string_buffer(b"".join(x.to_bytes(8, "little") for x in (os.O_CREAT | os.O_RDWR, mode, 0)))
ways = {
    "chmod": lambda p, m: os.chmod(made(p), m),
    "fchmod": lambda p, m: os.fchmod(os.open(made(p), os.O_RDONLY), m),
    "fchmodat": lambda p, m: os.chmod(os.path.basename(made(p)), m, dir_fd=os.open(".", os.O_RDONLY)),
    "fchmodat2": lambda p, m: call(fchmodat2, -100, made(p).encode(), m, 0),
    "open": lambda p, m: os.open(p, os.O_CREAT | os.O_RDWR, m),
    "tmpfile": lambda p, m: os.link("/proc/self/fd/%d" % os.open(".", os.O_TMPFILE | os.O_RDWR, m), p, follow_symlinks=True),
    "openat2": lambda p, m: call(openat2, -100, p.encode(), how(m), 24),
    "creat": lambda p, m: call(creat, p.encode(), m),
    "mknod": lambda p, m: os.mknod(p, 0o100000 | m),
    "mknodat": lambda p, m: os.mknod(p, 0o100000 | m, dir_fd=os.open(".", os.O_RDONLY)),
    "mkfifo": lambda p, m: os.mkfifo(p, m),
    "mkdir": lambda p, m: os.mkdir(p, m),
    "acl": lambda p, m: (made(p), os.chmod(p, m), acl(p)),
}
os.umask(0)
for name, way in ways.items():
    for m in 0o755, 0o2755, 0o2775, 0o2644, 0o4755, 0o6755:
        try:
            way("%s-%o" % (name, m), m)
            print("%s-%o" % (name, m))
        except OSError: pass
`

// TestSetIDModes: no way to give a file a mode leaves a set-id bit in a mounted directory, whether the directory has the set-gid bit or not.
func TestSetIDModes(t *testing.T) {
	const find = "find . -perm /6000 ! -type d"
	dir := engine.Workspace(t, nil)
	env.Check(t, os.WriteFile(filepath.Join(dir, "attempts.py"), []byte(setIDAttempts), 0o644))
	asOwner(t, dir, "python3 attempts.py")
	if got := strings.Fields(asOwner(t, dir, find)); len(got) < 20 {
		t.Errorf("outside a jail %d ways leave a bit: the test shows little: %s", len(got), got)
	}
	for _, mode := range []string{"755", "2775"} {
		dir := engine.Workspace(t, nil)
		asOwner(t, dir, "chmod "+mode+" .")
		code, out, errs := sandbox(t, "--workspace", dir, "--", "python3", "-c", setIDAttempts)
		if code != 0 {
			t.Fatalf("status %d: %s%s", code, out, errs)
		}
		for _, way := range []string{"chmod", "fchmod", "fchmodat", "open", "mknod", "mknodat", "mkfifo", "mkdir"} {
			if !strings.Contains(out, way+"-755\n") {
				t.Errorf("%s does not work without a bit:\n%s", way, out)
			}
		}
		if got := asOwner(t, dir, find); got != "" {
			t.Errorf("in a directory of mode %s: %s", mode, got)
		}
		if got := asOwner(t, dir, "find . -mindepth 1 -perm /6000 -type d"); mode == "755" && got != "" {
			t.Errorf("directories: %s", got)
		}
	}
}

// TestLostProtection: what takes a placeholder away is an alert while the jail runs, once for each path.
func TestLostProtection(t *testing.T) {
	dir := filepath.Join(project(t), "repo")
	policy, journal := journaled(t, "")
	h := hold(t, policy, dir)
	asOwner(t, dir, "git clean -ffdxq -e .idea")
	env.Eventually(t, "alerts of .vscode and .husky", func() bool {
		text := strings.Join(alerts(journal()), "")
		return strings.Contains(text, "/.vscode") && strings.Contains(text, "/.husky")
	})
	if err := h.End(); err != nil {
		t.Error(err)
	}
	text := journal()
	if n := strings.Count(strings.Join(alerts(text), ""), "/.vscode\""); n != 1 {
		t.Errorf(".vscode has %d alerts:\n%s", n, text)
	}
	if strings.Contains(strings.Join(alerts(text), ""), "/.idea") {
		t.Errorf(".idea is there:\n%s", text)
	}
}

// TestLostProtectionPauses: with binds.lost = "pause" the jail does nothing further.
func TestLostProtectionPauses(t *testing.T) {
	dir := filepath.Join(project(t), "repo")
	policy, journal := journaled(t, `binds.lost = "pause"`)
	h := hold(t, policy, dir)
	asOwner(t, dir, "rm -r .vscode")
	env.Eventually(t, "an alert", func() bool { return len(alerts(journal())) > 0 })
	if text := journal(); !strings.Contains(text, "was paused") {
		t.Errorf("no pause:\n%s", text)
	}
	id := h.id(t, journal())
	fmt.Fprintf(h.In, "echo late >late\n")
	state := engine.Run(t, bin, "--config", policy, "--root", "/run/agentjail/sandbox/delegate", "state", id)
	if !strings.Contains(state.Stdout, "paused") {
		t.Errorf("the jail is not paused: %s%s", state.Stdout, state.Stderr)
	}
	if _, err := os.Lstat(filepath.Join(dir, "late")); err == nil {
		t.Error("the paused jail wrote")
	}
	exec := engine.Run(t, bin, "--config", policy, "--root", "/run/agentjail/sandbox/delegate", "exec", id, "true")
	if exec.Code == 0 || !strings.Contains(exec.Stderr, "binds.lost") {
		t.Errorf("exec: status %d, %s", exec.Code, exec.Stderr)
	}
	if r := engine.Run(t, bin, "--config", policy, "--root", "/run/agentjail/sandbox/delegate", "resume", id); r.Code != 0 {
		t.Errorf("resume: %s", r.Stderr)
	}
	if err := h.End(); err != nil {
		t.Error(err)
	}
}

// TestLostUnwatched: a bundle over runc, with no process that is there for it: exec and delete find what was taken away.
func TestLostUnwatched(t *testing.T) {
	for _, looks := range []string{"exec", "delete"} {
		dir := engine.Workspace(t, nil)
		asOwner(t, dir, "echo x >file")
		policy, journal := journaled(t, "")
		base := engine.TempDir(t, "/var/lib", "agentjail-lost-")
		b := engine.NewBundle(t, base)
		b.Mount(dir, "/w")
		b.Spec.Process.Args = []string{"sleep", "1000"}
		b.Write(t)
		id := filepath.Base(dir)
		call := func(args ...string) engine.Result {
			return engine.Run(t, bin, append([]string{"--config", policy, "--root", filepath.Join(base, "root")}, args...)...)
		}
		t.Cleanup(func() { call("delete", "--force", id) })
		for _, args := range [][]string{{"create", "--bundle", b.Dir, id}, {"start", id}} {
			// Its output is the jail's, which has it as long as it runs: no pipe.
			cmd := exec.Command(bin, append([]string{"--config", policy, "--root", filepath.Join(base, "root")}, args...)...)
			if err := cmd.Run(); err != nil {
				t.Fatalf("%v: %v", args, err)
			}
		}
		asOwner(t, dir, "rm -r .vscode .claude")
		if looks == "exec" {
			if r := call("exec", id, "true"); r.Code != 0 || !strings.Contains(r.Stderr, "/w/.vscode") {
				t.Errorf("exec: status %d, %s", r.Code, r.Stderr)
			}
			if n := len(alerts(journal())); n != 6 { // .vscode, and five in .claude
				t.Errorf("exec: %d alerts", n)
			}
		}
		call("delete", "--force", id)
		if n := len(alerts(journal())); n != 6 {
			t.Errorf("%s: %d alerts\n%s", looks, n, journal())
		}
		if got := asOwner(t, dir, "ls -A"); got != "file\n" {
			t.Errorf("left: %q", got)
		}
	}
}

// id is the jail's, from its journal.
func (h *held) id(t *testing.T, journal string) string {
	t.Helper()
	_, rest, _ := strings.Cut(journal, `"jail":"`)
	id, _, ok := strings.Cut(rest, `"`)
	if !ok {
		t.Fatalf("no id in\n%s", journal)
	}
	return id
}

// TestLostToAnotherJail: two jails over one directory, by two paths: the end of one leaves the other's protection.
func TestLostToAnotherJail(t *testing.T) {
	dir := filepath.Join(project(t), "repo")
	alias := engine.TempDir(t, "/tmp", "agentjail-alias-")
	if out, err := exec.Command("mount", "--bind", dir, alias).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Cleanup(func() { _ = exec.Command("umount", "-l", alias).Run() })
	policy, journal := journaled(t, "")
	a, b := hold(t, policy, dir), hold(t, policy, alias)
	if err := a.End(); err != nil {
		t.Error(err)
	}
	for _, script := range []string{"mkdir .husky; echo x >.husky/pre-commit", "echo ../x >.git/commondir", "mkdir .claude; echo {} >.claude/settings.json"} {
		if got := b.do(t, script); strings.HasSuffix(got, "=0\n") {
			t.Errorf("%s: %s", script, got)
		}
	}
	if err := b.End(); err != nil {
		t.Error(err)
	}
	if got := alerts(journal()); len(got) > 0 {
		t.Errorf("alerts: %s", got)
	}
	if got := asOwner(t, dir, "ls -A | tr '\\n' ' '"); got != ".git .gitmodules file lib " {
		t.Errorf("left: %q", got)
	}
}

// TestSocketStartedAnew: where a server of the host's makes its socket anew, the lost cover is an alert at once, and the new socket is among what
// came, as one is that was not there.
func TestSocketStartedAnew(t *testing.T) {
	dir := engine.Workspace(t, nil)
	listen := &engine.Endpoints{Dir: dir}
	sock, other := filepath.Join(dir, "stream"), filepath.Join(dir, "other")
	listen.Listen(t, sock, 1)
	policy, journal := journaled(t, "")
	h := hold(t, policy, dir)
	if a := alerts(journal()); len(a) != 0 {
		t.Errorf("before: %s", a)
	}
	env.Check(t, os.Remove(sock))
	listen.Listen(t, sock, 1)
	listen.Listen(t, other, 1)
	env.Eventually(t, "the alert", func() bool {
		a := alerts(journal())
		return len(a) == 1 && strings.Contains(a[0], sock)
	})
	env.Check(t, h.End())
	for _, at := range []string{"stream", "other"} {
		if !strings.Contains(arrived(journal()), `"`+at+`"`) && !strings.Contains(arrived(journal()), "/"+at) {
			t.Errorf("%s is not among what came: %s", at, arrived(journal()))
		}
	}
}

// arrived are the lines of a journal about what came to mounted directories.
func arrived(journal string) string {
	var out strings.Builder
	for line := range strings.Lines(journal) {
		if strings.Contains(line, `"jail.arrived"`) {
			out.WriteString(line)
		}
	}
	return out.String()
}
