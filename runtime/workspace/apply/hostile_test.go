package apply

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/protect"
	"agentjail.dev/runtime/workspace/review"
)

// TestHostile: what an agent plants in a view is marked, and is not applied unless it is
// requested. What is never applied stays out all the same.
func TestHostile(t *testing.T) {
	p := newPlace(t, map[string]string{
		"a": "a\n", ".env": "secret\n", "sub/.env": "secret\n", "sub/x": "x\n", "repo/.git/HEAD": "h\n", "repo/file": "f\n", "turn/.git/HEAD": "h\n",
		".git/HEAD": "ref: refs/heads/main\n", ".git/config": "", "in/.vscode/tasks.json": "{}\n", "node_modules/p/x": "x\n",
	})
	p.hidden = []string{".env"}
	m := p.merged
	p.write(t, m, map[string]string{
		".git/hooks/pre-commit": "#!/bin/sh\n", ".git/config": "[core]\nfsmonitor=/x\n", "deep/.GIT/config": "x\n", ".husky/pre-commit": "x\n",
		"deep/.VsCode/tasks.json": "{}\n", ".envrc": "x\n", "Makefile": "all:\n", "pkg/package.json": "{}\n", ".github/workflows/ci.yml": "x\n",
		"AGENTS.md": "x\n", "t/conftest.py": "x\n", "out": "->/etc/passwd", "up": "->../../x", "round": "->a/../../x", "in2": "->deep/../a",
		"proc": "->/proc/self/root", "e\x1b[31mvil\nname": "x\n", "bidi\u202e": "x\n", ".env": "stolen\n", "new/.env": "x\n", "plain": "p\n",
		"node_modules/p/.vscode/x": "x\n", "node_modules/p/package.json": "{}\n", ".agentjail-apply-test/0": "x\n", "dot": "->.",
	})
	must(t, os.WriteFile(m+"/zero", []byte("0\n"), 0))
	must(t, os.WriteFile(m+"/run.sh", []byte("#!/bin/sh\n"), 0o755))
	must(t, unix.Mkfifo(m+"/fifo", 0o666))
	must(t, os.WriteFile(m+"/setid", []byte("x"), 0o755))
	must(t, unix.Mkdir(m+"/shut", 0o700))
	must(t, os.WriteFile(m+"/shut/in", []byte("in\n"), 0o600))
	p.own(t, m)
	must(t, unix.Chmod(m+"/setid", 0o6755))
	must(t, os.Chmod(m+"/shut", 0))
	socket, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	must(t, err)
	must(t, unix.Bind(socket, &unix.SockaddrUnix{Name: m + "/socket"}))
	unix.Close(socket)
	must(t, os.RemoveAll(m+"/sub"))
	must(t, os.RemoveAll(m+"/repo"))
	must(t, os.RemoveAll(m+"/turn"))
	must(t, os.RemoveAll(m+"/in"))
	must(t, os.WriteFile(m+"/turn", []byte("file\n"), 0o644))
	must(t, unix.Truncate(m+"/a", 1<<40)) // sparse
	p.own(t, m)
	r := p.review(t)
	marked := map[string]string{}
	for _, c := range r.Changes {
		var kinds []string
		for _, k := range c.Marks {
			kinds = append(kinds, k.Kind)
		}
		marked[c.Path] = strings.Join(kinds, " ")
	}
	for at, want := range map[string]string{
		".husky/pre-commit": "protected", "deep/.VsCode/tasks.json": "protected", ".envrc": "protected run", "Makefile": "run", "pkg/package.json": "run",
		".github/workflows/ci.yml": "run", "AGENTS.md": "run", "t/conftest.py": "run", "out": "link out", "up": "link out", "round": "link out",
		"in2": "link out", "proc": "link out", "e\x1b[31mvil\nname": "name", "bidi\u202e": "name", "plain": "", "run.sh": "executable", "fifo": "special",
		"socket": "special", "setid": "executable set-id", "in": "protected", "node_modules/p/.vscode/x": "", "node_modules/p/package.json": "", "dot": "",
	} {
		if got, there := marked[at]; !there || got != want {
			t.Errorf("%q is marked %q, not %q (%v)", at, got, want, there)
		}
	}
	for at := range marked {
		for part := range strings.SplitSeq(at, "/") {
			if strings.EqualFold(part, ".git") || part == ".env" || strings.HasPrefix(part, ".agentjail") {
				t.Errorf("%q is compared", at)
			}
		}
	}
	if !slices.Equal(r.Git, []string{".git", "deep/.GIT"}) {
		t.Errorf("git directories: %q", r.Git)
	}
	p.unmount(t)
	if res, err := p.apply(t, Options{}); !errors.Is(err, ErrConflicts) || len(res.Conflicts) != 1 || res.Conflicts[0].Path != "turn" {
		t.Errorf("%+v: %v", res, err)
	}
	res, err := p.apply(t, Options{Each: true})
	must(t, err)
	var left []string
	for _, l := range res.Left {
		left = append(left, l.Path)
	}
	if want := []string{".envrc", ".husky", "deep/.VsCode", "fifo", "in2", "out", "proc", "round", "socket", "up", "in"}; !slices.Equal(left, want) {
		t.Errorf("left out: %q\nnot %q", left, want)
	}
	for at, want := range map[string]string{
		".git/HEAD": "ref: refs/heads/main\n", ".git/config": "", ".git/hooks": "-", ".env": "secret\n", "sub/.env": "secret\n", "sub/x": "-",
		"repo/.git/HEAD": "h\n", "repo/file": "-", "turn/.git/HEAD": "h\n", "out": "-", "fifo": "-", ".husky": "-", "in/.vscode/tasks.json": "{}\n",
		"new/.env": "-", "plain": "p\n", "zero": "0\n", "shut/in": "in\n", "e\x1b[31mvil\nname": "x\n", "deep/.GIT": "-", ".agentjail-apply-test": "-",
	} {
		data, err := os.ReadFile(filepath.Join(p.dir, at))
		if got := string(data); err != nil && want != "-" || err == nil && got != want {
			t.Errorf("%q: %q %v, not %q", at, got, err, want)
		}
	}
	for at, want := range map[string]uint32{"setid": unix.S_IFREG | 0o755, "shut": unix.S_IFDIR, "zero": unix.S_IFREG, "run.sh": unix.S_IFREG | 0o755} {
		var st unix.Stat_t
		if err := unix.Lstat(p.dir+"/"+at, &st); err != nil || st.Mode != want || st.Uid != uid {
			t.Errorf("%s: mode %o of %d, %v", at, st.Mode, st.Uid, err)
		}
	}
	var st unix.Stat_t
	if must(t, unix.Lstat(p.dir+"/a", &st)); st.Size != 1<<40 || st.Blocks > 100 {
		t.Errorf("the sparse file has %d bytes in %d blocks", st.Size, st.Blocks)
	}
	// What was left out can still be had, and specials never.
	res, err = p.apply(t, Options{Each: true, Protected: true, Links: true})
	must(t, err)
	if target, err := os.Readlink(p.dir + "/out"); target != "/etc/passwd" {
		t.Errorf("--links: %q %v", target, err)
	}
	if _, err := os.Lstat(p.dir + "/.husky/pre-commit"); err != nil {
		t.Errorf("--protected: %v", err)
	}
	if _, err := os.Lstat(p.dir + "/in"); err == nil {
		t.Error("the removal of a protected path was not applied")
	}
	if _, err := os.Lstat(p.dir + "/fifo"); err == nil || len(res.Left) != 2 {
		t.Errorf("a pipe was applied: %+v", res)
	}
}

