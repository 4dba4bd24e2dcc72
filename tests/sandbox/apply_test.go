package sandbox

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"agentjail.dev/tests/docs"
	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// TestReviewCommands: the commands of docs/workspace.md, from the jail to what it wrote applied.
func TestReviewCommands(t *testing.T) {
	dir := engine.Workspace(t, nil)
	name := "v" + filepath.Base(dir)
	t.Cleanup(func() { agentjail(t, "workspace", "discard", name) })
	tools := engine.TempDir(t, "/tmp", "agentjail-tools-")
	for file, text := range map[string]string{
		dir + "/Makefile":    "all:\n\techo made >new\n\tprintf 'old\\nmore\\n' >old\n\trm gone\n\tmkdir -p .git/hooks .husky\n\techo x >.husky/pre-commit\n",
		dir + "/old":         "old\n",
		dir + "/gone":        "gone\n",
		tools + "/sudo":      "#!/bin/sh\nexec \"$@\"\n",
		tools + "/agentjail": "#!/bin/sh\nverb=$1; shift\nexec " + bin + " --config " + small(t) + " $verb \"$@\"\n",
	} {
		env.Check(t, os.WriteFile(file, []byte(text), 0o755))
		env.Check(t, os.Chown(file, 1000, 1000))
	}
	before := tree(t, dir)
	list := docs.Commands(t, "docs/workspace.md")
	for i, want := range []struct {
		code int
		has  []string
	}{
		{0, []string{": 3 added, 1 changed, 1 deleted; 3 to look at first", "A .husky/pre-commit  [protected: hooks of husky]"}},
		{1, []string{"A .husky/pre-commit  [protected", "A new\n", "D gone\n", "M old  [executable"}},
		{1, []string{"gone\nnew\nold\n", "left out: .husky: a protected path"}},
		{0, []string{"discarded"}},
	} {
		cmd := exec.Command("sh", "-c", strings.ReplaceAll(list[i].Text, " fix", " "+name))
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "PATH="+tools+":"+os.Getenv("PATH"))
		out, _ := cmd.CombinedOutput()
		if got := cmd.ProcessState.ExitCode(); got != want.code {
			t.Errorf("%s: status %d, not %d: %s", list[i].Text, got, want.code, out)
		}
		for _, w := range want.has {
			if !strings.Contains(string(out), w) {
				t.Errorf("%s: no %q: %s", list[i].Text, w, out)
			}
		}
		if i < 2 && tree(t, dir) != before {
			t.Errorf("%s: the directory is\n%s", list[i].Text, tree(t, dir))
		}
	}
	for file, want := range map[string]string{"new": "made\n", "old": "old\nmore\n", "gone": "-", ".husky": "-", ".git": "-"} {
		data, err := os.ReadFile(filepath.Join(dir, file))
		if got := string(data); err != nil && want != "-" || err == nil && got != want {
			t.Errorf("%s: %q %v, not %q", file, got, err, want)
		}
	}
	if fi, err := os.Stat(dir + "/new"); err != nil || fi.Sys().(*syscall.Stat_t).Uid != 1000 {
		t.Errorf("new: %v %v", fi, err)
	}
}

