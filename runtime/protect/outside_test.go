package protect

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// outsideSettings are settings that have git run a file "tools/x" of the work tree's part "PART", and that
// file. The part ends with a slash, or is "".
var outsideSettings = []string{
	"[core]\n\thooksPath = PARTtools/x\n",
	"[core]\n\tfsmonitor = ./PARTtools/x\n",
	"[core]\n\tsshCommand = sh PARTtools/x\n",
	"[alias]\n\tst = !PARTtools/x\n",
	"[diff]\n\texternal = PARTtools/x\n",
	"[filter \"f\"]\n\tclean = \"PARTtools/x %f\"\n",
	"[include]\n\tpath = MOUNT/tools/x\n",
	"[includeIf \"gitdir:/nowhere/\"]\n\tpath = MOUNT/tools/x\n",
	"[core]\n\thooksPath = MOUNT/tools/x\n",
	"[core]\n\tattributesFile = MOUNT/tools/x\n",
}

// outsides are ways in which the settings of a directory lie outside of it. "CONFIG" stands in a
// place for the settings, and MOUNT for the directory.
var outsides = []struct {
	name, mount, part string
	at                string // where the files are in the mount; it ends with a slash
	tree              []string
	o                 Options // with paths below the top
}{
	{name: "the user's", mount: "p", tree: []string{"p/.git/HEAD=ref: refs/heads/x", "home/.gitconfig=CONFIG"}, o: Options{Own: []string{"home"}}},
	{name: "the user's XDG file, included", mount: "p", tree: []string{"p/.git/HEAD=ref: refs/heads/x", "home/.config/git/config=[include]\n\tpath = ../x/y", "home/.config/x/y=CONFIG"}, o: Options{Own: []string{"home"}}},
	{name: "the user's, of the repository around", mount: "p/sub", part: "sub/", tree: []string{"p/.git/HEAD=ref: refs/heads/x", "p/.git/objects/", "p/.git/refs/", "home/.gitconfig=CONFIG"}, o: Options{Own: []string{"home"}}},
	{name: "around", mount: "p/sub", part: "sub/", tree: []string{"p/.git/HEAD=ref: refs/heads/x", "p/.git/objects/", "p/.git/refs/", "p/.git/config=CONFIG"}},
	{name: "far around", mount: "p/a/b/c", part: "a/b/c/", tree: []string{"p/.git/HEAD=ref: refs/heads/x", "p/.git/objects/", "p/.git/refs/", "p/.git/config=CONFIG", "p/a/.git/HEAD=ref: refs/heads/x", "p/a/.git/objects/", "p/a/.git/refs/"}},
	{name: "around, by a file", mount: "p/sub", part: "sub/", tree: []string{"p/.git=gitdir: ../g\n", "g/HEAD=ref: refs/heads/x", "g/objects/", "g/refs/", "g/config=CONFIG"}},
	{name: "around, by a link", mount: "p/sub", part: "sub/", tree: []string{"p/.git -> ../g", "g/HEAD=ref: refs/heads/x", "g/objects/", "g/refs/", "g/config=CONFIG"}},
	{name: "around, a linked work tree", mount: "p/sub", part: "sub/", tree: []string{"p/.git=gitdir: ../m/.git/worktrees/p\n", "m/.git/HEAD=ref: refs/heads/x", "m/.git/objects/", "m/.git/refs/", "m/.git/config=CONFIG", "m/.git/worktrees/p/HEAD=ref: refs/heads/y", "m/.git/worktrees/p/commondir=../.."}},
	{name: "a linked work tree", mount: "p", tree: []string{"p/.git=gitdir: ../m/.git/worktrees/p\n", "m/.git/HEAD=ref: refs/heads/x", "m/.git/objects/", "m/.git/refs/", "m/.git/config=CONFIG", "m/.git/worktrees/p/HEAD=ref: refs/heads/y", "m/.git/worktrees/p/commondir=../.."}},
	{name: "a linked work tree's own", mount: "p", tree: []string{"p/.git=gitdir: ../m/.git/worktrees/p\n", "m/.git/HEAD=ref: refs/heads/x", "m/.git/objects/", "m/.git/refs/", "m/.git/worktrees/p/config.worktree=CONFIG", "m/.git/worktrees/p/HEAD=ref: refs/heads/y", "m/.git/worktrees/p/commondir=../.."}},
	{name: "a nested linked work tree", mount: "t", at: "a/p/", tree: []string{"t/a/p/.git=gitdir: ../../../m/.git/worktrees/p\n", "m/.git/HEAD=ref: refs/heads/x", "m/.git/objects/", "m/.git/refs/", "m/.git/config=CONFIG", "m/.git/worktrees/p/HEAD=ref: refs/heads/y", "m/.git/worktrees/p/commondir=../.."}},
	{name: "included by a link's name", mount: "p", tree: []string{"p/.git/HEAD=ref: refs/heads/x", "home/.gitconfig -> dots/conf", "home/dots/conf=[include]\n\tpath = more\n", "home/more=CONFIG"}, o: Options{Own: []string{"home"}}},
	{name: "a separate git directory", mount: "p", tree: []string{"p/.git=gitdir: ../g\n", "g/HEAD=ref: refs/heads/x", "g/objects/", "g/refs/", "g/config=CONFIG"}},
	{name: "a linked git directory", mount: "p", tree: []string{"p/.git -> ../g", "g/HEAD=ref: refs/heads/x", "g/objects/", "g/refs/", "g/config=CONFIG"}},
	{name: "a linked file", mount: "p", tree: []string{"p/.git -> ../f", "f=gitdir: ../g\n", "g/HEAD=ref: refs/heads/x", "g/objects/", "g/refs/", "g/config=CONFIG"}},
	{name: "a submodule", mount: "s/p", tree: []string{"s/p/.git=gitdir: ../.git/modules/p\n", "s/.git/HEAD=ref: refs/heads/x", "s/.git/objects/", "s/.git/refs/", "s/.git/modules/p/HEAD=ref: refs/heads/x", "s/.git/modules/p/objects/", "s/.git/modules/p/refs/", "s/.git/modules/p/config=CONFIG[core]\n\tworktree = ../../../p\n"}},
	{name: "the repository around a submodule", mount: "s/p", part: "p/", tree: []string{"s/p/.git=gitdir: ../.git/modules/p\n", "s/.git/HEAD=ref: refs/heads/x", "s/.git/objects/", "s/.git/refs/", "s/.git/config=CONFIG", "s/.git/modules/p/HEAD=ref: refs/heads/x", "s/.git/modules/p/objects/", "s/.git/modules/p/refs/"}},
	{name: "a shared directory elsewhere", mount: "p", tree: []string{"p/.git/HEAD=ref: refs/heads/x", "p/.git/commondir=../../g\n", "g/objects/", "g/refs/", "g/config=CONFIG"}},
	{name: "the git directory itself", mount: "r/.git", part: ".git/", tree: []string{"r/.git/HEAD=ref: refs/heads/x", "r/.git/objects/", "r/.git/refs/", "r/.git/config=CONFIG"}},
	{name: "mounted from elsewhere", mount: "alias", part: "sub/", tree: []string{"alias/", "p/.git/HEAD=ref: refs/heads/x", "p/.git/objects/", "p/.git/refs/", "p/.git/config=CONFIG", "p/sub/"}, o: Options{Names: []string{"p/sub"}}},
}