// TestNamed: programs that the settings of a repository name are protected, as in a direct mount,
// and so is a git directory of another name, which an agent makes.
func TestNamed(t *testing.T) {
	p := newPlace(t, map[string]string{
		".git/HEAD": "ref: refs/heads/main\n", ".git/objects/": "", ".git/refs/": "", "half/HEAD": "ref: refs/heads/main\n", "half/objects/": "",
		".git/config": "[core]\n\thooksPath = scripts/hooks\n[filter \"x\"]\n\tclean = tools/clean.sh\n", "scripts/other": "o\n", "tools/clean.sh": "#!/bin/sh\n",
	})
	p.write(t, p.merged, map[string]string{
		"scripts/hooks/pre-commit": "#!/bin/sh\n", "scripts/other": "p\n", "tools/clean.sh": "#!/bin/sh\nevil\n", "half/refs/": "", "half/config": "x\n",
		"bare/HEAD": "ref: refs/heads/main\n", "bare/objects/": "", "bare/refs/": "", "bare/config": "[core]\n\tfsmonitor = evil\n", "bare/hooks/x": "x\n",
	})
	p.unmount(t)
	res, err := p.apply(t, Options{})
	must(t, err)
	for _, at := range []string{"scripts/hooks", "bare/config", "bare/hooks", "bare/HEAD", "half/refs", "half/config"} {
		if _, err := os.Lstat(p.dir + "/" + at); err == nil {
			t.Errorf("%s was applied: %+v", at, res)
		}
	}
	if text, _ := os.ReadFile(p.dir + "/tools/clean.sh"); string(text) != "#!/bin/sh\n" {
		t.Errorf("tools/clean.sh: %q", text)
	}
	if text, _ := os.ReadFile(p.dir + "/scripts/other"); string(text) != "p\n" {
		t.Errorf("scripts/other: %q, %+v", text, res)
	}
}