// TestReviewGit: commits that an agent made in a view come out as patches, and the repository of
// the directory is as it was.
func TestReviewGit(t *testing.T) {
	dir := engine.Workspace(t, nil)
	name := "v" + filepath.Base(dir)
	t.Cleanup(func() { agentjail(t, "workspace", "discard", name) })
	host := func(script string) string {
		cmd := exec.Command("sh", "-ec", script)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "HOME=/nonexistent")
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 1000, Gid: 1000}}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v: %s", script, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	base := host("git init -q -b main . && echo a >a && git add a && git -c user.name=u -c user.email=u@h commit -qm first && git rev-parse HEAD")
	before := tree(t, dir)
	policy := small(t)
	if code, out, errs := inView(t, policy, dir, "echo b >>a; git -c user.name=agent -c user.email=a@j commit -qam second", "--view", name); code != 0 {
		t.Fatalf("status %d, %q, %q", code, out, errs)
	}
	code, out := agentjail(t, "workspace", "diff", name)
	if code != 1 || !strings.Contains(out, "M a\n") || !strings.Contains(out, "format-patch") || strings.Contains(out, ".git/") {
		t.Errorf("status %d, %s", code, out)
	}
	r := engine.Run(t, bin, "--config", policy, "git", "--view", name, dir, "format-patch", "--stdout", base+"..")
	if r.Code != 0 || !strings.Contains(r.Stdout, "Subject: [PATCH] second") || !strings.Contains(r.Stdout, "+b\n") {
		t.Errorf("status %d, %s%s", r.Code, r.Stdout, r.Stderr)
	}
	if after := tree(t, dir); after != before {
		t.Errorf("the directory was\n%sand is\n%s", before, after)
	}
	if r := engine.Run(t, bin, "git", "--view", "none-of-this-name", dir, "log"); r.Code != 125 || !strings.Contains(r.Stderr, "no such view") {
		t.Errorf("status %d, %s", r.Code, r.Stderr)
	}
	patch := filepath.Join(engine.TempDir(t, "/tmp", "agentjail-patch-"), "patch")
	env.Check(t, os.WriteFile(patch, []byte(r.Stdout), 0o644))
	env.Check(t, os.Chmod(filepath.Dir(patch), 0o755))
	if got := host("git -c user.name=u -c user.email=u@h am -q " + patch + " && git log --format=%s -1 && cat a"); got != "second\na\nb" {
		t.Errorf("after git am: %q", got)
	}
	if code, out := agentjail(t, "workspace", "diff", name); code != 0 || strings.Contains(out, "M a") {
		t.Errorf("what has come out still shows: status %d, %s", code, out)
	}
	// A commit with what an apply leaves out comes out by the same options.
	if code, out, errs := inView(t, policy, dir, `mkdir .husky; echo evil >.husky/pre-commit; ln -s /etc/passwd out; git add .husky out
		git -c user.name=agent -c user.email=a@j commit -qm third; git rm -q --cached -r .husky; rm -r .husky`, "--view", name); code != 0 {
		t.Fatalf("status %d, %q, %q", code, out, errs)
	}
	for _, c := range []struct {
		options, paths []string
		code           int
		says           string
	}{
		{nil, nil, 125, "the patch ends before .husky/pre-commit: a protected path (--protected applies it)"},
		{[]string{"--links"}, nil, 125, "the patch ends before .husky/pre-commit"},
		{[]string{"--protected"}, nil, 125, "the patch ends before out: the link can lead out"},
		{nil, []string{"--", "out"}, 125, "the patch ends before out"},
		{nil, []string{"--", "a"}, 0, ""},
		{[]string{"--protected", "--links"}, nil, 0, ""},
	} {
		args := append([]string{"--config", policy, "git", "--view", name}, c.options...)
		args = append(append(args, dir, "format-patch", "--stdout", base+".."), c.paths...)
		r := engine.Run(t, bin, args...)
		if r.Code != c.code || !strings.Contains(r.Stderr, c.says) || strings.Contains(r.Stdout, "+evil") && len(c.options) == 0 || strings.Contains(r.Stdout, "+/etc/passwd") != (len(c.options) == 2) {
			t.Errorf("%q: status %d: %s%s", args, r.Code, r.Stdout, r.Stderr)
		}
	}
}