// TestOutside: settings outside the directory that name files in it are read wherever git reads them.
func TestOutside(t *testing.T) {
	for _, c := range outsides {
		for _, there := range []bool{false, true} {
			for _, n := range outsideSettings {
				top, _ := plant(t)
				mount := filepath.Join(top, c.mount)
				named := filepath.Join(mount, c.at)
				for _, name := range c.o.Names {
					named = filepath.Join(top, name)
				}
				config := strings.NewReplacer("PART", c.part, "MOUNT", named).Replace(n)
				var tree []string
				for _, name := range c.tree {
					tree = append(tree, strings.ReplaceAll(name, "CONFIG", config))
				}
				if there {
					tree = append(tree, c.mount+"/"+c.at+"tools/x")
				}
				plantIn(t, top, append(tree, c.mount+"/file")...)
				root, err := os.Open(mount)
				if err != nil {
					t.Fatal(err)
				}
				o := Options{Source: mount, Protect: true, Unprotect: leaveRest}
				if len(c.o.Names) > 0 {
					o.Names = []string{named}
				}
				for _, home := range c.o.Own {
					o.Settings = append(o.Settings, filepath.Join(top, home, ".gitconfig"), filepath.Join(top, home, ".config/git/config"))
				}
				f, err := Search(root, o)
				root.Close()
				if err != nil || !f.Keeps(c.at+"tools/x") {
					t.Errorf("%s, there %v: %q: protected are %v, %v", c.name, there, config, f, err)
				}
			}
		}
	}
}

