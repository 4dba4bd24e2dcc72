package hostile

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// A reviewed is what `agentjail workspace diff --json` has of a view.
type reviewed struct {
	Changes []struct {
		Path, Conflict string
		Marks          []struct{ Kind, Why string }
	}
	Git []string
}

// marks reports whether something below a directory is marked, or is of a git directory, which is named and not compared.
func (r reviewed) marks(dir string) bool {
	for _, c := range r.Changes {
		if strings.HasPrefix(c.Path, dir) && len(c.Marks) > 0 {
			return true
		}
	}
	for _, g := range r.Git {
		if strings.HasPrefix(g, dir) {
			return true
		}
	}
	return false
}

// protected reports whether an apply leaves something out.
func (r reviewed) protected() bool {
	for _, c := range r.Changes {
		for _, m := range c.Marks {
			if m.Kind == "protected" {
				return true
			}
		}
	}
	return false
}

// TestHostileViews: what a jail does in each row reaches a view alone, and is marked there. After an apply without --protected nothing of it
// runs on the host either.
func TestHostileViews(t *testing.T) {
	engine.NeedsViews(t)
	if !has("git") {
		t.Skip("no git on this machine")
	}
	all, p := rows(), newPlace(t, false)
	p.prepare(t, all)
	before := make([]string, len(all))
	for i, r := range all {
		before[i] = state(filepath.Join(p.row(i), r.file))
	}
	policy := engine.PolicyFile(t, "workspace.size = \"64MiB\"\nworkspace.files = 16000\n")
	for from := 0; from < len(all); from += perJail {
		dir := filepath.Dir(p.row(from))
		name := filepath.Base(p.dir) + "-" + filepath.Base(dir)
		t.Cleanup(func() { engine.Run(t, bin, "workspace", "discard", name) })
		was := snapshot(t, dir)
		p.plantIn(t, all, from, policy, "--review", "--view", name)
		if is := snapshot(t, dir); is != was {
			t.Errorf("%s was\n%s\nand is\n%s", dir, was, is)
		}
		r := engine.Run(t, bin, "workspace", "diff", "--json", name)
		var review reviewed
		if err := json.Unmarshal([]byte(r.Stdout), &review); err != nil || r.Code != 1 {
			t.Fatalf("%v: %s", err, r)
		}
		for _, c := range review.Changes {
			if c.Conflict != "" {
				t.Errorf("%s: a conflict: %s", c.Path, c.Conflict)
			}
		}
		for i := from; i < min(from+perJail, len(all)); i++ {
			if !review.marks(fmt.Sprint(i) + "/") {
				t.Errorf("%s: %s: nothing is marked: %+v", all[i].mechanism, all[i].key, review)
			}
		}
		want := 0 // git directories are not compared, and so not left out
		if review.protected() {
			want = 1
		}
		if r := engine.Run(t, bin, "workspace", "apply", name); r.Code != want {
			t.Fatal(want, r)
		}
	}
	for i, r := range all {
		// A program of the person's would show no more than the file that it reads, and takes seconds.
		if r.safe = ""; r.need != "" {
			r.run = ""
		}
		t.Run(strings.ReplaceAll(r.mechanism+": "+r.key, "/", "|"), func(t *testing.T) { p.try(t, i, r, before[i]) })
	}
}

// snapshot lists all below a directory, with times of change: what was written to has another one.
func snapshot(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.Walk(dir, func(path string, fi os.FileInfo, err error) error {
		if err == nil {
			fmt.Fprintln(&b, path, fi.Mode(), fi.Size(), fi.ModTime().UnixNano())
		}
		return err
	})
	env.Check(t, err)
	return b.String()
}

