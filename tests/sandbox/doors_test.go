package sandbox

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// plants is what a jail writes for the host to run or follow, beside work of its own.
const plants = `mkdir -p .husky .vscode sub/.git~1 mixed; echo evil >.husky/pre-commit; echo '{}' >.vscode/tasks.json; ln -s /etc/passwd out
echo more >>old; mv lib lib2; echo x >'sub/a name '; echo x >"sub/git~1"; echo x >sub/.git~1/f; rm -r turn; printf 'a\0b' >turn; echo 1 >mixed/1
ln -s ../old in; ln -s gm .gitmodules; mkfifo pipe; rm file; mkdir file; echo f >file/f`

// TestExportIsApply: an exported patch makes of the directory what an apply does, but for what no patch has; both leave out the same, and name it
// in the same lines, with the same options and paths.
func TestExportIsApply(t *testing.T) {
	dir := engine.Workspace(t, map[string]string{"old": "old\n", "lib/a": "a\n", "turn/x": "x\n", "file": "f\n", ".husky/_": "h\n"})
	name := "v" + filepath.Base(dir)
	t.Cleanup(func() { agentjail(t, "workspace", "discard", name) })
	if code, out, errs := inView(t, small(t), dir, plants, "--view", name); code != 0 {
		t.Fatalf("status %d, %q, %q", code, out, errs)
	}
	noPatch := regexp.MustCompile(`(?m)^agentjail: left out: [^:]*: (git refuses|of the change of its type) .*\n`)
	for _, args := range [][]string{{}, {"--protected"}, {"--links"}, {"--protected", "--links"}, {"lib2", "old"}, {".husky"}} {
		copied := engine.TempDir(t, "/tmp", "agentjail-export-")
		if out, err := exec.Command("cp", "-a", dir+"/.", copied).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		// Options stand before the id, paths after it.
		call := func(verb string, more ...string) engine.Result {
			args := append([]string{"workspace", verb}, append(more, args...)...)
			if i := slices.IndexFunc(args, func(a string) bool { return a == "lib2" || a == ".husky" }); i > 0 {
				return engine.Run(t, bin, slices.Insert(slices.Clone(args), i, name)...)
			}
			return engine.Run(t, bin, append(args, name)...)
		}
		patch, planned := call("export"), call("apply", "--dry-run")
		if got := noPatch.ReplaceAllString(patch.Stderr, ""); got != planned.Stderr || patch.Code < planned.Code {
			t.Errorf("%q: export: status %d, %q\nnot as apply: status %d, %q", args, patch.Code, patch.Stderr, planned.Code, planned.Stderr)
		}
		for _, cmd := range [][]string{{"init", "-q"}, {"apply", "--whitespace=nowarn"}} {
			if patch.Stdout == "" {
				break
			}
			git := exec.Command("git", cmd...)
			git.Dir, git.Stdin = copied, strings.NewReader(patch.Stdout)
			git.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
			if out, err := git.CombinedOutput(); err != nil {
				t.Fatalf("%q: git %s: %v: %s\n%s", args, cmd, err, out, patch.Stdout)
			}
		}
		for at, flag := range map[string]string{".husky/pre-commit": "--protected", ".vscode/tasks.json": "--protected", "out": "--links"} {
			if _, err := os.Lstat(copied + "/" + at); (err == nil) != slices.Contains(args, flag) {
				t.Errorf("%q: %s: %v", args, at, err)
			}
		}
		for line := range strings.Lines(planned.Stdout) {
			at := strings.TrimSpace(line)
			_, err := os.Lstat(copied + "/" + at)
			if at != ".gitmodules" && (err == nil) == (at == "lib") { // that is a link here
				t.Errorf("%q: %s: %v", args, at, err)
			}
		}
	}
	env.Check(t, os.WriteFile(dir+"/old", []byte("owner\n"), 0o644))
	if code, out := agentjail(t, "workspace", "export", name); code != 1 || !strings.Contains(out, "conflict: old: ") || !strings.Contains(out, "--each") || strings.Contains(out, "diff --git") {
		t.Errorf("with a conflict: status %d, %s", code, out)
	}
	if code, out := agentjail(t, "workspace", "export", "--each", name); code != 1 || !strings.Contains(out, "conflict: old: ") || strings.Contains(out, "+more") || !strings.Contains(out, "lib2/a") {
		t.Errorf("with each: status %d, %s", code, out)
	}
}