// TestTable: each path that direct mounts protect is marked wherever it is made, in any case of
// letters, and none of it is applied; what is in a git directory is not even compared.
func TestTable(t *testing.T) {
	p := newPlace(t, project)
	made := map[string]bool{}
	for _, e := range protect.Entries() {
		for _, at := range []string{e.Path + "/x", "deep/er/" + e.Path + "/x", "upper/" + strings.ToUpper(e.Path) + "/x"} {
			p.write(t, p.merged, map[string]string{at: "x\n"})
			made[at] = true
		}
	}
	p.unmount(t)
	for _, c := range p.review(t).Changes {
		if c.Type == review.File && !c.Has(review.Protected) {
			t.Errorf("%s is not marked", c)
		}
	}
	_, err := p.apply(t, Options{})
	must(t, err)
	for at := range made {
		if _, err := os.Lstat(filepath.Join(p.dir, at)); err == nil {
			t.Errorf("%s was applied", at)
		}
	}
}

// outside is a directory that no apply may reach, with the names of a place.
func outside(t *testing.T, p *place, names []string) string {
	t.Helper()
	out := p.top + "/outside"
	for _, n := range names {
		must(t, os.MkdirAll(filepath.Join(out, filepath.Dir(n)), 0o777))
		must(t, os.Chmod(filepath.Join(out, filepath.Dir(n)), 0o777))
	}
	p.own(t, out)
	return out
}

// TestLinkSwapped: a directory on the way that is a link by now leads nowhere.
func TestLinkSwapped(t *testing.T) {
	for _, kind := range []string{"/", "../outside", "/proc/self/cwd/../", "within"} {
		p := newPlace(t, map[string]string{"src/deep/x": "x\n", "within/deep/x": "x\n"})
		out := outside(t, p, []string{"deep/y"})
		p.write(t, p.merged, map[string]string{"src/deep/y": "y\n"})
		p.unmount(t)
		r := p.review(t)
		must(t, os.Rename(p.dir+"/src", p.dir+"/src.real"))
		if kind == "/" {
			kind = out
		}
		must(t, os.Symlink(kind, p.dir+"/src"))
		before := list(t, p.dir)
		if _, err := p.view.Run(t.Context(), r, r.Changes, Options{}); !errors.Is(err, ErrConflicts) {
			t.Errorf("%s: %v", kind, err)
		}
		if got := list(t, p.dir); got != before {
			t.Errorf("%s: the directory is\n%s\nnot\n%s", kind, got, before)
		}
		if _, err := os.Lstat(out + "/deep/y"); err == nil {
			t.Errorf("%s: written outside", kind)
		}
	}
}

