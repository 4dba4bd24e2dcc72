package e2e

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

func init() {
	engine.Policies["agentjail-unprotected"] = "[binds]\nprotect = false\n"
	engine.Policies["agentjail-hiding"] = "[binds]\nhide = [\".env\", \"*.pem\", \"id_*\"]\nunprotect = [\".vscode\"]\n"
	engine.Policies["agentjail-hiding-service"] = engine.Policies["agentjail-hiding"] +
		"[process]\ncapabilities = [\"CHOWN\", \"DAC_OVERRIDE\", \"FOWNER\", \"KILL\", \"SETGID\", \"SETUID\"]\n[seccomp]\nprofile = \"service\"\n"
}

// repository makes what git init does, as far as git looks at it, with uid 1000 as its owner.
func repository(t testing.TB, at string) {
	t.Helper()
	for _, d := range []string{"objects", "refs", "hooks", "info"} {
		env.Check(t, os.MkdirAll(filepath.Join(at, d), 0o755))
	}
	env.Put(t, filepath.Join(at, "HEAD"), "ref: refs/heads/main\n", 0o644, 1000)
	env.Put(t, filepath.Join(at, "config"), "[core]\n\tbare = false\n", 0o644, 1000)
	env.Put(t, filepath.Join(at, "hooks/pre-commit"), "#!/bin/sh\n", 0o755, 1000)
}

// hostile makes a project with a nested repository, a submodule and a further work tree, and what an attack brings along.
func hostile(t testing.TB) string {
	t.Helper()
	dir := directory(t, 1000)
	for _, g := range []string{".git", "lib/nested/.git", ".git/modules/sub"} {
		repository(t, filepath.Join(dir, g))
	}
	for _, d := range []string{"sub", "tree", "mark", ".git/worktrees/tree", ".vscode", "evil/hooks"} {
		env.Check(t, os.MkdirAll(filepath.Join(dir, d), 0o755))
	}
	for name, text := range map[string]string{
		"sub/.git": "gitdir: ../.git/modules/sub\n", "tree/.git": "gitdir: ../.git/worktrees/tree\n",
		".git/worktrees/tree/commondir": "../..\n", ".git/worktrees/tree/HEAD": "ref: refs/heads/tree\n",
		".vscode/tasks.json": "{}", ".bashrc": "# mine\n", "mark/.git": "", "evil/file": "evil", "evil/config": "[core]\n\tfsmonitor = evil\n",
	} {
		env.Put(t, filepath.Join(dir, name), text, 0o644, 1000)
	}
	err := filepath.WalkDir(dir, func(p string, _ fs.DirEntry, err error) error {
		if err == nil {
			err = os.Lchown(p, 1000, 1000)
		}
		return err
	})
	env.Check(t, err)
	return dir
}

