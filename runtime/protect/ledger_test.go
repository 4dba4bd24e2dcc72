package protect

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// everything lists what is below a directory.
func everything(t testing.TB, dir string) string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(dir, func(p string, _ os.DirEntry, err error) error {
		if rel, _ := filepath.Rel(dir, p); rel != "." {
			out = append(out, rel)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func newLedger(t testing.TB) Ledger { return Ledger{Dir: filepath.Join(t.TempDir(), "placeholders")} }

// prepare protects a directory for a jail.
func prepare(t testing.TB, l Ledger, key, dir string, root *os.File) *Found {
	t.Helper()
	f, err := Prepare(root, root, Options{Source: dir, Protect: true, Absent: true}, l, key)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func remove(t testing.TB, l Ledger, key string) {
	t.Helper()
	if err := l.Remove(key); err != nil {
		t.Fatal(err)
	}
}

// TestPlaceholders: all that was made goes, and nothing else does.
func TestPlaceholders(t *testing.T) {
	l := newLedger(t)
	dir, root := plant(t, ".git/HEAD", "main.go", "a/x")
	before := everything(t, dir)
	prepare(t, l, "jail", dir, root)
	for _, name := range []string{".vscode", ".mcp.json", ".claude/agents", ".git/hooks"} {
		if fi, err := os.Lstat(filepath.Join(dir, name)); err != nil || !fi.IsDir() {
			t.Errorf("%s: %v", name, err)
		}
	}
	if text, err := os.ReadFile(filepath.Join(dir, ".git/commondir")); err != nil || string(text) != ".\n" {
		t.Errorf("commondir: %q, %v", text, err)
	}
	if fi, err := os.Stat(l.Dir); err != nil || fi.Mode().Perm() != 0o700 {
		t.Errorf("the ledger: %v, %v", fi, err)
	}
	remove(t, l, "jail")
	if got := everything(t, dir); got != before {
		t.Errorf("left:\n%s\nbefore:\n%s", got, before)
	}
	if got := everything(t, l.Dir); got != ".lock" {
		t.Errorf("the ledger has %s", got)
	}
}

// TestPlaceholdersThatAreSomethingElse: what somebody filled, replaced, wrote to or moved stays.
func TestPlaceholdersThatAreSomethingElse(t *testing.T) {
	l := newLedger(t)
	dir, root := plant(t, ".git/HEAD", "main.go")
	prepare(t, l, "jail", dir, root)
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, err := range []error{
		os.WriteFile(at(".vscode/settings.json"), nil, 0o644),
		os.RemoveAll(at(".idea")), os.Mkdir(at(".idea.new"), 0o755), os.Rename(at(".idea.new"), at(".idea")),
		os.RemoveAll(at(".husky")), os.Symlink("main.go", at(".husky")),
		os.WriteFile(at(".git/config"), []byte("[core]\n"), 0o644),
		os.Rename(at(".codex"), at("moved")),
		os.RemoveAll(at(".mcp.json")), os.WriteFile(at(".mcp.json"), nil, 0o644),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	remove(t, l, "jail")
	want := ".git .git/HEAD .git/config .husky .idea .mcp.json .vscode .vscode/settings.json main.go moved"
	if os.Geteuid() != 0 {
		want += " moved/.gitignore" // a user's programs may not open handles (CAP_DAC_READ_SEARCH)
	}
	if got := everything(t, dir); got != want {
		t.Errorf("left: %s\nwant: %s", got, want)
	}
}

// TestSharedPlaceholders: the first jail's end leaves what the second one stands on.
func TestSharedPlaceholders(t *testing.T) {
	l := newLedger(t)
	dir, root := plant(t, "main.go")
	prepare(t, l, "one", dir, root)
	f := prepare(t, l, "two", dir, root)
	if f.Count(Placeholder) != 0 || f.Count(ReadOnly) == 0 {
		t.Fatalf("the second search: %+v", f.Paths)
	}
	with := everything(t, dir)
	remove(t, l, "one")
	if got := everything(t, dir); got != with {
		t.Errorf("one's end left %s\nof %s", got, with)
	}
	remove(t, l, "two")
	if got := everything(t, dir); got != "main.go" {
		t.Errorf("left: %s", got)
	}
}

// TestPlaceholdersInShared: what one jail made in another's placeholder goes before that.
func TestPlaceholdersInShared(t *testing.T) {
	l := newLedger(t)
	dir, root := plant(t, "main.go")
	if _, err := Prepare(root, root, Options{Source: dir, Protect: true, Absent: true, Unprotect: []string{".claude/hooks"}}, l, "one"); err != nil {
		t.Fatal(err)
	}
	prepare(t, l, "two", dir, root)
	remove(t, l, "one")
	remove(t, l, "two")
	if got := everything(t, dir); got != "main.go" {
		t.Errorf("left: %s", got)
	}
}

// TestSweptPlaceholders: what a crash left goes with the next collection, whatever step it came at.
func TestSweptPlaceholders(t *testing.T) {
	for _, c := range []struct {
		name  string
		crash func(l Ledger, a *ledgerRecord, dir string) error
		want  string
	}{
		{"all made", func(Ledger, *ledgerRecord, string) error { return nil }, "main.go"},
		{"made, not noted", func(l Ledger, a *ledgerRecord, _ string) error {
			for i := range a.Made {
				a.Made[i].Dev, a.Made[i].Ino, a.Made[i].Up = 0, 0, ""
			}
			return l.write("jail", a)
		}, "main.go"},
		{"noted, not made", func(_ Ledger, a *ledgerRecord, _ string) error { return os.RemoveAll(a.Made[0].Path) }, "main.go"},
		{"there before, not noted", func(l Ledger, a *ledgerRecord, _ string) error {
			a.Made = a.Made[:1]
			a.Made[0].Ino, a.Since = 0, a.Since+int64(1e12)
			return l.write("jail", a)
		}, ".agents .agents/.gitignore main.go"},
		{"an account without text", func(l Ledger, _ *ledgerRecord, _ string) error { return os.Truncate(l.file("jail"), 0) }, ".agents .agents/.gitignore main.go"},
		{"half an account", func(l Ledger, _ *ledgerRecord, _ string) error {
			return os.WriteFile(l.file("jail")+".1.1.tmp", []byte("{"), 0o600)
		}, "main.go"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLedger(t)
			dir, root := plant(t, "main.go")
			o := Options{Source: dir, Protect: true, Absent: true, Unprotect: append([]string{".claude", ".codex", ".husky", ".idea", ".vscode", ".mcp.json"}, furtherAgents...)}
			if _, err := Prepare(root, root, o, l, "jail"); err != nil {
				t.Fatal(err)
			}
			a, err := l.read("jail")
			if err != nil || len(a.Made) != 2 {
				t.Fatal(a, err)
			}
			if err := c.crash(l, a, dir); err != nil {
				t.Fatal(err)
			}
			if err := l.Sweep(func(string) bool { return true }); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(l.file("jail")); err != nil {
				t.Error("a living jail's account is gone:", err)
			}
			if err := l.Sweep(func(string) bool { return false }); err != nil {
				t.Fatal(err)
			}
			if got := everything(t, dir); got != c.want {
				t.Errorf("left: %s, want %s", got, c.want)
			}
			if _, err := os.Stat(l.file("jail")); err == nil {
				t.Error("the account is still there")
			}
		})
	}
}

// TestSweptText: a placeholder with a text that a crash left empty, or with half of it, goes too; one with another text stays.
func TestSweptText(t *testing.T) {
	for text, want := range map[string]string{"": "main.go", ".": "main.go", ".\n": "main.go", "..": "commondir main.go", ".\n\n": "commondir main.go"} {
		l := newLedger(t)
		dir, _ := plant(t, "main.go")
		m := placeholder{Path: filepath.Join(dir, "commondir"), Text: ".\n"}
		if err := os.MkdirAll(l.Dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := l.write("jail", &ledgerRecord{Made: []placeholder{m}, Since: time.Now().UnixNano()}); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(m.Path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := l.Sweep(func(string) bool { return false }); err != nil {
			t.Fatal(err)
		}
		if got := everything(t, dir); got != want {
			t.Errorf("%q: left %s, want %s", text, got, want)
		}
	}
}

// TestPlaceholdersNeedRoom: a directory that cannot be written to stops the start, since what cannot be made now could
// be made in the jail.
func TestPlaceholdersNeedRoom(t *testing.T) {
	l := newLedger(t)
	dir, root := plant(t, "main.go")
	if err := os.Chmod(dir, 0o555); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Chmod(dir, 0o755) })
	_, err := Prepare(root, root, Options{Source: dir, Protect: true, Absent: true}, l, "jail")
	if os.Geteuid() != 0 && (err == nil || !strings.Contains(err.Error(), "binds.unprotect")) {
		t.Errorf("no remedy: %v", err)
	}
}

// TestPlaceholdersOwner: a placeholder belongs to whom its directory belongs to, who can then remove it.
func TestPlaceholdersOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	l := newLedger(t)
	dir, root := plant(t, "main.go")
	if err := os.Chown(dir, 1234, 1235); err != nil {
		t.Fatal(err)
	}
	prepare(t, l, "jail", dir, root)
	var st unix.Stat_t
	if err := unix.Lstat(filepath.Join(dir, ".claude/agents"), &st); err != nil || st.Uid != 1234 || st.Gid != 1235 {
		t.Errorf("%v: %d:%d", err, st.Uid, st.Gid)
	}
	remove(t, l, "jail")
}

// TestStaleAccount: what another jail's account has and is not there is made anew.
func TestStaleAccount(t *testing.T) {
	l := newLedger(t)
	dir, root := plant(t, "main.go")
	a := &ledgerRecord{Made: []placeholder{{Path: filepath.Join(dir, ".vscode"), Dir: true}}, Since: 1}
	if err := os.MkdirAll(l.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := l.write("other", a); err != nil {
		t.Fatal(err)
	}
	// Of another jail's account, but not there: made and noted as this jail's.
	f := prepare(t, l, "jail", dir, root)
	if !strings.Contains(f.text(Placeholder), ".vscode") {
		t.Errorf("placeholders: %s", f.text(Placeholder))
	}
}

// TestOtherStores: accounts of another container's jails stay in the boot that they are of.
func TestOtherStores(t *testing.T) {
	l := newLedger(t)
	l.Boot, l.Store = "boot", "1:2"
	dir, root := plant(t, "main.go")
	prepare(t, l, "jail", dir, root)
	none := func(string) bool { return false }
	other := Ledger{Dir: l.Dir, Boot: "boot", Store: "3:4"}
	if err := other.Sweep(none); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(l.file("jail")); err != nil {
		t.Error("another store's account:", err)
	}
	other.Boot = "later"
	if err := other.Sweep(none); err != nil {
		t.Fatal(err)
	}
	if got := everything(t, dir); got != "main.go" {
		t.Errorf("after a boot: %s", got)
	}
}

// TestDenied: what cannot be made by anybody in the jail is left out, and keeps no jail from starting.
func TestDenied(t *testing.T) {
	if os.Geteuid() == 0 {
		asNobody(t) // root may make what it wants
		return
	}
	l := newLedger(t)
	l.User = true
	dir, root := plant(t, "main.go")
	if err := os.Chmod(dir, 0o555); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Chmod(dir, 0o755) })
	if f := prepare(t, l, "jail", dir, root); f.Count(Placeholder) != 0 {
		t.Errorf("placeholders: %s", f.text(Placeholder))
	}
}

// asNobody runs the test once more, as user 65534.
func asNobody(t *testing.T) {
	t.Helper()
	dir, err := os.MkdirTemp("", "agentjail-nobody-") // t.TempDir's parent is closed to others
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), "TMPDIR="+dir)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("as user 65534: %v\n%s", err, out)
	}
}

