package protect

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestByAnotherPath: two jails have one directory by two paths; neither one's end takes the other's placeholders.
func TestByAnotherPath(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("a user's programs may not open handles (CAP_DAC_READ_SEARCH): the other path would have to be there")
	}
	for _, first := range []string{"one", "two"} {
		l := newLedger(t)
		dir, root := plant(t, ".git/HEAD", "main.go")
		before := everything(t, dir)
		prepare(t, l, "one", dir, root)
		prepare(t, l, "two", filepath.Join(t.TempDir(), "alias"), root)
		with := everything(t, dir)
		remove(t, l, first)
		if got := everything(t, dir); got != with {
			t.Errorf("the end of %s left %s\nof %s", first, got, with)
		}
		remove(t, l, map[string]string{"one": "two", "two": "one"}[first])
		if got := everything(t, dir); got != before {
			t.Errorf("after both: %s", got)
		}
	}
}

// TestKeptAsAWhole: a directory that the first jail keeps absent as a whole, and in which the second has placeholders, stays as it is.
func TestKeptAsAWhole(t *testing.T) {
	l := newLedger(t)
	dir, root := plant(t, "sub/.git/HEAD", "sub/.git/objects/", "sub/.git/refs/", "main.go")
	before := everything(t, dir)
	prepare(t, l, "one", dir, root)
	prepare(t, l, "two", dir, root)
	with := everything(t, dir)
	remove(t, l, "one")
	if got := everything(t, dir); got != with {
		t.Errorf("the first one's end left %s\nof %s", got, with)
	}
	remove(t, l, "two")
	if got := everything(t, dir); got != before {
		t.Errorf("left: %s", got)
	}
}

// TestRenamedWorkspace: placeholders are found where the directory is by now, and where one within it is.
func TestRenamedWorkspace(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("a user's programs may not open handles (CAP_DAC_READ_SEARCH)")
	}
	for _, c := range []struct{ from, to string }{{"", "elsewhere"}, {"", "deep/er"}, {"sub", "moved"}} {
		l := newLedger(t)
		dir, root := plant(t, ".git/HEAD", "sub/.git/HEAD", "sub/.git/objects/", "sub/.git/refs/", "main.go")
		to := filepath.Join(t.TempDir(), c.to)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		before := everything(t, dir)
		prepare(t, l, "jail", dir, root)
		if err := os.Rename(filepath.Join(dir, c.from), to); err != nil {
			t.Fatal(err)
		}
		remove(t, l, "jail")
		if c.from == "" {
			if got := everything(t, to); got != before {
				t.Errorf("%v: left %s", c, got)
			}
		} else if got := everything(t, to); got != ".git .git/HEAD .git/objects .git/refs" {
			t.Errorf("%v: left %s", c, got)
		}
	}
}

// TestBareDirectories: an empty directory of the table's names is somebody's own: it holds a marker while a jail runs, and stays.
func TestBareDirectories(t *testing.T) {
	l := newLedger(t)
	dir, root := plant(t, ".vscode/", ".cursor/", ".idea/x.xml", "main.go")
	before := everything(t, dir)
	prepare(t, l, "one", dir, root)
	prepare(t, l, "two", dir, root)
	for name, want := range map[string]bool{".vscode": true, ".cursor": true, ".idea": false, ".husky": true} {
		if _, err := os.Lstat(filepath.Join(dir, name, marker)); (err == nil) != want {
			t.Errorf("%s: a marker: %v, want %v", name, err == nil, want)
		}
	}
	remove(t, l, "one")
	if _, err := os.Lstat(filepath.Join(dir, ".vscode", marker)); err != nil {
		t.Error("the first jail's end took the marker:", err)
	}
	remove(t, l, "two")
	if got := everything(t, dir); got != before {
		t.Errorf("left: %s", got)
	}
}

// TestTwoLedgers: root's jails and a user's have ledgers that do not know each other; neither takes what the other stands on, and the
// last removes all.
func TestTwoLedgers(t *testing.T) {
	for _, order := range [][2]int{{0, 1}, {1, 0}} {
		ledgers := [2]Ledger{newLedger(t), newLedger(t)}
		dir, root := plant(t, ".vscode/", "main.go")
		before := everything(t, dir)
		prepare(t, ledgers[0], "a", dir, root)
		prepare(t, ledgers[1], "b", dir, root)
		remove(t, ledgers[order[0]], map[int]string{0: "a", 1: "b"}[order[0]])
		for _, name := range []string{".husky", ".claude/commands", ".vscode"} {
			if _, err := os.Lstat(filepath.Join(dir, name)); err != nil {
				t.Errorf("order %v: %v", order, err)
			}
		}
		remove(t, ledgers[order[1]], map[int]string{0: "a", 1: "b"}[order[1]])
		if got := everything(t, dir); got != before {
			t.Errorf("order %v: left %s", order, got)
		}
	}
}

