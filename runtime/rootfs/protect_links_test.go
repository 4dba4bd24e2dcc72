package rootfs

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/protect"
	"agentjail.dev/runtime/refusal"
	"agentjail.dev/runtime/spec/plan"
)

// linkAttacks are layouts in which the host reads a file by way of a link or a setting, and how a
// jail gives that file a text of its own.
var linkAttacks = []struct {
	name   string
	tree   []string // for lay
	script string
	reads  string // what the host reads
}{
	{"a link is replaced by a directory", []string{".claude -> .agents", ".agents/x"}, "rm .claude; mkdir .claude; echo evil >.claude/settings.json", ".claude/settings.json"},
	{"a link's directory is written to", []string{".claude -> ai/claude", "ai/claude/x"}, "echo evil >ai/claude/settings.json", ".claude/settings.json"},
	{"a link's file is written to", []string{".claude -> ai/claude", "ai/claude/settings.json"}, "echo evil >ai/claude/settings.json", ".claude/settings.json"},
	{"a directory on the way of a link's target is exchanged", []string{".claude -> ai/claude", "ai/claude/settings.json"}, "mv ai old; mkdir -p ai/claude; echo evil >ai/claude/settings.json", ".claude/settings.json"},
	{"a link's target is made", []string{".vscode -> missing"}, "mkdir missing; echo evil >missing/tasks.json", ".vscode/tasks.json"},
	{"a link's target is made as a link", []string{".vscode -> missing"}, "mkdir evil; echo evil >evil/tasks.json; ln -s evil missing", ".vscode/tasks.json"},
	{"a link's file is made", []string{".mcp.json -> x/missing.json"}, "mkdir -p x; echo evil >x/missing.json", ".mcp.json"},
	{"a link within settings", []string{".claude/settings.json -> ../missing.json"}, "echo evil >missing.json", ".claude/settings.json"},
	{"a link further down is replaced", []string{"sub/.claude -> ../ai", "ai/settings.json", "sub/.git/HEAD"}, "rm sub/.claude; mkdir sub/.claude; echo evil >sub/.claude/settings.json", "sub/.claude/settings.json"},
	{"a link in a chain is replaced", []string{".vscode -> a", "a -> b", "b/tasks.json"}, "rm a; mkdir a; echo evil >a/tasks.json", ".vscode/tasks.json"},
	{"a file is replaced by a directory", []string{".claude=x"}, "rm .claude; mkdir .claude; echo evil >.claude/settings.json", ".claude/settings.json"},
	{"a hook that is a link", []string{".git/HEAD", ".git/hooks/pre-commit -> ../../tools/pre-commit", "tools/pre-commit"}, "echo evil >tools/pre-commit", ".git/hooks/pre-commit"},
	{"a hook that is a link to nothing", []string{".git/HEAD", ".git/hooks/pre-commit -> ../../tools/pre-commit"}, "mkdir -p tools; echo evil >tools/pre-commit", ".git/hooks/pre-commit"},
	{"hooks that are a link to nothing", []string{".git/HEAD", ".git/hooks -> ../hooks"}, "mkdir hooks; echo evil >hooks/pre-commit", ".git/hooks/pre-commit"},
	{"a git directory that is a link", []string{".git -> real", "real/HEAD", "real/objects/x", "real/refs/x"}, "rm .git; mkdir .git; echo evil >.git/config", ".git/config"},
	{"a git directory that is not there", []string{".git=gitdir: real"}, "mkdir real; echo evil >real/config", "real/config"},
	{"a directory that a file calls git's", []string{".git=gitdir: real", "real/x"}, "echo evil >real/config", "real/config"},
	{"absent hooks that the config names", []string{".git/HEAD", ".git/config=[core]\n\thooksPath = .gh\n"}, "mkdir .gh; echo evil >.gh/post-commit", ".gh/post-commit"},
	{"absent hooks in a directory that is there", []string{".git/HEAD", ".git/config=[core]\n\thooksPath = a/b/hooks\n", "a/x"}, "mkdir -p a/b/hooks; echo evil >a/b/hooks/post-commit", "a/b/hooks/post-commit"},
	{"an absent file that the config includes", []string{".git/HEAD", ".git/config=[include]\n\tpath = ../.gitconfig.local\n"}, "echo evil >.gitconfig.local", ".gitconfig.local"},
	{"an absent program", []string{".git/HEAD", ".git/config=[diff]\n\texternal = ./d\n"}, "echo evil >d", "d"},
}