// TestLinkRace: the same, while a process goes on swapping.
func TestLinkRace(t *testing.T) {
	var stop atomic.Bool
	var swaps atomic.Int64
	done := make(chan struct{})
	files, names := map[string]string{}, []string(nil)
	for i := range 300 {
		files[fmt.Sprintf("src/d%03d/x", i)] = "x\n"
		names = append(names, fmt.Sprintf("d%03d/y", i))
	}
	p := newPlace(t, files)
	out := outside(t, p, names)
	added := map[string]string{}
	for _, n := range names {
		added["src/"+n] = "y\n"
	}
	p.write(t, p.merged, added)
	p.unmount(t)
	r := p.review(t)
	must(t, os.Symlink(out, p.dir+"/other"))
	go func() {
		defer close(done)
		for !stop.Load() {
			_ = unix.Renameat2(unix.AT_FDCWD, p.dir+"/src", unix.AT_FDCWD, p.dir+"/other", unix.RENAME_EXCHANGE)
			swaps.Add(1)
		}
	}()
	prevented := 0
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end) && prevented < 20; {
		res, err := p.view.Run(t.Context(), r, r.Changes, Options{})
		if errors.Is(err, ErrConflicts) {
			prevented++
		} else if err != nil {
			t.Fatalf("%+v: %v", res, err)
		}
		if err == nil {
			break
		}
		if len(res.Kept) > 0 { // it could not take back what it did below a name that led elsewhere
			break
		}
	}
	stop.Store(true)
	<-done
	must(t, filepath.WalkDir(out, func(at string, e os.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			t.Errorf("written outside: %s", at)
		}
		return err
	}))
	t.Logf("prevented %d times, %d swaps", prevented, swaps.Load())
}

// TestRenamedUnderJail: a directory that a running jail has renamed stays where its view reads it.
func TestRenamedUnderJail(t *testing.T) {
	p := newPlace(t, map[string]string{"lib/one": "1\n", "lib/two": "2\n"})
	must(t, os.Rename(p.merged+"/lib", p.merged+"/lib2"))
	p.write(t, p.merged, map[string]string{"other": "o\n"})
	p.view.Live = true
	before := list(t, p.merged)
	res, err := p.apply(t, Options{})
	must(t, err)
	if len(res.Left) != 1 || res.Left[0].Path != "lib" || !slices.Equal(res.Applied, []string{"lib2", "other"}) {
		t.Errorf("%+v", res)
	}
	if _, err := os.Lstat(p.dir + "/lib/two"); err != nil {
		t.Errorf("the running jail has lost what it renamed: %v", err)
	}
	p.unmount(t)
	p.mount(t)
	if got := list(t, p.merged); got != before {
		t.Errorf("the view is\n%s\nnot\n%s", got, before)
	}
	p.unmount(t)
	p.view.Live = false
	_, err = p.apply(t, Options{})
	must(t, err)
	if got := list(t, p.dir); got != before {
		t.Errorf("the directory is\n%s\nnot\n%s", got, before)
	}
	if r := p.review(t); len(r.Changes) > 0 {
		t.Errorf("still: %s", changes(r))
	}
}