// TestOutsideLinks: hooks and settings of a repository around that are links into the directory.
func TestOutsideLinks(t *testing.T) {
	for _, link := range []string{"hooks/pre-commit -> ../../sub/x", "hooks -> ../sub/x", "config -> ../sub/x", "info/attributes -> ../../sub/x", "commondir -> ../sub/x"} {
		top, _ := plant(t)
		plantIn(t, top, ".git/HEAD=ref: refs/heads/x", ".git/objects/", ".git/refs/", ".git/"+link, "sub/y")
		if !strings.HasPrefix(link, "commondir") {
			plantIn(t, top, ".git/config=[core]\n\thooksPath = h\n", "h/post-commit -> ../sub/z")
		}
		root, err := os.Open(top + "/sub")
		if err != nil {
			t.Fatal(err)
		}
		f, err := Search(root, Options{Source: top + "/sub", Protect: true})
		root.Close()
		if err != nil || !f.Keeps("x") || !strings.HasPrefix(link, "c") && !f.Keeps("z") {
			t.Errorf("%s: protected are %v, %v", link, f, err)
		}
	}
}

// TestWorkTreeElsewhere: a git directory in one mounted directory has its work tree in another.
func TestWorkTreeElsewhere(t *testing.T) {
	for _, tree := range [][]string{
		{"one/g/config=[core]\n\tworktree = ../../two\n\tfsmonitor = ./x\n"},
		{"one/g/config=[core]\n\tfsmonitor = ./x\n", "one/g/worktrees/w/gitdir=TOP/two/.git\n", "one/g/worktrees/w/commondir=../..\n"},
	} {
		top, _ := plant(t)
		for _, name := range append(tree, "one/g/HEAD=ref: refs/heads/x", "one/g/objects/", "one/g/refs/", "two/y") {
			plantIn(t, top, strings.ReplaceAll(name, "TOP", top))
		}
		root, err := os.Open(top + "/one")
		if err != nil {
			t.Fatal(err)
		}
		f, err := Search(root, Options{Source: top + "/one", Protect: true})
		root.Close()
		if err != nil || !slices.ContainsFunc(f.Outside, func(d Demand) bool { return d.Path == top+"/two/x" }) {
			t.Errorf("%v: it leads to %v, %v", tree, f, err)
		}
	}
}

// TestOutsideOfOthers: files of others stop no start and have no effect.
func TestOutsideOfOthers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: it makes another user's files")
	}
	many := strings.Repeat("#", maxCopy)
	for _, owner := range []int{0, 12345} {
		for _, text := range []string{"[core]\n\thooksPath = sub/x\n", many, ""} {
			top, _ := plant(t)
			plantIn(t, top, "p/.git/HEAD=ref: refs/heads/x", "p/.git/objects/", "p/.git/refs/", "p/.git/config=[core]\n\thooksPath = sub/x\n"+text, "p/sub/y")
			for _, name := range []string{"p", "p/.git", "p/.git/config"} {
				if err := os.Chown(filepath.Join(top, name), owner, owner); err != nil {
					t.Fatal(err)
				}
			}
			root, err := os.Open(top + "/p/sub")
			if err != nil {
				t.Fatal(err)
			}
			f, err := Search(root, Options{Source: top + "/p/sub", Protect: true})
			root.Close()
			got := fmt.Sprint(err != nil)
			if err == nil {
				got = fmt.Sprint(f.Keeps("x"))
			}
			want := fmt.Sprint(owner == 0) // protected, or refused for its length
			if got != want || (err != nil) != (owner == 0 && text == many) {
				t.Errorf("of %d, %d bytes: %v, %v", owner, len(text), got, err)
			}
			// A reader's file counts wherever it lies.
			root, err = os.Open(top + "/p/sub")
			if err != nil {
				t.Fatal(err)
			}
			f, err = Search(root, Options{Source: top + "/p/sub", Protect: true, Readers: []uint32{12345}})
			root.Close()
			if text != many && (err != nil || !f.Keeps("x")) {
				t.Errorf("of %d, who may run git there: %v", owner, err)
			}
		}
	}
}
