package protect

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/refusal"
)

// plant makes files, directories (names that end in a slash) and links
// ("name -> target") below a new directory, and opens that.
func plant(t testing.TB, names ...string) (string, *os.File) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir, plantIn(t, dir, names...)
}

// plantIn makes them below a directory that is there.
func plantIn(t testing.TB, dir string, names ...string) *os.File {
	t.Helper()
	for _, n := range names {
		name, target, link := strings.Cut(n, " -> ")
		name, text, _ := strings.Cut(name, "=")
		at := filepath.Join(dir, name)
		err := os.MkdirAll(filepath.Dir(at), 0o755)
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case link:
			err = os.Symlink(target, at)
		case strings.HasSuffix(name, "/"):
			err = os.MkdirAll(at, 0o755)
		default:
			err = os.WriteFile(at, []byte(text), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	f, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// repository is what git init makes, as far as it matters.
func repository(at string) []string {
	return []string{at + "/HEAD=ref: refs/heads/main\n", at + "/objects/", at + "/refs/", at + "/config=[core]\n", at + "/hooks/", at + "/info/exclude"}
}

func (f *Found) text(t Treatment) string {
	var out []string
	for _, p := range f.Paths {
		if p.Treatment == t {
			out = append(out, p.Rel)
		}
	}
	return strings.Join(out, " ")
}

// TestSearch: what is protected of what there is. Absent paths are tested by
// themselves.
func TestSearch(t *testing.T) {
	type want = map[Treatment]string
	for _, c := range []struct {
		name string
		tree []string
		o    Options
		want want
	}{
		{name: "nothing", tree: []string{"a/b/c", "README"}},
		{
			name: "settings of editors and agents, at any depth",
			tree: []string{".vscode/tasks.json", "a/b/.mcp.json", ".claude/settings.json", ".claude/memory", "a/.claude/agents/"},
			want: want{ReadOnly: ".claude/settings.json .vscode a/.claude/agents a/b/.mcp.json"},
		},
		{name: "whatever the case", tree: []string{".VSCode/tasks.json", ".MCP.json"}, want: want{ReadOnly: ".MCP.json .VSCode"}},
		{name: "a home", tree: []string{".bashrc", ".ssh/", ".config/git/config", ".config/other"}, want: want{ReadOnly: ".bashrc .config/git .ssh"}},
		{name: "not where tools build anew", tree: []string{"node_modules/x/.vscode/", "a/node_modules/y/.git/config"}},
		{
			name: "a repository", tree: repository(".git"),
			want: want{ReadOnly: ".git/hooks", Private: ".git/config", Placeholder: ".git/commondir .git/config.worktree .git/info/attributes"},
		},
		{
			name: "a nested one of another case", tree: repository("a/.GIT"),
			want: want{ReadOnly: "a/.GIT/hooks", Private: "a/.GIT/config", Placeholder: "a/.GIT/commondir a/.GIT/config.worktree a/.GIT/info/attributes"},
		},
		{
			name: "a repository without a work tree", tree: repository("x.git"),
			want: want{ReadOnly: "x.git/hooks", Private: "x.git/config", Placeholder: "x.git/commondir x.git/config.worktree x.git/info/attributes"},
		},
		{
			name: "a submodule", tree: slices.Concat(repository(".git/modules/lib/net"), []string{"lib/net/.git=gitdir: ../../.git/modules/lib/net\n"}),
			o: Options{Unprotect: []string{".git/commondir", ".git/config.worktree", ".git/info"}},
			want: want{
				ReadOnly: ".git/modules/lib/net/hooks lib/net/.git", Private: ".git/modules/lib/net/config",
				Placeholder: ".git/config .git/hooks",
			},
		},
		{
			name: "a further work tree", tree: []string{".git/worktrees/w/HEAD=ref", ".git/worktrees/w/commondir=../..", "w/.git=gitdir: ../.git/worktrees/w"},
			o:    Options{Unprotect: []string{".git/hooks", ".git/config"}},
			want: want{ReadOnly: ".git/worktrees/w/commondir w/.git", Placeholder: ".git/commondir .git/config.worktree .git/info/attributes .git/worktrees/w/config.worktree"},
		},
		{
			name: "a git directory of another name", tree: append(repository("store"), ".git=gitdir: ./store"),
			o:    Options{Unprotect: []string{".git/commondir", ".git/config.worktree", ".git/info"}},
			want: want{ReadOnly: ".git store/hooks", Private: "store/config"},
		},
		{
			name: "a file that leads git to no git directory, which a jail could fill", tree: []string{"a/b", ".git=gitdir: a"},
			want: want{ReadOnly: ".git", Placeholder: "a/commondir a/config a/config.worktree a/hooks a/info/attributes"},
		},
		{
			name: "a file with line ends after the path", tree: append(repository("store"), ".git=gitdir: ./store"+strings.Repeat("\n", 9000)),
			o:    Options{Unprotect: []string{".git/commondir", ".git/config.worktree", ".git/info"}},
			want: want{ReadOnly: ".git store/hooks", Private: "store/config"},
		},
		{
			name: "programs of a package in settings", tree: []string{".opencode/node_modules/.bin/x -> ../x/cli.js", ".opencode/node_modules/x/cli.js"}, o: Options{Limits: Limits{Entries: 100, Depth: 9, Paths: 1}},
			want: want{ReadOnly: ".opencode"},
		},
		{name: "a file that leads nowhere", tree: []string{".git=gitdir:\n"}, want: want{Private: ".git"}},
		{
			name: "files by which tools mark a directory",
			tree: []string{"a/.git", "b/.GIT=gitdir:x", "c/.git -> mark", "c/mark=a note\n", "d/.git -> x/y", "d/x"},
			want: want{ReadOnly: "c/.git d/.git d/x", Private: "a/.git b/.GIT c/mark"},
		},
		{
			name: "files where the table has a directory, in place of which a jail could make none",
			tree: []string{".claude", "x/.config=CONFIG_64BIT=y", "x/.github", ".git=gitdir: a/b", "a"},
			o:    Options{Absent: true, Unprotect: []string{".codex", ".agents", ".husky", ".vscode", ".idea", ".mcp.json", ".zed", ".cursor", ".gemini", ".qwen", ".opencode", ".kiro", ".windsurf", ".continue", ".kilocode", ".roo"}},
			want: want{ReadOnly: ".claude .git a"},
		},
		{name: "a file that leads out", tree: []string{".git=gitdir: ../../../etc"}, want: want{ReadOnly: ".git"}},
		{
			name: "links", tree: []string{"dots/bashrc", ".bashrc -> dots/bashrc", ".profile -> /etc/profile", ".vscode -> ../..", ".idea -> .idea"},
			want: want{ReadOnly: ".bashrc .idea .profile .vscode dots/bashrc"},
		},
		{
			name: "what the config names",
			tree: []string{".git/HEAD", ".git/hooks/", ".git/config=[core]\n\thooksPath = tools/hooks\n[include] path = ../shared.conf\n[includeIf \"gitdir:x\"]\n\tPath=\"../if.conf\"\n", "tools/hooks/pre-commit", "shared.conf", "if.conf"},
			o:    Options{Unprotect: []string{".git/commondir", ".git/config.worktree", ".git/info"}},
			want: want{ReadOnly: ".git/hooks if.conf shared.conf tools/hooks", Private: ".git/config"},
		},
		{name: "a part unprotected", tree: append(repository(".git"), ".vscode/"), o: Options{Unprotect: []string{".git", ".vscode"}}},
		{
			name: "hidden", tree: []string{".env", "a/.ENV", "key.pem", "keys/id_rsa", ".env.d/x", "env"}, o: Options{Hide: []string{".env", "*.pem", "id_*", ".env.*"}},
			want: want{Hidden: ".env .env.d a/.ENV key.pem keys/id_rsa"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, root := plant(t, c.tree...)
			c.o.Source, c.o.Protect = dir, true
			f, err := Search(root, c.o)
			if err != nil {
				t.Fatal(err, f)
			}
			for _, treatment := range []Treatment{ReadOnly, Private, Placeholder, Hidden} {
				if got := f.text(treatment); got != c.want[treatment] {
					t.Errorf("%s: %q, want %q", treatment, got, c.want[treatment])
				}
			}
		})
	}
}

// furtherAgents are directories of agents and editors that are all treated alike.
var furtherAgents = []string{".zed", ".cursor", ".gemini", ".qwen", ".opencode", ".kiro", ".windsurf", ".continue", ".kilocode", ".roo"}

// nestedOnly leaves of the absent paths those of one agent.
var nestedOnly = Options{Unprotect: []string{".git", ".codex", ".agents", ".husky", ".idea", ".vscode", ".mcp.json"}}

const topAgent = ".claude/agents .claude/commands .claude/hooks .claude/settings.json .claude/settings.local.json"

// TestManyDirectories: all directories are looked at, in one order.
func TestManyDirectories(t *testing.T) {
	var tree []string
	const many = 150
	for i := range many {
		tree = append(tree, repository(fmt.Sprintf("d%d/src/r/.git", i))...)
	}
	dir, root := plant(t, tree...)
	var first *Found
	for range 3 {
		f, err := Search(root, Options{Source: dir, Protect: true})
		if err != nil || f.Repositories != many {
			t.Fatalf("%+v, %v", f, err)
		}
		if first == nil {
			first = f
		}
		if !slices.Equal(f.Paths, first.Paths) || f.Searched != first.Searched {
			t.Fatal("two searches differ")
		}
	}
}

// TestAbsent: which absent paths get a placeholder, by kind of directory.
func TestAbsent(t *testing.T) {
	project := ".agents .claude/agents .claude/commands .claude/hooks .claude/settings.json .claude/settings.local.json .codex .husky .idea .mcp.json .vscode"
	for _, c := range []struct {
		name string
		tree []string
		o    Options
		want string
	}{
		{name: "an empty directory must stay empty (git clone URL ., initdb)"},
		{name: "a project", tree: []string{"main.go"}, want: project},
		{
			name: "in part", tree: []string{"main.go", ".claude/agents/", ".vscode/", ".idea -> x"},
			want: ".agents .claude/commands .claude/hooks .claude/settings.json .claude/settings.local.json .codex .husky .mcp.json x",
		},
		{
			name: "a home by its files", tree: []string{".profile"}, o: Options{Unprotect: []string{".claude", ".codex", ".agents", ".husky", ".idea", ".vscode", ".mcp.json"}},
			want: ".bash_aliases .bash_login .bash_logout .bash_profile .bashrc .gitconfig .zlogin .zprofile .zshenv .zshrc",
		},
		{
			name: "a home by its name", tree: []string{"x"}, o: Options{Home: true, Unprotect: []string{".claude", ".codex", ".agents", ".husky", ".idea", ".vscode", ".mcp.json"}},
			want: ".bash_aliases .bash_login .bash_logout .bash_profile .bashrc .gitconfig .profile .zlogin .zprofile .zshenv .zshrc",
		},
		{
			name: "a link in place of a shared directory", tree: []string{".claude -> ai", "ai/agents/"}, o: nestedOnly,
			want: "ai/commands ai/hooks ai/settings.json ai/settings.local.json",
		},
		{
			name: "the same, in a repository", tree: []string{"a/.git/HEAD", "a/.claude -> ../ai", "ai/agents/"}, o: nestedOnly,
			want: topAgent + " ai/commands ai/hooks ai/settings.json ai/settings.local.json",
		},
		{
			name: "a nested repository", tree: []string{"a/.git/HEAD"}, o: Options{Unprotect: []string{".claude", ".codex", ".agents", ".husky", ".idea", ".vscode", ".git/info"}},
			want: ".mcp.json a/.git/commondir a/.git/config a/.git/config.worktree a/.git/hooks a/.mcp.json",
		},
		{
			name: "a nested repository's shared directory", tree: []string{"a/.git/HEAD"}, o: nestedOnly,
			want: topAgent + " a/.claude",
		},
		{
			name: "a shared directory that is there", tree: []string{"a/.git/HEAD", "a/.claude/agents/"}, o: nestedOnly,
			want: topAgent + " a/.claude/commands a/.claude/hooks a/.claude/settings.json a/.claude/settings.local.json",
		},
		{
			name: "a shared directory of which policy leaves a part", tree: []string{"a/.git/HEAD"}, o: Options{Unprotect: append([]string{".claude/skills", ".claude/hooks"}, nestedOnly.Unprotect...)},
			want: ".claude/agents .claude/commands .claude/settings.json .claude/settings.local.json a/.claude/agents a/.claude/commands a/.claude/settings.json a/.claude/settings.local.json",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, root := plant(t, c.tree...)
			c.o.Source, c.o.Protect, c.o.Absent, c.o.Unprotect = dir, true, true, append(slices.Clone(c.o.Unprotect), furtherAgents...)
			f, err := Search(root, c.o)
			if err != nil {
				t.Fatal(err)
			}
			if got := f.text(Placeholder); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// TestBounds: a search that meets a bound refuses, and reports where and what to do.
func TestBounds(t *testing.T) {
	var many, settings []string
	for i := range 60 {
		many = append(many, fmt.Sprintf("big/d%d/f", i))
	}
	many = slices.Clip(many)
	for i := range 40 {
		settings = append(settings, fmt.Sprintf("p/%d/.mcp.json", i))
	}
	few := Limits{Entries: 50, Ignored: 1000, Depth: 8, Paths: 1000}
	paths := Limits{Entries: 1000, Ignored: 1000, Depth: 8, Paths: 20}
	for _, c := range []struct {
		name string
		tree []string
		o    Options
		want []string // nothing for no refusal
	}{
		{"deep", []string{"top/" + strings.Repeat("d/", 60)}, Options{Limits: few}, []string{"more than 8 directories in each other", "SOURCE/top", `binds.unprotect = ["SOURCE/top"]`}},
		{"many", many, Options{Limits: few}, []string{"more than 50 names, most of them in SOURCE/big", `binds.unprotect = ["SOURCE/big"]`}},
		{"many in the top", settings, Options{Limits: Limits{Entries: 10, Depth: 8, Paths: 100}}, []string{"more than 10 names"}},
		{"many, of which policy leaves some", many, Options{Limits: few, Unprotect: []string{"SOURCE/big"}}, nil},
		{"many, of which policy leaves some, but hides", many, Options{Limits: few, Unprotect: []string{"SOURCE/big"}, Hide: []string{".env"}}, []string{"most of them in SOURCE/big", "for binds.hide all of it"}},
		{"many in what policy leaves as a whole", many, Options{Limits: few, Unprotect: []string{"SOURCE"}}, nil},
		{"ignored by git", append(many, ".gitignore=# x\n/big/\n"), Options{Limits: few}, nil},
		{"ignored further up", append(many, ".gitignore=b?g\n", "x/.gitignore=!big"), Options{Limits: few}, nil},
		{"not ignored after all", append(many, ".gitignore=big\n!/big\n"), Options{Limits: few}, []string{"most of them in SOURCE/big"}},
		{"too many even so", append(many, ".gitignore=big\n"), Options{Limits: Limits{Entries: 50, Ignored: 90, Depth: 8, Paths: 1000}}, []string{"most of them in SOURCE/big"}},
		{"made anew by tools", []string{"node_modules/" + strings.Repeat("d/", 60)}, Options{Limits: few}, nil},
		{"settings", settings, Options{Limits: paths}, []string{"more than 20 paths to protect", "SOURCE/p"}},
		{"links in a circle", []string{"a/b -> ..", "a/c -> ../a", "x -> x", ".vscode -> .idea", ".idea -> .vscode"}, Options{Limits: few}, nil},
		{"a link to the top", []string{"a", ".vscode -> ."}, Options{Limits: few}, []string{"SOURCE/.vscode leads to the mounted directory itself", `binds.unprotect = ["SOURCE/.vscode"]`}},
		{"the same, left to jails", []string{"a", ".vscode -> ."}, Options{Limits: few, Unprotect: []string{"SOURCE/.vscode"}}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, root := plant(t, c.tree...)
			c.o.Source, c.o.Protect, c.o.Unprotect = dir, true, slices.Clone(c.o.Unprotect)
			for i, u := range c.o.Unprotect {
				c.o.Unprotect[i] = strings.ReplaceAll(u, "SOURCE", dir)
			}
			_, err := Search(root, c.o)
			if errors.Is(err, refusal.Err) != (len(c.want) > 0) || err != nil && len(c.want) == 0 {
				t.Fatalf("%v", err)
			}
			for _, w := range c.want {
				if w = strings.ReplaceAll(w, "SOURCE", dir); !strings.Contains(err.Error(), w) {
					t.Errorf("%v, without %q", err, w)
				}
			}
		})
	}
}

// TestBeside: what is read with something else is kept absent beside that.
func TestBeside(t *testing.T) {
	for tree, want := range map[string]string{"lefthook.toml": ".lefthook-local.yml lefthook-local.yml", "lefthook-local.yml .lefthook.yml": ".lefthook-local.yml", ".hg/requires": ".hg/hgrc", "hg": ""} {
		dir, root := plant(t, strings.Fields(tree)...)
		f, err := Search(root, Options{Source: dir, Protect: true, Absent: true, Unprotect: append([]string{".claude", ".codex", ".agents", ".husky", ".idea", ".vscode", ".mcp.json"}, furtherAgents...)})
		if err != nil || f.text(Placeholder) != want {
			t.Errorf("%s: %q, want %q, %v", tree, f.text(Placeholder), want, err)
		}
	}
	// Each of them, as all of the project's.
	dir, root := plant(t, "main.go")
	f, err := Search(root, Options{Source: dir, Protect: true, Absent: true})
	for _, name := range furtherAgents {
		if err != nil || !f.Keeps(name) {
			t.Errorf("%s is not kept absent: %v", name, err)
		}
	}
}

// TestIgnoredIsSearched: what a .gitignore names, which a jail can write, is protected all the
// same.
func TestIgnoredIsSearched(t *testing.T) {
	dir, root := plant(t, append(repository("build/x/.git"), ".gitignore=build\n", "build/.mcp.json", "build/.env")...)
	f, err := Search(root, Options{Source: dir, Protect: true, Hide: []string{".env"}, Unprotect: []string{".git/commondir", ".git/config.worktree", ".git/info"}})
	if err != nil || f.text(ReadOnly) != "build/.mcp.json build/x/.git/hooks" || f.text(Hidden) != "build/.env" {
		t.Errorf("%+v, %v", f, err)
	}
}

// TestNothingHides: no place that a jail can make, or move a directory to, keeps from the search
// what policy hides there, nor what is protected below it.
func TestNothingHides(t *testing.T) {
	for _, at := range []string{"node_modules", "venv", ".vscode", ".git/objects/ab", ".git/x", ".git/hooks", "bare"} {
		dir, root := plant(t, append(slices.Concat(repository(".git"), repository("bare")), at+"/app/.env")...)
		f, err := Search(root, Options{Source: dir, Protect: true, Hide: []string{".env"}})
		if err != nil || f.text(Hidden) != at+"/app/.env" {
			t.Errorf("%s: hidden %q, %v", at, f.text(Hidden), err)
		}
	}
	// The top is made to look like a git directory.
	dir, root := plant(t, "HEAD", "refs/", "objects/lib/.vscode/", "lib/.mcp.json")
	f, err := Search(root, Options{Source: dir, Protect: true, Absent: true})
	if err != nil || f.text(ReadOnly) != "lib/.mcp.json objects/lib/.vscode" || !strings.Contains(f.text(Placeholder), ".claude/settings.json") {
		t.Errorf("%q, %q, %v", f.text(ReadOnly), f.text(Placeholder), err)
	}
}

// TestHostileNames: fifos, sockets and odd bytes where a file is expected stop nothing.
func TestHostileNames(t *testing.T) {
	dir, root := plant(t, ".git/HEAD", "a\n\x1b[31m/.vscode/")
	for _, name := range []string{".git/config", ".bashrc", "a\n\x1b[31m/.git"} {
		if err := unix.Mkfifo(filepath.Join(dir, name), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	f, err := Search(root, Options{Source: dir, Protect: true, Unprotect: []string{".git/hooks", ".git/commondir", ".git/config.worktree", ".git/info"}})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := f.text(ReadOnly), ".bashrc .git/config a\n\x1b[31m/.git a\n\x1b[31m/.vscode"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestLease: a file that another process does not let go of stops the start at once.
func TestLease(t *testing.T) {
	dir, root := plant(t, repository(".git")...)
	f, err := os.OpenFile(filepath.Join(dir, ".git/config"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		t.Skip("no lease here: ", err)
	}
	if _, err := Search(root, Options{Source: dir, Protect: true}); !errors.Is(err, refusal.Err) || !strings.Contains(err.Error(), "F_SETLEASE") {
		t.Errorf("%v", err)
	}
}

// TestPins: each directory on the way to what is protected, the deepest first.
func TestPins(t *testing.T) {
	f := Found{Paths: []Path{{Rel: "a/b/.git/hooks"}, {Rel: "a/.vscode"}, {Rel: ".mcp.json"}, {Rel: "s/.env", Treatment: Hidden}}}
	if got := strings.Join(f.Pins(), " "); got != "a/b/.git a/b a" {
		t.Errorf("pins: %s", got)
	}
}

// TestLinked: a protected file with a second name is reported.
func TestLinked(t *testing.T) {
	dir, root := plant(t, ".mcp.json", ".envrc")
	if err := os.Link(filepath.Join(dir, ".mcp.json"), filepath.Join(dir, "other")); err != nil {
		t.Fatal(err)
	}
	f, err := Search(root, Options{Source: dir, Protect: true})
	if err != nil || strings.Join(f.Linked, " ") != ".mcp.json" {
		t.Errorf("linked: %v, %v", f.Linked, err)
	}
}

// TestWithin: a mount of a protected path itself, or of what lies in one.
func TestWithin(t *testing.T) {
	for _, c := range []struct {
		path string
		not  []string
		want string
	}{
		{"/home/me/src", nil, ""},
		{"/home/me/src/.git/hooks", nil, "/home/me/src/.git/hooks"},
		{"/home/me/src/.GIT/hooks/pre-commit", nil, "/home/me/src/.GIT/hooks"},
		{"/home/me/src/.git", nil, ""},
		{"/home/me/.vscode/extensions", nil, "/home/me/.vscode"},
		{"/home/me/.vscode", []string{".vscode"}, ""},
		{"/home/me/.vscode", []string{"/home/me/.vscode"}, ""},
		{"/home/me/.vscode", []string{"/home/you"}, "/home/me/.vscode"},
		{"/home/me/.claude", nil, ""},
		{"/home/me/.claude/settings.json", nil, "/home/me/.claude/settings.json"},
	} {
		if _, at := Within(c.path, "", c.not); at != c.want && !(c.want == "" && at == c.path) {
			t.Errorf("%s without %v: %q, want %q", c.path, c.not, at, c.want)
		}
		if e, _ := Within(c.path, "", c.not); (e != nil) != (c.want != "") {
			t.Errorf("%s without %v: %v", c.path, c.not, e)
		}
	}
}

// TestTable: each entry reports why, and no two are the same.
func TestTable(t *testing.T) {
	seen := map[string]bool{}
	for _, e := range Entries() {
		switch {
		case seen[e.Path]:
			t.Errorf("%s twice", e.Path)
		case e.Why == "":
			t.Errorf("%s has no reason", e.Path)
		case e.Own == "" && e.Path != Fold(e.Path) || filepath.Clean(e.Path) != e.Path:
			t.Errorf("%s is not in the form in which names are compared", e.Path)
		case e.Scope == Project && e.Absent == EmptyFile && len(e.Beside) == 0:
			t.Errorf("%s: git would show the file", e.Path)
		}
		if base := filepath.Base(e.Path); e.Scope != Repository && (!notable([]byte(base)) || !notable([]byte(strings.ToUpper(base)))) {
			t.Errorf("%s: no search looks at it", e.Path)
		}
		seen[e.Path] = true
	}
	if err := CheckUnprotect([]string{".git", ".git/config", "/x/y", ".VSCode"}); err != nil {
		t.Error(err)
	}
	for _, u := range []string{".gti", "", "/", "/a/../b", "hooks"} {
		if CheckUnprotect([]string{u}) == nil {
			t.Errorf("%q is taken", u)
		}
	}
	for _, h := range []string{"", "*", "a/b", "[", "**"} {
		if CheckHide([]string{h}) == nil {
			t.Errorf("pattern %q is taken", h)
		}
	}
}

// FuzzMatch: a path is protected whatever its case, and wherever it lies.
func FuzzMatch(f *testing.F) {
	f.Add("a/.vscode")
	f.Add(".Claude/settings.JSON")
	f.Fuzz(func(t *testing.T, p string) {
		if strings.Contains(p, "\x00") || Fold(strings.ToUpper(p)) != Fold(p) {
			return
		}
		a, b := match(p), match("x/"+strings.ToUpper(p))
		if base := path.Base(p); a != nil && !(notable([]byte(base)) && notable([]byte(strings.ToUpper(base)))) {
			t.Errorf("%q is protected, and no search looks at it", p)
		}
		if a != nil && a != b {
			t.Errorf("%q is protected, in upper case it is not", p)
		}
	})
}