// protectedAttacks are tried in a project, each in one of its own.
var protectedAttacks = []struct{ name, script string }{
	{"make a hook", "echo evil >.git/hooks/post-checkout"},
	{"write to a hook", "echo evil >>.git/hooks/pre-commit"},
	{"truncate a hook", ": >.git/hooks/pre-commit"},
	{"make a hook executable for others", "chmod 777 .git/hooks/pre-commit"},
	{"remove a hook", "rm -f .git/hooks/pre-commit"},
	{"rename the hooks", "mv .git/hooks .git/old; mv evil/hooks .git/hooks"},
	{"rename the git directory", "mv .git old; mv evil .git"},
	{"remove the git directory", "rm -rf .git"},
	{"put a link in place of the git directory", "mv .git old; ln -s evil .git"},
	{"write to the config", "f=.git/config; [ -L $f ] || echo evil >>$f"},
	{"put another config in its place", "cp evil/config .git/config.lock; mv -f .git/config.lock .git/config"},
	{"remove the config", "rm -f .git/config && cp evil/config .git/config"},
	{"write to a hard link of the config", "ln .git/config link && echo evil >>link"},
	{"write to a hard link of a hook", "ln .git/hooks/pre-commit link && echo evil >>link"},
	{"lead git to another directory", "echo ../evil >.git/commondir"},
	{"the same by a rename", "echo ../evil >c; mv -f c .git/commondir"},
	{"make the work tree's config", "cp evil/config .git/config.worktree"},
	{"make attributes", "echo '* filter=evil' >.git/info/attributes"},
	{"make a nested repository's hook", "echo evil >lib/nested/.git/hooks/post-checkout"},
	{"rename a nested repository", "mv lib/nested lib/old; mkdir -p lib/nested/.git/hooks"},
	{"rename what a nested repository is in", "mv lib old; mkdir -p lib/nested/.git/hooks"},
	{"make a submodule's hook", "echo evil >.git/modules/sub/hooks/post-checkout"},
	{"rename a submodule's git directory", "mv .git/modules/sub .git/modules/old; mkdir .git/modules/sub; cp -r evil/. .git/modules/sub"},
	{"lead a submodule elsewhere", "echo 'gitdir: ../evil' >sub/.git"},
	{"have a tool's mark lead git", "echo 'gitdir: ../evil' >mark/.git && ! rm -f mark/.git"},
	{"put a directory in place of a submodule's file", "rm -f sub/.git; mkdir -p sub/.git/hooks"},
	{"lead a further work tree elsewhere", "echo ../../../evil >.git/worktrees/tree/commondir"},
	{"write an editor's tasks", "echo evil >.vscode/tasks.json"},
	{"put another directory in their place", "mv .vscode old; mkdir .vscode; echo evil >.vscode/tasks.json"},
	{"write to a hard link of the tasks", "ln .vscode/tasks.json link && echo evil >>link"},
	{"make an agent's servers", "rmdir .mcp.json 2>/dev/null; echo evil >.mcp.json"},
	{"make an agent's settings", "mkdir -p .claude; rmdir .claude/settings.json 2>/dev/null; echo evil >.claude/settings.json"},
	{"make them by a rename of their directory", "mkdir c; echo evil >c/settings.json; mv .claude old; mv c .claude"},
	{"make an agent's settings by a link", "rm -rf .codex; ln -s evil .codex"},
	{"write a shell's start-up file", "echo evil >>.bashrc"},
	{"make a shell's start-up file", "rmdir .profile 2>/dev/null; echo evil >.profile"},
	{"put another in its place", "cp evil/file b; mv -f b .bashrc"},
}

// watched is the state of what the host runs in a project.
func watched(t testing.TB, dir string) string {
	t.Helper()
	var out []string
	note := func(p string) {
		rel, _ := filepath.Rel(dir, p)
		st, err := os.Lstat(p)
		switch {
		case err != nil:
			out = append(out, rel+": absent")
		case st.Mode().IsRegular():
			text, _ := os.ReadFile(p)
			out = append(out, fmt.Sprintf("%s: %v %q", rel, st.Mode(), text))
		default:
			out = append(out, fmt.Sprintf("%s: %v", rel, st.Mode()))
		}
	}
	for _, top := range []string{
		".git", ".git/hooks", ".git/config", ".git/commondir", ".git/config.worktree", ".git/info/attributes",
		"lib/nested/.git", "lib/nested/.git/hooks", "lib/nested/.git/config", ".git/modules/sub/hooks", ".git/modules/sub/config", "sub/.git",
		"mark/.git", "tree/.git", ".git/worktrees/tree/commondir", ".vscode", ".mcp.json", ".claude/settings.json", ".codex", ".bashrc", ".profile",
	} {
		at := filepath.Join(dir, top)
		note(at)
		if strings.HasSuffix(top, ".git") {
			continue
		}
		_ = filepath.WalkDir(at, func(p string, _ fs.DirEntry, err error) error {
			if err == nil && p != at {
				note(p)
			}
			return nil
		})
	}
	return strings.Join(out, "\n")
}

// TestProtectedPaths makes each attack in two jails, one of which has the protection. Each changes what the host runs in
// the other one.
func TestProtectedPaths(t *testing.T) {
	needAgentjail(t)
	d := d(t)
	for _, c := range []struct {
		runtime string
		changes bool
	}{{"agentjail-unprotected", true}, {engine.Name, false}} {
		args := []string{"run", "--rm", "--runtime=" + c.runtime, "-u", "1000:1000"}
		var dirs, before []string
		script := ""
		for i, a := range protectedAttacks {
			dir := hostile(t)
			dirs, before = append(dirs, dir), append(before, watched(t, dir))
			at := fmt.Sprintf("/w%d", i)
			args = append(args, "-v", dir+":"+at)
			script += "cd " + at + "\n(" + a.script + ") >/dev/null 2>&1\n"
		}
		d.Must(append(args, engine.Busybox, "sh", "-c", script+"true")...)
		for i, a := range protectedAttacks {
			after := watched(t, dirs[i])
			if changed := after != before[i]; changed != c.changes {
				t.Errorf("%s: %s: changed %v\nbefore:\n%s\nafter:\n%s", c.runtime, a.name, changed, before[i], after)
			}
		}
	}
}