// TestReviewShowsEveryForm: each form in which changes are shown, and a part of them applied or dropped.
func TestReviewShowsEveryForm(t *testing.T) {
	dir := repository(t)
	name := "v" + filepath.Base(dir)
	t.Cleanup(func() { agentjail(t, "workspace", "discard", name) })
	code, out, errs := inView(t, small(t), dir, `echo more >>old; printf 'a\0b' >bin; mv lib lib2; printf 'x\033[2J\n' >esc; ln -s /etc out; mkfifo pipe`, "--view", name)
	if code != 0 {
		t.Fatalf("status %d, %q, %q", code, out, errs)
	}
	before := tree(t, dir)
	for _, c := range []struct {
		args []string
		code int
		has  []string
	}{
		{[]string{"diff", name}, 1, []string{"A out -> /etc  [link out: ", "A pipe  [special: ", "R lib/ -> lib2/\n", "M old\n"}},
		{[]string{"diff", "--stat", name}, 1, []string{"     +1     -0  M old\n", "      -      -  A bin\n"}},
		{[]string{"diff", name, "-p"}, 1, []string{"--- a/old\n+++ b/old\n@@ -1 +1,2 @@\n old\n+more\n", `+x\x1b[2J`, "new file mode 120000"}},
		{[]string{"diff", name, "--json"}, 1, []string{`"schema": "agentjail.workspace.diff/1"`, `"kind": "R"`, `"from": "lib"`, `"kind": "link out"`}},
		{[]string{"diff", name, "old", "nothing"}, 125, []string{"nothing: the view has no change there"}},
		{[]string{"export", name}, 1, []string{"diff --git a/lib/a b/lib/a\ndeleted file mode", "left out: bin: a binary file", "left out: out: the link", "left out: pipe: devices"}},
		{[]string{"apply", name, "--dry-run"}, 1, []string{"bin\nesc\nlib\nlib2\nold\n", "left out: out: the link", "left out: pipe: devices"}},
		{[]string{"diff", name, "esc"}, 1, []string{"A esc\n"}},
	} {
		if code, out := agentjail(t, append([]string{"workspace"}, c.args...)...); code != c.code {
			t.Errorf("%v: status %d: %s", c.args, code, out)
		} else {
			for _, w := range c.has {
				if !strings.Contains(out, w) {
					t.Errorf("%v: no %q: %s", c.args, w, out)
				}
			}
		}
	}
	if after := tree(t, dir); after != before {
		t.Errorf("the directory was\n%sand is\n%s", before, after)
	}
	if code, out := agentjail(t, "workspace", "discard", name, "bin", "lib"); code != 0 {
		t.Errorf("status %d: %s", code, out)
	}
	if code, out := agentjail(t, "workspace", "apply", name, "old"); code != 0 || !strings.HasPrefix(out, "old\n") {
		t.Errorf("status %d: %s", code, out)
	}
	if code, out := agentjail(t, "workspace", "diff", name); code != 1 || strings.Contains(out, "lib") || strings.Contains(out, "bin") || strings.Contains(out, "old") {
		t.Errorf("status %d: %s", code, out)
	}
	// Another user is advised.
	cmd := exec.Command(bin, "workspace", "diff", name)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 1000, Gid: 1000}}
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "sudo agentjail workspace diff") {
		t.Errorf("%v: %s", err, out)
	}
}

// TestReviewTwice: a view has one jail at a time; of two views over a directory the second apply finds conflicts; of two applies at one time
// the directory has the one's files, and none of the other's.
func TestReviewTwice(t *testing.T) {
	dir, policy := repository(t), small(t)
	names := []string{"one" + filepath.Base(dir), "two" + filepath.Base(dir)}
	for i, name := range names {
		t.Cleanup(func() { agentjail(t, "workspace", "discard", name) })
		script := fmt.Sprintf("for i in $(seq 200); do echo %d >>f$i; done; echo %[1]d >>old; touch only%[1]d", i)
		if i > 0 {
			if code, out, errs := inView(t, policy, dir, script, "--view", name); code != 0 {
				t.Fatalf("status %d, %q, %q", code, out, errs)
			}
			continue
		}
		// The first view's jail lives until another has been refused.
		cmd := exec.Command(bin, "--config", policy, "sandbox", "--workspace", dir, "--review", "--view", name, "--", "sh", "-ec", script+"; echo ready; read x || true")
		first := env.Begin(t, cmd)
		first.Await(t, "ready")
		if code, out, errs := inView(t, policy, dir, "echo ran", "--view", name); code != 125 || out != "" || !strings.Contains(errs, "has it") {
			t.Errorf("a second jail: status %d, %q, %q", code, out, errs)
		}
		if err := first.End(); err != nil {
			t.Error(err)
		}
	}
	var all []*exec.Cmd
	for _, name := range names {
		cmd := exec.Command(bin, "workspace", "apply", name)
		env.Check(t, cmd.Start())
		all = append(all, cmd)
	}
	won := -1
	for i, cmd := range all {
		if err := cmd.Wait(); err == nil && won < 0 {
			won = i
		} else if err == nil {
			t.Error("both were applied")
		}
	}
	if won < 0 {
		t.Fatal("neither was applied")
	}
	for i := range 201 {
		name := fmt.Sprint("f", i)
		want := fmt.Sprintln(won)
		if i == 0 {
			name, want = "old", "old\n"+want
		}
		if text, err := os.ReadFile(filepath.Join(dir, name)); string(text) != want {
			t.Errorf("%s is %q, %v, not %q", name, text, err, want)
		}
	}
	if code, out := agentjail(t, "workspace", "apply", names[1-won]); code != 1 || !strings.Contains(out, "conflict: f1: it was changed") {
		t.Errorf("the second: status %d, %s", code, out)
	}
	if _, err := os.Lstat(filepath.Join(dir, fmt.Sprint("only", 1-won))); err == nil {
		t.Error("a part of the second was applied")
	}
}
