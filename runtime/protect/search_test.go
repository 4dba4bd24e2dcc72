package protect

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// plant makes files, directories (names that end in a slash) and links
// ("name -> target") below a new directory, and opens that.
func plant(t testing.TB, names ...string) (string, *os.File) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		name, target, link := strings.Cut(n, " -> ")
		name, text, _ := strings.Cut(name, "=")
		at := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
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
	return dir, f
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
		{name: "settings of editors and agents, at any depth",
			tree: []string{".vscode/tasks.json", "a/b/.mcp.json", ".claude/settings.json", ".claude/memory", "a/.claude/agents/"},
			want: want{ReadOnly: ".claude/settings.json .vscode a/.claude/agents a/b/.mcp.json"}},
		{name: "whatever the case", tree: []string{".VSCode/tasks.json", ".MCP.json"}, want: want{ReadOnly: ".MCP.json .VSCode"}},
		{name: "a home", tree: []string{".bashrc", ".ssh/", ".config/git/config", ".config/other"}, want: want{ReadOnly: ".bashrc .config/git .ssh"}},
		{name: "not where tools build anew", tree: []string{"node_modules/x/.vscode/", "a/node_modules/y/.git/config"}},
		{name: "a repository", tree: repository(".git"),
			want: want{ReadOnly: ".git/hooks", Private: ".git/config", Placeholder: ".git/commondir .git/config.worktree .git/info/attributes"}},
		{name: "a nested one of another case", tree: repository("a/.GIT"),
			want: want{ReadOnly: "a/.GIT/hooks", Private: "a/.GIT/config", Placeholder: "a/.GIT/commondir a/.GIT/config.worktree a/.GIT/info/attributes"}},
		{name: "a repository without a work tree", tree: repository("x.git"),
			want: want{ReadOnly: "x.git/hooks", Private: "x.git/config", Placeholder: "x.git/commondir x.git/config.worktree x.git/info/attributes"}},
		{name: "a submodule", tree: slices.Concat(repository(".git/modules/lib/net"), []string{"lib/net/.git=gitdir: ../../.git/modules/lib/net\n"}),
			o: Options{Unprotect: []string{".git/commondir", ".git/config.worktree", ".git/info"}},
			want: want{ReadOnly: ".git/modules/lib/net/hooks lib/net/.git", Private: ".git/modules/lib/net/config",
				Placeholder: ".git/config .git/hooks"}},
		{name: "a further work tree", tree: []string{".git/worktrees/w/HEAD=ref", ".git/worktrees/w/commondir=../..", "w/.git=gitdir: ../.git/worktrees/w"},
			o:    Options{Unprotect: []string{".git/hooks", ".git/config"}},
			want: want{ReadOnly: ".git/worktrees/w/commondir w/.git", Placeholder: ".git/commondir .git/config.worktree .git/info/attributes .git/worktrees/w/config.worktree"}},
		{name: "a git directory of another name", tree: append(repository("store"), ".git=gitdir: ./store"),
			o:    Options{Unprotect: []string{".git/commondir", ".git/config.worktree", ".git/info"}},
			want: want{ReadOnly: ".git store/hooks", Private: "store/config"}},
		{name: "a file that leads git to no git directory", tree: []string{"a/b", ".git=gitdir: a"}, want: want{ReadOnly: ".git"}},
		{name: "a file that leads out", tree: []string{".git=gitdir: ../../../etc"}, want: want{ReadOnly: ".git"}},
		{name: "links", tree: []string{"dots/bashrc", ".bashrc -> dots/bashrc", ".profile -> /etc/profile", ".vscode -> ../..", ".idea -> .idea"},
			want: want{ReadOnly: ".bashrc .idea .profile .vscode dots/bashrc"}},
		{name: "what the config names",
			tree: []string{".git/HEAD", ".git/hooks/", ".git/config=[core]\n\thooksPath = tools/hooks\n[include] path = ../shared.conf\n[includeIf \"gitdir:x\"]\n\tPath=\"../if.conf\"\n", "tools/hooks/pre-commit", "shared.conf", "if.conf"},
			o:    Options{Unprotect: []string{".git/commondir", ".git/config.worktree", ".git/info"}},
			want: want{ReadOnly: ".git/hooks if.conf shared.conf tools/hooks", Private: ".git/config"}},
		{name: "a part unprotected", tree: append(repository(".git"), ".vscode/"), o: Options{Unprotect: []string{".git", ".vscode"}}},
		{name: "hidden", tree: []string{".env", "a/.ENV", "key.pem", "keys/id_rsa", ".env.d/x", "env"}, o: Options{Hide: []string{".env", "*.pem", "id_*", ".env.*"}},
			want: want{Hidden: ".env .env.d a/.ENV key.pem keys/id_rsa"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, root := plant(t, c.tree...)
			c.o.Source, c.o.Protect = dir, true
			f, err := Search(root, c.o)
			if err != nil || f.GaveUp != "" {
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

// nestedOnly leaves of the absent paths those of one agent.
var nestedOnly = Options{Unprotect: []string{".git", ".codex", ".agents", ".husky", ".idea", ".vscode", ".mcp.json"}}

const topAgent = ".claude/agents .claude/commands .claude/hooks .claude/settings.json .claude/settings.local.json"

// TestManyDirectories: directories that are read beside each other are all looked at, in one order.
func TestManyDirectories(t *testing.T) {
	var tree []string
	for i := range 3 * ahead {
		tree = append(tree, repository(fmt.Sprintf("d%d/src/r/.git", i))...)
	}
	dir, root := plant(t, tree...)
	var first *Found
	for range 3 {
		f, err := Search(root, Options{Source: dir, Protect: true, Limits: Limits{Entries: 100_000, Depth: 8, Paths: 5000, Time: time.Minute}})
		if err != nil || f.Repositories != 3*ahead || f.GaveUp != "" {
			t.Fatalf("%d repositories, gave up %q, %v", f.Repositories, f.GaveUp, err)
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
		{name: "in part", tree: []string{"main.go", ".claude/agents/", ".vscode/", ".idea -> x"},
			want: ".agents .claude/commands .claude/hooks .claude/settings.json .claude/settings.local.json .codex .husky .mcp.json"},
		{name: "a home by its files", tree: []string{".profile"}, o: Options{Unprotect: []string{".claude", ".codex", ".agents", ".husky", ".idea", ".vscode", ".mcp.json"}},
			want: ".bash_aliases .bash_login .bash_logout .bash_profile .bashrc .gitconfig .zlogin .zprofile .zshenv .zshrc"},
		{name: "a home by its name", tree: []string{"x"}, o: Options{Home: true, Unprotect: []string{".claude", ".codex", ".agents", ".husky", ".idea", ".vscode", ".mcp.json"}},
			want: ".bash_aliases .bash_login .bash_logout .bash_profile .bashrc .gitconfig .profile .zlogin .zprofile .zshenv .zshrc"},
		{name: "a nested repository", tree: []string{"a/.git/HEAD"}, o: Options{Unprotect: []string{".claude", ".codex", ".agents", ".husky", ".idea", ".vscode", ".git/info"}},
			want: ".mcp.json a/.git/commondir a/.git/config a/.git/config.worktree a/.git/hooks a/.mcp.json"},
		{name: "a nested repository's shared directory", tree: []string{"a/.git/HEAD"}, o: nestedOnly,
			want: topAgent + " a/.claude"},
		{name: "a shared directory that is there", tree: []string{"a/.git/HEAD", "a/.claude/agents/"}, o: nestedOnly,
			want: topAgent + " a/.claude/commands a/.claude/hooks a/.claude/settings.json a/.claude/settings.local.json"},
		{name: "a shared directory of which policy leaves a part", tree: []string{"a/.git/HEAD"}, o: Options{Unprotect: append([]string{".claude/skills", ".claude/hooks"}, nestedOnly.Unprotect...)},
			want: ".claude/agents .claude/commands .claude/settings.json .claude/settings.local.json a/.claude/agents a/.claude/commands a/.claude/settings.json a/.claude/settings.local.json"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, root := plant(t, c.tree...)
			c.o.Source, c.o.Protect, c.o.Absent = dir, true, true
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

// TestBounds: a search of what somebody has made to be endless ends, and says so.
func TestBounds(t *testing.T) {
	deep := strings.Repeat("d/", 60)
	var many []string
	for i := range 300 {
		many = append(many, fmt.Sprintf("f%d", i))
	}
	var settings []string
	for i := range 40 {
		settings = append(settings, fmt.Sprintf("p%d/.mcp.json", i))
	}
	for _, c := range []struct {
		name  string
		tree  []string
		bound Limits
		want  string
	}{
		{"deep", []string{deep}, Limits{Entries: 1000, Depth: 8, Paths: 10, Time: DefaultLimits.Time}, "below 8 directories"},
		{"many", many, Limits{Entries: 100, Depth: 8, Paths: 10, Time: DefaultLimits.Time}, "after 100 names"},
		{"settings", settings, Limits{Entries: 1000, Depth: 8, Paths: 10, Time: DefaultLimits.Time}, "after 10 protected paths"},
		{"links in a circle", []string{"a/b -> ..", "a/c -> ../a", "x -> x"}, Limits{Entries: 10, Depth: 8, Paths: 10, Time: DefaultLimits.Time}, ""},
		{"time", []string{"a/b"}, Limits{Entries: 10, Depth: 8, Paths: 10}, "after 0s"},
		{"time after so many names", settings, Limits{Entries: 1000, Depth: 8, Paths: 100, Sure: 20}, "after 0s"},
		{"names that are sure", settings, Limits{Entries: 1000, Depth: 8, Paths: 100, Sure: 500}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, root := plant(t, c.tree...)
			f, err := Search(root, Options{Source: dir, Protect: true, Limits: c.bound})
			if err != nil {
				t.Fatal(err)
			}
			if f.GaveUp != c.want || len(f.Paths) > c.bound.Paths || f.Searched > c.bound.Entries+1 {
				t.Errorf("gave up %q after %d names and %d paths, want %q", f.GaveUp, f.Searched, len(f.Paths), c.want)
			}
		})
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
		if _, at := Within(c.path, c.not); at != c.want && !(c.want == "" && at == c.path) {
			t.Errorf("%s without %v: %q, want %q", c.path, c.not, at, c.want)
		}
		if e, _ := Within(c.path, c.not); (e != nil) != (c.want != "") {
			t.Errorf("%s without %v: %v", c.path, c.not, e)
		}
	}
}

// TestTable: each entry says why, and no two are the same.
func TestTable(t *testing.T) {
	seen := map[string]bool{}
	for _, e := range Table {
		switch {
		case seen[e.Path]:
			t.Errorf("%s twice", e.Path)
		case e.Why == "":
			t.Errorf("%s has no reason", e.Path)
		case e.Path != fold(e.Path) || filepath.Clean(e.Path) != e.Path:
			t.Errorf("%s is not in the form in which names are compared", e.Path)
		case e.Scope != Repository && strings.Count(e.Path, "/") > 1:
			t.Errorf("%s: names of more than two parts are not looked for", e.Path)
		case e.Scope != Repository && e.Absent == EmptyFile:
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

// FuzzSettings: no config stops the search, and what it names is taken as a path.
func FuzzSettings(f *testing.F) {
	f.Add("[core]\n\thooksPath = .husky/_\n")
	f.Add("[include \"x\"] path=\"../y\n[")
	f.Fuzz(func(_ *testing.T, text string) {
		for _, s := range settings(text) {
			_ = s.path
		}
	})
}

// FuzzMatch: a path is protected whatever its case, and wherever it lies.
func FuzzMatch(f *testing.F) {
	f.Add("a/.vscode")
	f.Add(".Claude/settings.JSON")
	f.Fuzz(func(t *testing.T, p string) {
		if strings.Contains(p, "\x00") || fold(strings.ToUpper(p)) != fold(p) {
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