// TestMovedHidden: of a renamed directory with files that are never applied, nothing is removed at
// the former path that a view, which goes on, shows at the new one.
func TestMovedHidden(t *testing.T) {
	for name, c := range map[string]struct {
		change func(t *testing.T, p *place)
		left   bool // the former path's files are left
	}{
		"a hidden file":         {func(*testing.T, *place) {}, false},
		"a hidden file removed": {func(t *testing.T, p *place) { must(t, os.Remove(p.merged+"/new/.env")) }, true},
		"a hidden file made": {func(t *testing.T, p *place) {
			p.write(t, p.merged, map[string]string{"new/sub/.env": "x\n"})
		}, true},
		"a commit": {func(t *testing.T, p *place) {
			p.write(t, p.merged, map[string]string{"new/.git/HEAD": "other\n"})
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t, map[string]string{
				"old/a": "a\n", "old/.env": "secret\n", "old/.git/HEAD": "h\n", "old/.git/objects/": "", "old/.git/refs/": "", "old/sub/b": "b\n",
			})
			p.hidden = []string{".env"}
			must(t, os.Rename(p.merged+"/old", p.merged+"/new"))
			c.change(t, p)
			p.unmount(t)
			for range 3 {
				res, err := p.apply(t, Options{})
				must(t, err)
				if left := len(res.Left) > 0; left != c.left {
					t.Errorf("left out: %v", res.Left)
				}
				_, gone := os.Lstat(p.dir + "/old/a")
				if text, err := os.ReadFile(p.dir + "/new/a"); err != nil || string(text) != "a\n" || (gone == nil) != c.left {
					t.Fatalf("new/a is %q, %v; old/a: %v", text, err, gone)
				}
				for _, at := range []string{"/old/.env", "/old/.git/HEAD"} {
					if _, err := os.Lstat(p.dir + at); err != nil {
						t.Error(err)
					}
				}
			}
			p.mount(t)
			if text, err := os.ReadFile(p.merged + "/new/a"); err != nil || string(text) != "a\n" {
				t.Errorf("in the view: %q, %v", text, err)
			}
		})
	}
}

// TestAnyNameIsApplied: whatever a name is, it is compared and applied as it is. A path that no call takes is
// left out, and prevents nothing else.
func TestAnyNameIsApplied(t *testing.T) {
	long := strings.Repeat("n", 255)
	p := newPlace(t, map[string]string{"-rf": "old\n", long: "old\n", "linked": "old\n"})
	must(t, os.Link(p.dir+"/linked", p.dir+"/linked2"))
	p.settled(t)
	names := []string{"-rf", "--", "\xff\xfe", "a\nb", " ", "*", "\\", "...", long, "d/" + long, "linked"}
	for _, n := range names {
		p.write(t, p.merged, map[string]string{n: "new\n"})
	}
	level := strings.Repeat("l", 250) // of a tree that is deeper than a path can be
	dir, err := unix.Open(p.merged, unix.O_PATH, 0)
	must(t, err)
	for range 30 {
		must(t, unix.Mkdirat(dir, level, 0o755))
		must(t, unix.Fchownat(dir, level, uid, gid, 0))
		next, err := unix.Openat(dir, level, unix.O_PATH, 0)
		must(t, errors.Join(err, unix.Close(dir)))
		if dir = next; t.Failed() {
			break
		}
	}
	unix.Close(dir)
	p.unmount(t)
	r := p.review(t)
	deep := 0
	for _, c := range r.Changes {
		if c.Has(review.Never) {
			deep = len(c.Path)
		}
	}
	if deep < unix.PathMax {
		t.Errorf("the deep path is not shown: %d bytes", deep)
	}
	res, err := p.apply(t, Options{})
	if err != nil || len(res.Left) != 1 || len(res.Left[0].Path) != deep {
		t.Errorf("%d left: %v", len(res.Left), err)
	}
	for _, n := range names {
		if data, err := os.ReadFile(p.dir + "/" + n); err != nil || string(data) != "new\n" {
			t.Errorf("%q: %q %v", n, data, err)
		}
	}
	if data, err := os.ReadFile(p.dir + "/linked2"); err != nil || string(data) != "old\n" {
		t.Errorf("the other name of a file: %q %v", data, err)
	}
	chosen, err := p.review(t).Select([]string{"."})
	must(t, errors.Join(err, p.view.Discard(p.review(t), chosen, []string{"."})))
	if got := p.review(t); len(got.Changes) > 0 {
		t.Errorf("still %d changes", len(got.Changes))
	}
}