// TestApplyIf: an apply and an export that are bound to a diff do what that has shown, or nothing; while a jail has the view, an apply
// is bound, or is requested all the same.
func TestApplyIf(t *testing.T) {
	dir, policy := repository(t), small(t)
	name := "v" + filepath.Base(dir)
	t.Cleanup(func() { agentjail(t, "workspace", "discard", name) })
	jail := env.Begin(t, exec.Command(bin, "--config", policy, "sandbox", "--workspace", dir, "--review", "--view", name, "--", "sh", "-c",
		"echo good >new; echo good >other; echo ready; while read f; do echo evil >$f; echo done; done"))
	jail.Await(t, "ready")
	token := func(args ...string) string {
		r := engine.Run(t, bin, append([]string{"workspace", "diff"}, args...)...)
		lines := strings.Split(strings.TrimSpace(r.Stdout), "\n")
		got, ok := strings.CutPrefix(lines[len(lines)-1], "token ")
		if r.Code != 1 || !ok || len(got) != 65 {
			t.Fatal(r)
		}
		return got
	}
	first := token(name)
	if second, third := token("--stat", name), token("-p", name); first != second || first != third {
		t.Errorf("tokens: %s, %s, %s", first, second, third)
	}
	var shown struct{ Token string }
	if err := json.Unmarshal([]byte(engine.Run(t, bin, "workspace", "diff", "--json", name).Stdout), &shown); err != nil || shown.Token != first {
		t.Errorf("%+v: %v", shown, err)
	}
	before := tree(t, dir)
	refused := func(code int, says string, args ...string) {
		t.Helper()
		if got, out := agentjail(t, append([]string{"workspace"}, args...)...); got != code || !strings.Contains(out, says) || strings.Contains(out, "diff --git") {
			t.Errorf("%q: status %d, %s", args, got, out)
		}
		if after := tree(t, dir); after != before {
			t.Errorf("%q: the directory is\n%s", args, after)
		}
	}
	refused(125, "(remedy: agentjail workspace apply ", "apply", name)
	new, other := token(name, "new"), token(name, "other")
	_, err := io.WriteString(jail.In, "new\n")
	env.Check(t, err)
	jail.Await(t, "done")
	refused(3, "these are not the changes of --if", "apply", "--if", first, name)
	refused(3, "these are not the changes of --if", "apply", "--if", new, name, "new")
	refused(3, "these are not the changes of --if", "apply", "--if", other, name)
	refused(2, "--if has an empty value", "apply", "--if", "", name)
	refused(3, "these are not the changes of --if", "apply", "--dry-run", "--if", first, name)
	refused(3, "these are not the changes of --if", "export", "--if", first, name)
	if code, out := agentjail(t, "workspace", "export", "--if", other, name, "other"); code != 0 || !strings.Contains(out, "+good") {
		t.Errorf("status %d, %s", code, out)
	}
	if code, out := agentjail(t, "workspace", "apply", "--if", other, name, "other"); code != 0 || !strings.HasPrefix(out, "other\n") {
		t.Errorf("status %d, %s", code, out)
	}
	if code, out := agentjail(t, "workspace", "apply", "--live", name, "new"); code != 0 || !strings.HasPrefix(out, "new\n") {
		t.Errorf("status %d, %s", code, out)
	}
	for file, want := range map[string]string{"other": "good\n", "new": "evil\n"} {
		if text, err := os.ReadFile(dir + "/" + file); err != nil || string(text) != want {
			t.Errorf("%s: %q %v", file, text, err)
		}
	}
	if err := jail.End(); err != nil {
		t.Error(err)
	}
}

// TestStagedFilesAreShutToJails: a jail that has the directory mounted opens no file that waits to be applied to it.
func TestStagedFilesAreShutToJails(t *testing.T) {
	dir, policy := repository(t), small(t)
	name := "v" + filepath.Base(dir)
	t.Cleanup(func() { agentjail(t, "workspace", "discard", name) })
	if code, out, errs := inView(t, policy, dir, "i=0; while [ $i -lt 1500 ]; do echo reviewed >f$i; i=$((i+1)); done", "--view", name); code != 0 {
		t.Fatalf("status %d, %q, %q", code, out, errs)
	}
	const script = `import os, sys
print("ready", flush=True)
seen, held = set(), []
while not os.path.exists("f1499"):
	for d in os.listdir("."):
		if not d.startswith(".agentjail-apply-"): continue
		seen.add(d)
		for i in range(1500 if len(held) < 100 else 0):
			try: len(held) < 500 and held.append(os.open("%s/%d" % (d, i), os.O_RDWR))
			except OSError: pass
for fd in held: os.pwrite(fd, b"EVIL", 0)
print(len(seen), len(held), flush=True)`
	const python = "/usr/bin/python3" // jails have /usr
	if _, err := os.Stat(python); err != nil {
		t.Skip(err)
	}
	jail := env.Begin(t, exec.Command(bin, "sandbox", "--workspace", dir, "--", python, "-c", script))
	jail.Await(t, "ready")
	if code, out := agentjail(t, "workspace", "apply", name); code != 0 {
		t.Errorf("status %d, %s", code, out)
	}
	if got := jail.Line(t); !strings.HasSuffix(got, " 0") {
		t.Errorf("the jail saw and opened %s", got)
	}
	for i := range 1500 {
		if text, err := os.ReadFile(fmt.Sprintf("%s/f%d", dir, i)); err != nil || string(text) != "reviewed\n" {
			t.Fatalf("f%d: %q %v", i, text, err)
		}
	}
}