// TestPlaceholdersGo: what was made for absent paths is there while a jail of the directory is, and goes with the last
// one, killed or not.
func TestPlaceholdersGo(t *testing.T) {
	needAgentjail(t)
	d := d(t)
	dir := hostile(t)
	before := env.Tree(dir)
	one, two := sleeper(d, "-v", dir+":/w"), sleeper(d, "-v", dir+":/w")
	with := env.Tree(dir)
	if with == before {
		t.Error("nothing was made")
	}
	d.Must("rm", "-f", one)
	if got := env.Tree(dir); got != with {
		t.Errorf("after the first jail's end:\n%s\nbefore it:\n%s", got, with)
	}
	d.Must("kill", two)
	d.Must("rm", "-f", two)
	if got := env.Tree(dir); got != before {
		t.Errorf("left:\n%s\nbefore:\n%s", got, before)
	}
}

// TestProtectedPathMounted: a mount of a protected path, or of a part of one, is read-only.
func TestProtectedPathMounted(t *testing.T) {
	needAgentjail(t)
	d := d(t)
	dir := hostile(t)
	for _, at := range []string{".git/hooks", ".vscode", ".bashrc"} {
		mustRunJail(d, "-v", filepath.Join(dir, at)+":/m", engine.Busybox, "sh", "-c", "! touch /m && ! touch /m/x")
	}
	// An empty directory stays empty: programs request that.
	env.Equal(t, "an empty directory", mustRunJail(d, "-v", filepath.Join(dir, "evil/hooks")+":/m", engine.Busybox, "sh", "-c", "ls -A /m | wc -l"), "0")
	env.Equal(t, "an engine's volume", mustRunJail(d, "-v", "/m", engine.Busybox, "sh", "-c", "echo >/m/x; ls -A /m | wc -l"), "1")
}

// TestHiddenPaths: policy covers secrets, and leaves to jails what it names.
func TestHiddenPaths(t *testing.T) {
	needAgentjail(t)
	d := d(t)
	dir := hostile(t)
	for _, name := range []string{".env", "lib/key.pem", "id_rsa", "environment"} {
		env.Put(t, filepath.Join(dir, name), "secret "+name+"\n", 0o644, 1000)
	}
	for _, c := range [][2]string{{"agentjail-hiding", ""}, {"agentjail-hiding", ":ro"}, {"agentjail-hiding-service", ""}, {"agentjail-hiding-service", ":ro"}} {
		mode := c[1]
		out := d.Must("run", "--rm", "--runtime="+c[0], "-v", dir+":/w"+mode, engine.Busybox, "sh", "-c",
			`cd /w; for f in .env lib/key.pem id_rsa; do rm -f $f; mv $f $f.moved; umount $f; chmod 777 $f; chown 33 $f; done 2>/dev/null
cat .env lib/key.pem id_rsa environment; echo x >.env; echo y 2>/dev/null >.vscode/tasks.json && echo writable; true`)
		want := "secret environment"
		if mode == "" {
			want += "\nwritable"
		}
		env.Equal(t, c[0]+": hidden"+mode, out, want)
	}
	env.Contain(t, "the host's file", string(env.Read(t, filepath.Join(dir, ".env"))), "secret .env")
}

// TestInspectProtected: inspect counts protected paths, and reports one that the host has replaced, which takes the mount
// with it.
func TestInspectProtected(t *testing.T) {
	needAgentjail(t)
	d := d(t)
	dir := hostile(t)
	id := sleeper(d, "-v", dir+":/w")
	out, code := ownVerb(t, "inspect", id)
	if code != 0 || !strings.Contains(out, "protected paths") {
		t.Errorf("exit code %d: %s", code, out)
	}
	env.Put(t, filepath.Join(dir, "new"), "# the host's\n", 0o644, 1000)
	env.Check(t, os.Rename(filepath.Join(dir, "new"), filepath.Join(dir, ".bashrc")))
	if out, code = ownVerb(t, "inspect", id); code == 0 || !strings.Contains(out, "/w/.bashrc is not mounted any more") {
		t.Errorf("exit code %d: %s", code, out)
	}
}