// lay makes files ("name=text"), directories and links ("name -> target") that belong to uid 1000.
func lay(t *testing.T, dir string, tree ...string) {
	t.Helper()
	for _, n := range tree {
		name, target, link := strings.Cut(n, " -> ")
		name, text, _ := strings.Cut(name, "=")
		at := filepath.Join(dir, name)
		must(t, os.MkdirAll(filepath.Dir(at), 0o755))
		if link {
			must(t, os.Symlink(target, at))
		} else {
			must(t, os.WriteFile(at, []byte(text), 0o755))
		}
	}
	must(t, filepath.WalkDir(dir, func(p string, _ os.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(p, 1000, 1000))
	}))
}

// TestProtectedLinks makes each attack twice, with and without the protection.
func TestProtectedLinks(t *testing.T) {
	for _, on := range []bool{false, true} {
		for _, a := range linkAttacks {
			t.Run(map[bool]string{false: "without/", true: "with/"}[on]+a.name, func(t *testing.T) {
				onThread(t, func(t *testing.T) {
					dir := t.TempDir()
					lay(t, dir, a.tree...)
					_, _, at := protecting(t, dir, on)
					must(t, unix.Chdir(at))
					defer func() { _ = unix.Chdir("/") }()
					cmd := exec.Command("/bin/sh", "-c", a.script)
					cmd.SysProcAttr = &unix.SysProcAttr{Credential: &syscall.Credential{Uid: base + 1000, Gid: base + 1000}}
					out, err := cmd.CombinedOutput()
					t.Logf("%s%v", out, err)
					text, _ := os.ReadFile(filepath.Join(dir, a.reads))
					if evil := string(text) == "evil\n"; evil == on {
						t.Errorf("protected %v, and the host reads %q", on, text)
					}
				})
			})
		}
	}
}

// TestOtherMounts: what a link or a setting in one mounted directory leads to is kept from the jail
// in another one.
func TestOtherMounts(t *testing.T) {
	asRoot(t)
	top := t.TempDir()
	one, two := filepath.Join(top, "one"), filepath.Join(top, "two")
	lay(t, top, "one/.vscode -> ../two/code", "one/.mcp.json -> "+two+"/x/mcp.json", "one/.git/HEAD", "one/.git/config=[core]\n\thooksPath = sub/hooks\n", "one/sub/x", "two/x/y")
	search := func(binds ...plan.Bind) ([]Protected, error) {
		var dirs []Searched
		for i := range binds {
			binds[i].Index, binds[i].Protect = i, true
			f, err := OpenDir(binds[i].Source)
			must(t, err)
			defer f.Close()
			dirs = append(dirs, Searched{i, protect.Options{Source: binds[i].Source, Protect: true}, func(o protect.Options) (*protect.Found, error) { return protect.Search(f, o) }})
		}
		return SearchAll(dirs, binds)
	}
	found, err := search(plan.Bind{Source: one}, plan.Bind{Source: two}, plan.Bind{Source: one + "/sub"})
	must(t, err)
	for i, rel := range map[int][]string{1: {"code", "x/mcp.json"}, 2: {"hooks"}} {
		for _, r := range rel {
			if !found[i].Keeps(r) {
				t.Errorf("%s is not kept: %+v", r, found[i].Paths)
			}
		}
	}
	lay(t, top, "two/code/tasks.json")
	for _, ro := range []bool{false, true} {
		_, err = search(plan.Bind{Source: one}, plan.Bind{Source: two + "/code", ReadOnly: ro})
		if errors.Is(err, refusal.Err) == ro {
			t.Errorf("the target itself is mounted, read-only %v: %v", ro, err)
		}
	}
}

// TestPathLimits: what this process may not open is refused, not left out.
func TestPathLimits(t *testing.T) {
	asRoot(t)
	dir := t.TempDir()
	var tree []string
	for i := range 300 {
		tree = append(tree, fmt.Sprintf("p/%d/.mcp.json", i))
	}
	lay(t, dir, tree...)
	f, err := OpenDir(dir)
	must(t, err)
	defer f.Close()
	search := []Searched{{0, protect.Options{Source: dir, Protect: true}, func(o protect.Options) (*protect.Found, error) { return protect.Search(f, o) }}}
	if _, err := SearchAll(search, nil); err != nil {
		t.Error(err)
	}
	var was unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &was))
	must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 500, Max: was.Max}))
	_, err = SearchAll(search, nil)
	must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &was))
	if !errors.Is(err, refusal.Err) || !strings.Contains(err.Error(), "more than 250 paths to protect, which is half of the files that this process may have open") {
		t.Errorf("%v", err)
	}
}
