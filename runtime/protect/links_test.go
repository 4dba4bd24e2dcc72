package protect

import (
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"agentjail.dev/tests/env"
)

// TestLinks: a link in place of a part of a protected path is held, and what it leads to is treated
// as the path.
func TestLinks(t *testing.T) {
	type want struct{ readOnly, placeholder, outside, unheld string }
	git := repository(".git")
	for _, c := range []struct {
		name string
		tree []string
		want want
	}{
		{
			"a directory of settings, which is there",
			[]string{".claude -> .agents", ".agents/settings.json", ".agents/skills/x"},
			want{readOnly: ".agents .claude"},
		},
		{
			"another one, with and without settings",
			[]string{".claude -> ai/claude", "ai/claude/settings.json"},
			want{".claude ai/claude/settings.json", "", "", ""},
		}, // the rest with absent paths, in TestAbsent
		{
			"one that is not there",
			[]string{".claude -> ai/claude"},
			want{
				".claude", "ai/claude/agents ai/claude/bin ai/claude/commands ai/claude/hooks ai/claude/keybindings.json ai/claude/local ai/claude/mcp.json " +
					"ai/claude/output-styles ai/claude/plugins ai/claude/rules ai/claude/scheduled-tasks ai/claude/settings.json ai/claude/settings.local.json " +
					"ai/claude/skills ai/claude/workflows", "", "",
			},
		},
		{
			"targets that are not there",
			[]string{".vscode -> missing", ".mcp.json -> x/missing.json", ".husky -> .config/husky", ".cursor -> nowhere"},
			want{".cursor .husky .mcp.json .vscode", ".config/husky missing nowhere x/missing.json", "", ""},
		},
		{"a file in a directory", []string{".claude/settings.json -> ../missing.json"}, want{".claude/settings.json", "missing.json", "", ""}},
		{"not at the top", []string{"sub/.claude -> ../ai", "ai/settings.json"}, want{"ai/settings.json sub/.claude", "", "", ""}},
		{"a chain", []string{".vscode -> a", "a -> b/c", "b -> d", "d/c/tasks.json"}, want{".vscode a b d/c", "", "", ""}},
		{"a chain that ends nowhere", []string{".vscode -> a", "a -> b/../c/d"}, want{".vscode a", "b c/d", "", ""}},
		{"a circle", []string{".vscode -> .idea", ".idea -> .vscode"}, want{".idea .vscode", "", "", ""}},
		{"an absolute one into the tree", []string{".vscode -> SOURCE/x/../y", "x/"}, want{".vscode", "y", "", ""}},
		{"out of the tree and in again", []string{".vscode -> ../BASE/y"}, want{".vscode", "y", "", ""}},
		{"out of the tree", []string{".vscode -> /opt/vscode", ".idea -> ../../../../../../../../../../../../.."}, want{".idea .vscode", "", "/ /opt/vscode", ""}},
		{"a file in place of a directory", []string{".claude=x"}, want{".claude", "", "", ""}},
		{"a git directory", append(repository("real"), ".git -> real"), want{".git real/hooks", "real/commondir real/config.worktree real/info/attributes", "", ""}},
		{"a git directory that is not there", []string{".git -> real"}, want{".git", "real", "", ""}},
		{"a file that leads to one that is not there", []string{".git=gitdir: a/real\n"}, want{".git", "a/real", "", ""}},
		{"a file that leads by a link", append(repository("real"), ".git=gitdir: l\n", "l -> real"), want{".git l real/hooks", "real/commondir real/config.worktree real/info/attributes", "", ""}},
		{
			"git's hooks", append(slices.Clip(slices.DeleteFunc(slices.Clone(git), func(n string) bool { return n == ".git/hooks/" })), ".git/hooks -> ../tools/hooks"),
			want{".git/hooks", "tools/hooks .git/commondir .git/config.worktree .git/info/attributes", "", ""},
		},
		{
			"a hook", append(slices.Clone(git), ".git/hooks/pre-commit -> ../../tools/pre-commit", ".git/hooks/post-commit -> ../../missing", "tools/pre-commit"),
			want{".git/hooks tools/pre-commit", "missing .git/commondir .git/config.worktree .git/info/attributes", "", ""},
		},
		{"git's attributes", append(slices.Clone(git), ".git/info/attributes -> ../../attributes"), want{".git/hooks .git/info/attributes", "attributes .git/commondir .git/config.worktree", "", ""}},
		{
			"in a protected directory, to what it lies in",
			[]string{"a/.vscode/up -> ..", "a/.vscode/top -> ../..", "a/.vscode/tasks.json -> ../tasks.json", "a/.vscode/modules -> ../node_modules", "a/node_modules/x"},
			want{"a/.vscode", "a/tasks.json", "", "a/.vscode/modules a/.vscode/top a/.vscode/up"},
		},
		{
			"a common directory", append(repository("common"), ".git/HEAD=ref", ".git/commondir=../common\n"),
			want{".git/commondir common/hooks", ".git/config.worktree common/commondir common/config.worktree common/info/attributes", "", ""},
		},
		{"a common directory that is not there", []string{".git/HEAD=ref", ".git/commondir=../common\n"}, want{".git/commondir", ".git/config .git/config.worktree .git/hooks .git/info/attributes common", "", ""}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, _ := plant(t)
			fill := strings.NewReplacer("SOURCE", dir, "BASE", path.Base(dir))
			for i := range c.tree {
				c.tree[i] = fill.Replace(c.tree[i])
			}
			root := plantIn(t, dir, c.tree...)
			f, err := Search(root, Options{Source: dir, Protect: true})
			if err != nil {
				t.Fatal(err)
			}
			var outside []string
			for _, d := range f.Outside {
				outside = append(outside, d.Path)
			}
			slices.Sort(outside)
			got := want{f.text(ReadOnly), sorted(f.text(Placeholder)), strings.Join(slices.Compact(outside), " "), strings.Join(f.Unheld, " ")}
			c.want.placeholder, c.want.outside = sorted(c.want.placeholder), sorted(c.want.outside)
			if got != c.want {
				t.Errorf("got  %+v\nwant %+v", got, c.want)
			}
		})
	}
}