func BenchmarkSearch(b *testing.B) {
	for _, n := range []int{0, 1000, 50_000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			dir, root := plant(b)
			for i := range n {
				at := filepath.Join(dir, "d"+string(rune('a'+i%26)), "e"+string(rune('a'+i/26%26)))
				if i < 676 {
					if err := os.MkdirAll(at, 0o755); err != nil {
						b.Fatal(err)
					}
				}
				if err := os.WriteFile(filepath.Join(at, "f"+strconv.Itoa(i)), nil, 0o644); err != nil {
					b.Fatal(err)
				}
			}
			for b.Loop() {
				if f, err := Search(root, Options{Source: dir, Protect: true}); err != nil || f.Searched < n {
					b.Fatal(f, err)
				}
			}
		})
	}
}

// TestSweepTorn: an account that a crash left half written is removed, and no other.
func TestSweepTorn(t *testing.T) {
	l := Ledger{Dir: t.TempDir()}
	for _, name := range []string{"jail.json", "jail.json.12.3.tmp"} {
		if err := os.WriteFile(filepath.Join(l.Dir, name), []byte("{}"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Sweep(func(string) bool { return true }); err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(filepath.Join(l.Dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range left {
		left[i] = filepath.Base(left[i])
	}
	if !slices.Equal(left, []string{".lock", "jail.json"}) {
		t.Errorf("left: %q", left)
	}
}
