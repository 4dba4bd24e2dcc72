package protect

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestOwned: where the mounted directory is an agent's own, whatever it is called by, its settings and programs are kept, absent or not, and its
// data is not.
func TestOwned(t *testing.T) {
	for _, c := range []struct {
		name   string
		source string // below the test's directory
		set    func(o *Options, top string)
		kept   string
	}{
		{"in a home", "u/.claude", nil, "settings.json read-only,settings.local.json placeholder,hooks placeholder,agents placeholder,skills read-only,plugins placeholder,local placeholder"},
		{"in capitals", "u/.Claude", nil, "settings.local.json placeholder,skills read-only"},
		{"of two parts", "u/.local/share/opencode", nil, "bin placeholder,plugins placeholder"},
		{"a tool's", "u/.m2", nil, "settings.xml placeholder,extensions.xml placeholder,wrapper placeholder"},
		{"another name, that mounts show", "c", func(o *Options, top string) { o.Names = []string{top + "/u/.codex"} }, "config.toml placeholder,hooks.json placeholder,skills read-only"},
		{"a home's link leads to it", "dot/gemini", func(o *Options, top string) {
			o.Own = []string{top + "/u"}
			if err := os.MkdirAll(top+"/u", 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink("../dot/gemini", top+"/u/.gemini"); err != nil {
				t.Fatal(err)
			}
		}, "settings.json read-only,extensions placeholder,skills read-only"},
		{"no such directory", "u/claude", nil, ""},
		{"not of the table's", "u/.claudette", nil, ""},
		{"left to jails", "u/.claude", func(o *Options, _ string) { o.Unprotect = []string{".claude"} }, ""},
		{"one left to jails", "u/.claude", func(o *Options, _ string) { o.Unprotect = []string{".claude/hooks"} }, "plugins placeholder"},
		{"without absent ones", "u/.claude", func(o *Options, _ string) { o.Absent = false }, "settings.json read-only"},
	} {
		t.Run(c.name, func(t *testing.T) {
			top, err := filepath.EvalSymlinks(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			dir := filepath.Join(top, c.source)
			root := plantIn(t, dir, "settings.json=x", "skills/a/run.sh", "projects/p/s.jsonl", "sessions/1", "repository/a.jar", "history.jsonl")
			o := Options{Source: dir, Protect: true, Absent: true}
			if c.set != nil {
				c.set(&o, top)
			}
			f, err := Search(root, o)
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]string{}
			for _, p := range f.Paths {
				got[p.Rel] = string(p.Treatment)
				if file := strings.Contains(p.Rel, "."); p.Treatment == Placeholder && p.Dir == file && strings.Contains(c.kept, p.Rel+" ") {
					t.Errorf("%+v is not of the type that the agent reads", p)
				}
			}
			for want := range strings.SplitSeq(c.kept, ",") {
				if rel, how, _ := strings.Cut(want, " "); got[rel] != how {
					t.Errorf("%s: %q, not %q", rel, got[rel], how)
				}
			}
			if c.kept == "" && (got["settings.json"] != "" || got["hooks"] != "") || c.name == "one left to jails" && got["hooks"] != "" || c.name == "without absent ones" && got["hooks"] != "" {
				t.Errorf("kept: %v", got)
			}
			for _, data := range []string{"projects", "sessions", "repository", "history.jsonl"} {
				if f.Keeps(data) {
					t.Errorf("%s is kept", data)
				}
			}
		})
	}
}

// TestOwnedInHome: in a home, absent paths of an agent's own directory are kept where that is there.
func TestOwnedInHome(t *testing.T) {
	dir, root := plant(t, ".bashrc", ".claude/projects/a", ".local/share/goose/sessions/a")
	f, err := Search(root, Options{Source: dir, Protect: true, Absent: true})
	if err != nil {
		t.Fatal(err)
	}
	for rel, want := range map[string]bool{
		".claude/plugins": true, ".claude/settings.json": true, ".local/share/goose/recipes": true, ".codex/config.toml": true, ".m2/settings.xml": false,
		".local/share/crush/bin": false, ".claude/projects": false,
	} {
		if f.Keeps(rel) != want {
			t.Errorf("%s: kept %v", rel, !want)
		}
	}
}

// TestWithinOwn: a mount of an agent's own directory in a home holds data, one of a project's does not.
func TestWithinOwn(t *testing.T) {
	for _, c := range []struct{ path, home, want string }{
		{"/home/u/.codex", "/home/u", ""},
		{"/home/u/.codex/sessions/1", "/home/u", ""},
		{"/home/u/.codex/skills/x", "/home/u", "/home/u/.codex/skills"},
		{"/home/u/.local/share/opencode/bin", "/home/u", "/home/u/.local/share/opencode/bin"},
		{"/home/u/p/.codex", "/home/u", "/home/u/p/.codex"},
		{"/srv/p/.codex", "", "/srv/p/.codex"},
		{"/home/u/.config/opencode/plugins", "/home/u", "/home/u/.config/opencode"},
		{"/home/u/.claude.json", "/home/u", "/home/u/.claude.json"},
	} {
		_, at := Within(c.path, c.home, nil)
		if at != c.want {
			t.Errorf("%s: %q, not %q", c.path, at, c.want)
		}
	}
}