// TestExchangedPlaceholder: who exchanges a directory that was just made with one of root's gets neither that nor anything in it.
func TestExchangedPlaceholder(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root has something to lose")
	}
	l := newLedger(t)
	dir, root := plant(t, "main.go")
	if err := os.Chown(dir, 1234, 1234); err != nil {
		t.Fatal(err)
	}
	secret := filepath.Join(dir, "secret")
	if err := os.Mkdir(secret, 0o755); err != nil {
		t.Fatal(err)
	}
	exchanged := 0
	afterMkdir = func(name string) {
		if filepath.Base(name) == ".vscode" && exchanged == 0 {
			exchanged++
			done := make(chan error)
			go func() { done <- unix.Renameat2(unix.AT_FDCWD, name, unix.AT_FDCWD, secret, unix.RENAME_EXCHANGE) }()
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	}
	t.Cleanup(func() { afterMkdir = func(string) {} })
	prepare(t, l, "jail", dir, root)
	if exchanged != 1 {
		t.Fatal("nothing was exchanged")
	}
	at := filepath.Join(dir, ".vscode") // root's directory is here now
	var st unix.Stat_t
	if err := unix.Lstat(at, &st); err != nil || st.Uid != 0 || st.Gid != 0 {
		t.Errorf("root's directory is %d:%d's, %v", st.Uid, st.Gid, err)
	}
	if got := everything(t, at); got != "" {
		t.Errorf("root's directory has %s", got)
	}
	remove(t, l, "jail")
	if _, err := os.Lstat(at); err != nil {
		t.Error("root's directory was removed:", err)
	}
}

// TestOwnerWithoutWriting: a directory whose owner has taken the right to write from it gets placeholders: the jail can change the mode.
func TestOwnerWithoutWriting(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can go by a mode")
	}
	l := newLedger(t)
	dir, root := plant(t, "main.go")
	for _, err := range []error{os.Chown(dir, 1234, 1234), os.Chmod(dir, 0o555)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	before := everything(t, dir)
	prepare(t, l, "jail", dir, root)
	var st unix.Stat_t
	if err := unix.Lstat(filepath.Join(dir, ".vscode"), &st); err != nil || st.Uid != 1234 {
		t.Errorf("%v: uid %d", err, st.Uid)
	}
	remove(t, l, "jail")
	if got := everything(t, dir); got != before {
		t.Errorf("left: %s", got)
	}
}

// TestHostsPrograms: what people run in a workspace while a jail is there leaves the placeholders, and git shows none of them.
func TestHostsPrograms(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("no git on this machine")
	}
	for _, c := range []struct {
		script string
		keeps  bool
	}{
		{"git status --porcelain", true},
		{"git clean -fdq", true},
		{"git clean -ffdq", true},
		{"git stash -uq; git stash pop -q >/dev/null", true},
		{"git checkout -qf; git reset -q --hard", true},
		{"git add -A; git status --porcelain | grep -v unt || :", true},
		{"find . -type d -empty -delete", true},
		{"git clean -ffdxq", false}, // what these take is reported by the jail's watch
		{"git stash -aq", false},
	} {
		l := newLedger(t)
		dir, root := plant(t, "main.go", ".vscode/")
		git := func(script string) string {
			cmd := exec.Command("sh", "-ec", script)
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null",
				"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@x", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@x")
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%s: %v\n%s", script, err, out)
			}
			return string(out)
		}
		git("git init -q; git add main.go; git commit -qm one")
		f := prepare(t, l, "jail", dir, root)
		if err := os.WriteFile(filepath.Join(dir, "unt"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if out := git(c.script); strings.ReplaceAll(out, "?? unt\n", "") != "" {
			t.Errorf("%s: %s", c.script, out)
		}
		gone := 0
		for _, p := range f.Paths {
			if _, err := os.Lstat(filepath.Join(dir, p.Rel)); err != nil {
				gone++
			}
		}
		if (gone == 0) != c.keeps {
			t.Errorf("%s: %d of %d are gone", c.script, gone, len(f.Paths))
		}
	}
}