// ownTraps are settings and programs of the person's repository, and of its submodule, that the host's git runs.
const ownTraps = words + `
repo r; cd r; evil p cat; evil q; sub
for d in . lib; do
	git -C $d config core.fsmonitor $PWD/q; git -C $d config diff.t.textconv $PWD/p; git -C $d config diff.external $PWD/q
	git -C $d config filter.e.clean $PWD/p; git -C $d config filter.e.smudge $PWD/p; git -C $d config core.hooksPath $PWD/hooks; git -C $d config core.pager $PWD/p
	printf '* diff=t filter=e\n' >$d/.gitattributes
done
for h in post-index-change reference-transaction pre-commit post-checkout; do evil hooks/$h; done
rm -f $M`

// inTraps is what a jail does in that repository.
const inTraps = words + `
cd r; for i in f lib/f new lib/new; do echo more >>$i; done; printf 'a\0b' >bin; nested inner; evil inner/p; git -C inner config core.fsmonitor ./p
git config core.fsmonitor ./p; evil .git/hooks/post-index-change; evil lib/.git/hooks/x 2>/dev/null; rm -rf hooks; mkdir hooks; evil hooks/pre-commit
ln -s /proc/self/root root; ln -s /proc/1/cwd/etc etc; ln -s ../../homes homes; rm p; ln -s /etc/passwd p; mkdir -p d/e; ln -s /proc/self/fd d/fd`

// TestViewCommandsRunNothing: no command for views runs what a repository's own settings name, or what a jail planted, and none follows a link.
func TestViewCommandsRunNothing(t *testing.T) {
	engine.NeedsViews(t)
	if !has("git") {
		t.Skip("no git on this machine")
	}
	p := newPlace(t, false)
	ws, mark, home := p.dir+"/ws", p.mark(0), p.dir+"/homes"
	personsDir(t, ws)
	if out, err := asPerson(ws, home, ownTraps, "M="+mark); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	ran := func() bool { _, err := os.Lstat(mark); return err == nil }
	for _, command := range []string{"git status", "git diff"} {
		if out, _ := asPerson(ws+"/r", home, command, "M="+mark); !ran() {
			t.Fatalf("the control: %s runs nothing\n%s", command, out)
		}
		env.Check(t, os.Remove(mark))
	}
	policy, name := engine.PolicyFile(t, "workspace.size = \"32MiB\"\n"), filepath.Base(p.dir)
	t.Cleanup(func() { engine.Run(t, bin, "workspace", "discard", name) })
	was, outside := snapshot(t, ws), snapshot(t, home)
	r := engine.Run(t, bin, "--config", policy, "sandbox", "--workspace", ws, "--review", "--view", name, "--env", "M="+mark, "--", "sh", "-c", inTraps)
	if r.Code > 1 {
		t.Fatal(r)
	}
	for _, c := range []struct {
		args  string
		code  int
		wrote bool
	}{
		{"list", 0, false},
		{"diff", 1, false},
		{"diff --stat", 1, false},
		{"diff -p", 1, false},
		{"diff --json", 1, false},
		{"export", 1, false},
		{"apply --dry-run", 1, false},
		{"apply", 1, true},
		{"apply --protected --links", 0, true},
		{"diff -p", 0, true},
		{"discard", 0, true},
	} {
		args := append([]string{"workspace"}, strings.Fields(c.args)...)
		if c.args != "list" {
			args = append(args, name)
		}
		cmd := exec.Command(bin, args...)
		cmd.Dir, cmd.Env = ws+"/r", append(os.Environ(), "PAGER="+ws+"/r/q", "GIT_DIR="+ws+"/r/.git", "M="+mark)
		out, _ := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != c.code {
			t.Errorf("%s: status %d, not %d: %s", c.args, code, c.code, out)
		}
		if ran() {
			t.Fatalf("%s: a program ran on the host", c.args)
		}
		if got := snapshot(t, ws); !c.wrote && got != was {
			t.Errorf("%s: the directory was\n%s\nand is\n%s", c.args, was, got)
		}
		if got := snapshot(t, home); got != outside {
			t.Errorf("%s: outside of the directory was\n%s\nand is\n%s", c.args, outside, got)
		}
	}
	if target, err := os.Readlink(ws + "/r/p"); err != nil || target != "/etc/passwd" {
		t.Errorf("a link that was requested: %q, %v", target, err)
	}
}