func sorted(words string) string {
	list := strings.Fields(words)
	slices.Sort(list)
	return strings.Join(list, " ")
}

// TestOtherNames: a link leads into the tree by whatever name of the host the tree has.
func TestOtherNames(t *testing.T) {
	dir, _ := plant(t)
	host := t.TempDir()
	plantIn(t, dir, "sub/deep/", "in -> sub")
	links := map[string]string{"up": dir + "/in", "far": host + "/up"}
	for name, to := range links {
		env.Check(t, os.Symlink(to, host+"/"+name))
	}
	names := map[string]string{
		dir + "/in/deep/x": "sub/deep/x", host + "/up/deep/x": "sub/deep/x", host + "/far/deep/../x": "sub/x", "/proc/self/cwd/in/x": "sub/x",
		"/proc/1/root" + dir + "/in/x": "sub/x", "/proc/thread-self/cwd/x": "x", "/proc/self/root" + host + "/up/x": "sub/x",
	}
	if os.Geteuid() == 0 {
		for name, from := range map[string]string{"all": dir, "part": dir + "/sub", "above": path.Dir(dir)} {
			env.Check(t, os.Mkdir(host+"/"+name, 0o755))
			env.Check(t, unix.Mount(from, host+"/"+name, "", unix.MS_BIND, ""))
			t.Cleanup(func() { _ = unix.Unmount(host+"/"+name, unix.MNT_DETACH) })
		}
		names[host+"/all/in/x"], names[host+"/part/deep/x"], names[host+"/above/"+path.Base(dir)+"/in/x"] = "sub/x", "sub/deep/x", "sub/x"
	}
	for name, end := range names {
		root := plantIn(t, dir, ".husky -> "+name)
		f, err := Search(root, Options{Source: dir, Protect: true})
		env.Check(t, err)
		env.Check(t, os.Remove(dir+"/.husky"))
		if got := f.text(Placeholder); got != end {
			t.Errorf("%s leads to %q, not %q: %+v", name, got, end, f)
		}
		if held := strings.Contains(" "+f.text(ReadOnly)+" ", " in "); held != (strings.Contains(name, "/in/") || strings.Contains(name, "/up/") || strings.Contains(name, "/far/")) {
			t.Errorf("%s: %s", name, f.text(ReadOnly))
		}
	}
}