// TestVanished: what was taken away is listed, and neither what is there, nor what went with its directory.
func TestVanished(t *testing.T) {
	l := newLedger(t)
	dir, root := plant(t, ".git/HEAD", "sub/.git/HEAD", "sub/.git/objects/", "sub/.git/refs/", "main.go")
	prepare(t, l, "jail", dir, root)
	if got := l.Vanished("jail"); len(got) > 0 {
		t.Errorf("at first: %q", got)
	}
	for _, name := range []string{".vscode", ".git/commondir", "sub", ".idea/" + marker, ".claude"} {
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for _, at := range l.Vanished("jail") {
		got = append(got, strings.TrimPrefix(at, dir+"/"))
	}
	slices.Sort(got)
	if strings.Join(got, " ") != ".claude/agents .claude/commands .claude/hooks .claude/settings.json .claude/settings.local.json .git/commondir .vscode" {
		t.Errorf("vanished: %q", got)
	}
	remove(t, l, "jail")
}

// TestVanishingDirectory: the directory of a placeholder vanishes while a jail is made, by another jail's end or by another program.
func TestVanishingDirectory(t *testing.T) {
	for name, vanish := range map[string]func(t *testing.T, l Ledger, dir string, root *os.File){
		"the end of another jail": func(t *testing.T, l Ledger, dir string, root *os.File) {
			prepare(t, l, "one", dir, root)
			for _, at := range []string{".claude/agents", ".claude/commands", ".git/hooks"} { // that end has begun
				if err := os.RemoveAll(filepath.Join(dir, at)); err != nil {
					t.Fatal(err)
				}
			}
			beforeLock = func() {
				beforeLock = func() {}
				remove(t, l, "one")
			}
		},
		"another program": func(t *testing.T, _ Ledger, dir string, _ *os.File) {
			afterMkdir = func(name string) {
				if name == filepath.Join(dir, ".claude") {
					afterMkdir = func(string) {}
					if err := os.Remove(name); err != nil {
						t.Error(err)
					}
				}
			}
		},
		"a file in its place": func(t *testing.T, _ Ledger, dir string, _ *os.File) {
			afterMkdir = func(name string) {
				if name == filepath.Join(dir, ".git/info") {
					afterMkdir = func(string) {}
					if err := errors.Join(os.Remove(name), os.WriteFile(name, nil, 0o644)); err != nil {
						t.Error(err)
					}
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Cleanup(func() { beforeLock, afterMkdir = func() {}, func(string) {} })
			l := newLedger(t)
			dir, root := plant(t, ".git/HEAD", ".git/objects/", ".git/refs/", "main.go")
			before := everything(t, dir)
			vanish(t, l, dir, root)
			f := prepare(t, l, "two", dir, root)
			beforeLock, afterMkdir = func() {}, func(string) {}
			for _, at := range []string{".claude/agents", ".claude/commands", ".git/hooks", ".git/commondir"} {
				if !f.Keeps(at) {
					t.Errorf("%s is left to the jail: %s", at, f.text(Placeholder))
				}
				if _, err := os.Lstat(filepath.Join(dir, at)); err != nil {
					t.Error(err)
				}
			}
			remove(t, l, "two")
			if got := everything(t, dir); got != before && got != strings.Replace(before, ".git/objects", ".git/info .git/objects", 1) {
				t.Errorf("left: %s", got)
			}
		})
	}
}

// TestCrashedBeside: what a crash kept from being noted stays while another jail stands on it, and goes with that.
func TestCrashedBeside(t *testing.T) {
	for _, last := range []string{"crashed", "two"} {
		l := newLedger(t)
		dir, root := plant(t, ".git/HEAD", ".git/objects/", ".git/refs/", "main.go")
		before := everything(t, dir)
		prepare(t, l, "crashed", dir, root)
		a, err := l.read("crashed")
		if err != nil {
			t.Fatal(err)
		}
		for i := range a.Made {
			a.Made[i].Dev, a.Made[i].Ino, a.Made[i].Born, a.Made[i].Up = 0, 0, 0, ""
		}
		if err := errors.Join(l.write("crashed", a), os.Truncate(filepath.Join(dir, ".git/commondir"), 0)); err != nil {
			t.Fatal(err)
		}
		with := everything(t, dir)
		prepare(t, l, "two", dir, root)
		keys := []string{"two", "crashed"}
		if last == "two" {
			slices.Reverse(keys)
		}
		remove(t, l, keys[0])
		if got := everything(t, dir); got != with {
			t.Errorf("the end of %s left %s\nof %s", keys[0], got, with)
		}
		remove(t, l, keys[1])
		if got := everything(t, dir); got != before {
			t.Errorf("left: %s", got)
		}
	}
}
