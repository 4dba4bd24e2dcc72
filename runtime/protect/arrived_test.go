package protect

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/filetime"
)

// gitEnvironment keeps a machine's own settings out.
const gitEnvironment = `export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@x GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@x GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1
`

func script(t *testing.T, dir, text string) {
	t.Helper()
	cmd := exec.Command("sh", "-ec", gitEnvironment+text)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", text, err, out)
	}
}

// arrivals are what arrived in a project by a script.
var arrivalRows = []struct{ name, script, want string }{
	{"ordinary work", "cd r; echo y >>f; git add f; git commit -qm two; git checkout -qb topic; git stash -q || true; git tag v1; mkdir -p src; echo x >src/x", ""},
	{"a repository that is added", "cd r; git init -q vendor; git -C vendor commit -q --allow-empty -m v; git add vendor 2>/dev/null", "gitlink r/vendor; repository r/vendor"},
	{"the same, not added", "git init -q r/vendor", "repository r/vendor"},
	{"one that was there, added", "cd r; git add old 2>/dev/null", "gitlink r/old"},
	{"one that was there, and a .gitmodules that vouches for it", "cd r; git config -f .gitmodules submodule.o.path old; git add . 2>/dev/null", "gitlink r/old; gitlink r/sub; setting r/.gitmodules"},
	{"one that was renamed to .git", "mkdir -p r/v/g/objects r/v/g/refs; echo 'ref: refs/heads/x' >r/v/g/HEAD; echo '[core]' >r/v/g/config; mv r/v/g r/v/.git", "repository r/v"},
	{"one without settings", "mkdir -p r/v/.git/objects r/v/.git/refs; echo 'ref: refs/heads/x' >r/v/.git/HEAD", "repository r/v"},
	{"one that no program reads", "cd r; mkdir node_modules; git init -q node_modules/v; git -C node_modules/v commit -q --allow-empty -m v; git add -f node_modules/v 2>/dev/null", "gitlink r/node_modules/v; repository r/node_modules/v"},
	{"a file .git", "mkdir r/v; echo 'gitdir: ../../x' >r/v/.git", "repository r/v"},
	{"a file .git that leads nowhere", "mkdir r/v; touch r/v/.git", ""},
	{"a link .git", "mkdir r/v; ln -s ../../x r/v/.git", "repository r/v"},
	{"a further work tree", "git -C r worktree add -q ../tree", "repository r/.git/worktrees/tree; repository tree; setting tree/.gitmodules; setting tree/.vscode"},
	{"a bare repository", "git init -q --bare r/b.git", "repository r/b.git"},
	{"a hook", "echo x >r/.git/hooks/post-commit", "hook r/.git/hooks/post-commit"},
	{"a setting of git's", "git -C r config a.b c", "repository r"},
	{"another's settings", "echo ../x >r/.git/commondir", "setting r/.git/commondir"},
	{"an agent's settings", "mkdir r/.claude; echo {} >r/.claude/settings.json", "setting r/.claude/settings.json"},
	{"an editor's, below a directory that was there", "echo {} >r/.vscode/tasks.json", "setting r/.vscode"},
	{"deep within", "mkdir -p r/a/b/c; touch r/a/b/c/.envrc", "setting r/a/b/c/.envrc"},
	{"a shell's", "touch .bashrc", "setting .bashrc"},
	{"a link", "ln -s x r/.mcp.json", "setting r/.mcp.json"},
	{"upper case", "mkdir r/.VSCode", "setting r/.VSCode"},
	{"an index that is none", "echo nonsense >r/.git/index", "gitlink r/.git/index"},
	{"an index of version 4", "cd r; git init -q vendor; git -C vendor commit -q --allow-empty -m v; mkdir vendor2; git add vendor 2>/dev/null; git update-index --index-version 4", "gitlink r/vendor; repository r/vendor"},
	{"a split index", "cd r; git init -q vendor; git -C vendor commit -q --allow-empty -m v; git add vendor 2>/dev/null; git update-index --split-index", "gitlink r/vendor; repository r/vendor"},
}

// TestArrived: what the host runs shows when it came or was changed, and ordinary work does not.
func TestArrived(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("no git on this machine")
	}
	for _, c := range arrivalRows {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			script(t, dir, `git init -q -b main r; cd r; mkdir .vscode; echo {} >.vscode/old.json; for i in 1 2 3; do echo x >file$i; done; echo x >f
				git init -q sub; git -C sub commit -q --allow-empty -m s; printf '[submodule "s"]\n\tpath = sub\n\turl = ./sub\n' >.gitmodules; git add . 2>/dev/null; git commit -qm one
				git init -q old; git -C old commit -q --allow-empty -m o`)
			since := filetime.Moment(dir)
			for !filetime.Moment(dir).After(since) { // the next tick of the kernel's clock
			}
			script(t, dir, c.script)
			root, err := os.Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer root.Close()
			a := Arrived(root, dir, since)
			var got []string
			for _, x := range a.List {
				got = append(got, string(x.Kind)+" "+x.Rel)
				if x.Why == "" {
					t.Errorf("%s has no reason", x.Rel)
				}
			}
			if strings.Join(got, "; ") != c.want || a.Short != "" || a.Total != len(got) {
				t.Errorf("%q, want %q (%d, %s)", got, c.want, a.Total, a.Short)
			}
			if again := Arrived(root, dir, time.Now().Add(time.Hour)); again.Total != 0 && !slices.ContainsFunc(again.List, func(x Arrival) bool {
				return strings.Contains(x.Why, "not known") || strings.Contains(x.Why, "settings came")
			}) {
				t.Errorf("what is older shows: %+v", again.List)
			}
		})
	}
}

// TestArrivedSettings: the settings that have git run something are named, and no others.
func TestArrivedSettings(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("no git on this machine")
	}
	dir := t.TempDir()
	script(t, dir, `git init -q; git config core.fsmonitor ./p; git config filter.e.clean cat; git config user.name a; git config alias.st status; git config alias.x '!sh'; git config remote.o.url https://x.test/y`)
	root, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	a := Arrived(root, dir, time.Unix(0, 0))
	if len(a.List) == 0 || !strings.HasSuffix(a.List[0].Why, "git runs programs that they name: core.fsmonitor, filter.e.clean, alias.x") {
		t.Errorf("%+v", a.List)
	}
}

// TestArrivedInTheWay: nothing that a jail leaves keeps the look, and a bound that was met shows.
func TestArrivedInTheWay(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a/.git/objects", "a/.git/refs", "deep/" + strings.Repeat("d/", 70)} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, pipe := range []string{"a/.git/HEAD", "a/.git/index", "a/.git/config", ".envrc"} {
		if err := unix.Mkfifo(filepath.Join(dir, pipe), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	a := Arrived(root, dir, time.Unix(0, 0))
	if a.Short == "" || a.Total < 3 {
		t.Errorf("%+v", a)
	}
}

// FuzzIndex: no index breaks the parser.
func FuzzIndex(f *testing.F) {
	f.Add("DIRC\x00\x00\x00\x02\x00\x00\x00\x01" + strings.Repeat("\x00", 24) + "\x00\x00\xe0\x00" + strings.Repeat("\x00", 32) + "\x00\x01v\x00\x00\x00\x00\x00\x00\x00\x00\x00")
	f.Add("DIRC\x00\x00\x00\x04\xff\xff\xff\xff" + strings.Repeat("\x80", 200))
	f.Fuzz(func(t *testing.T, text string) {
		paths, ok := gitlinksOf(text)
		if !ok && paths != nil || len(paths) > len(text)/indexStat {
			t.Error(fmt.Sprint(len(paths), ok))
		}
		if list, err := trackedIn(text, 20); err == nil && len(list) > maxTracked {
			t.Errorf("%d files", len(list))
		}
	})
}

// BenchmarkArrived is of a directory of 50,000 files in 1,000 directories.
func BenchmarkArrived(b *testing.B) {
	dir := b.TempDir()
	for i := range 1000 {
		sub := filepath.Join(dir, fmt.Sprint(i%40), fmt.Sprint(i))
		if err := os.MkdirAll(sub, 0o755); err != nil {
			b.Fatal(err)
		}
		for j := range 50 {
			if err := os.WriteFile(filepath.Join(sub, fmt.Sprint(j)), nil, 0o600); err != nil {
				b.Fatal(err)
			}
		}
	}
	root, err := os.Open(dir)
	if err != nil {
		b.Fatal(err)
	}
	defer root.Close()
	for b.Loop() {
		Arrived(root, dir, time.Now())
	}
}

// TestArrivedSocket: a socket that a process of the host began to listen at since then shows, and none that was there, and none without a process.
func TestArrivedSocket(t *testing.T) {
	dir := t.TempDir()
	listen := func(name string) net.Listener {
		l, err := net.Listen("unix", filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		return l
	}
	if err := os.Mkdir(filepath.Join(dir, "node_modules"), 0o755); err != nil {
		t.Fatal(err)
	}
	listen("before")
	since := filetime.Moment(dir)
	for !filetime.Moment(dir).After(since) { // the next tick of the kernel's clock
	}
	gone := listen("gone").(*net.UnixListener)
	gone.SetUnlinkOnClose(false)
	gone.Close()
	listen("new")
	listen("node_modules/new")
	root, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	var got []string
	for _, a := range Arrived(root, dir, since).List {
		got = append(got, string(a.Kind)+" "+a.Rel)
	}
	if want := []string{"socket new", "socket node_modules/new"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
