package protect

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"agentjail.dev/runtime/refusal"
)

// leave has the rest of a repository left to jails.
var leaveRest = []string{".git/commondir", ".git/config.worktree", ".git/info", ".git/hooks"}

// named is what a repository's config has protected in a tree.
func named(t *testing.T, config string, o Options, tree ...string) (there, absent string) {
	t.Helper()
	dir, _ := plant(t)
	root := plantIn(t, dir, append([]string{".git/HEAD=ref"}, tree...)...)
	config = strings.ReplaceAll(config, "SOURCE", dir)
	if err := os.WriteFile(filepath.Join(dir, ".git/config"), []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	o.Source, o.Protect, o.Unprotect = dir, true, append(o.Unprotect, leaveRest...)
	for name, home := range o.Homes {
		o.Homes[name] = strings.ReplaceAll(home, "SOURCE", dir)
	}
	f, err := Search(root, o)
	if err != nil {
		t.Fatal(err)
	}
	return f.text(ReadOnly), f.text(Placeholder)
}

// TestGitSettings: what each setting of the table names is protected, absent or not.
func TestGitSettings(t *testing.T) {
	for _, g := range gitSettings {
		name := strings.ReplaceAll(g.name, "*", "X")
		if g.name[0] == '*' {
			name = "unknown.x" + g.name[1:]
		}
		if strings.HasPrefix(g.name, "lfs.") {
			name = strings.ReplaceAll(g.name, "*", "x")
		}
		i, j := strings.Index(name, "."), strings.LastIndex(name, ".")
		section, value := name[:i], "./tools/x.sh"
		if i != j {
			section += fmt.Sprintf(" %q", name[i+1:j])
		}
		switch g.what {
		case shellAlias:
			value = "!./tools/x.sh"
		case external:
			value = "ext::./tools/x.sh %S"
		case included:
			value = "../tools/x.sh"
		}
		config := fmt.Sprintf("[%s]\n\t%s = %s\n", section, strings.ToUpper(name[j+1:]), value)
		want := "tools/x.sh"
		if there, absent := named(t, config, Options{}, "tools/x.sh"); there != want || absent != "" {
			t.Errorf("%s: there %q, absent %q", config, there, absent)
		}
		if there, absent := named(t, config, Options{}); there != "" || absent != want {
			t.Errorf("%s: it is not there: there %q, absent %q", config, there, absent)
		}
	}
}

// TestNamed: paths as git takes them.
func TestNamed(t *testing.T) {
	tree := []string{"a/run", "a/b/hooks/", "README.md", "tool.py", "my tools/x", "g/conf=[core]\n\thooksPath = a/h\n\tpager = ./p\n[include]\n\tpath = more\n", "g/more=[diff]\n\texternal=./d\n", "src/x"}
	homes := Options{Homes: map[string]string{"me": "SOURCE/g", "you": "/home/you"}}
	for _, c := range []struct {
		config        string
		there, absent string
	}{
		{"[core]\n\thooksPath = a/b/hooks\n", "a/b/hooks", ""},
		{"[core]\n\thooksPath = \"a/b/h\"\\\n\"ooks\" # x\n", "a/b/hooks", ""},
		{"[core]\n\thooksPath = SOURCE/.gh\n", "", ".gh"},
		{"[core]\n\thooksPath = /dev/null\n", "", ""},
		{"[CORE]\n\tHooksPath = .gh\n", "", ".gh"},
		{"[core]\n\tfsmonitor = true\n", "", ""},
		{"[core]\n\teditor = vim\n\tpager = less -R\n\tsshCommand = ssh -i ~/.ssh/id -o X=y\n", "", ""},
		{"[core]\n\tsshCommand = ssh -F ./ssh.conf -o ProxyCommand='./a/run %h'\n", "a/run", "ssh.conf"},
		{"[core]\n\tsshCommand = \"sh -c 'exec ./a/run; ./later'\"\n", "a/run", "later"},
		{"[alias]\n\tx = log --oneline\n\ty = \"!git log README.md src | sed s/a/b/\"\n", "", ""},
		{"[alias]\n\tx = \"!f() { X=1 a/run \\\"$@\\\"; }; f\"\n", "a/run", ""},
		{"[alias]\n\tx = !python3 tool.py src\n", "tool.py", ""},
		{"[alias]\n\tx = !python3 other.py src\n", "", "other.py"},
		{"[alias]\n\tx = !bash -x tools/later\n", "", ""},
		{"[filter \"e\"]\n\tclean = \"'my tools/x' %f\"\n", "my tools/x", ""},
		{"[filter \"e\"]\n\tclean = git-lfs clean -- %f\n\tsmudge = git-lfs smudge -- %f\n\tprocess = git-lfs filter-process\n", "", ""},
		{"[credential]\n\thelper = store --file ~/.creds\n[credential \"https://x\"]\n\thelper = !/usr/bin/gh auth git-credential\n", "", ""},
		{"[include]\n\tpath = ../g/conf\n", "g/conf g/more", "a/h d p"},
		{"[includeIf \"gitdir:/nowhere/\"]\n\tpath = ../g/none\n", "", "g/none"},
		{"[include]\n\tpath = ~/conf\n", "g/conf g/more", "a/h d p"},
		{"[include]\n\tpath = ~me/none\n\tpath = ~you/none\n", "", "g/none"},
		{"[include]\n\tpath = config\n\tpath = ../.git/config\n", "", ""},
		{"[url \"ext::./a/run \"]\n\tinsteadOf = x:\n[remote \"o\"]\n\turl = ../other\n", "a/run", ""},
		{"[core]\n\tworktree = ../g\n[diff]\n\texternal = ./d\n", "", "d g/d"},
		{"[user]\n\tname = ./a/run\n[remote \"o\"]\n\tfetch = +refs/heads/*:refs/remotes/o/*\n", "", ""},
	} {
		there, absent := named(t, c.config, homes, tree...)
		if there != c.there || absent != c.absent {
			t.Errorf("%s: there %q, absent %q, want %q and %q", c.config, there, absent, c.there, c.absent)
		}
		homes.Homes["me"] = "SOURCE/g"
	}
}

// TestOwnersSettings: what a user's own settings name in a repository is protected, and what those
// include of the owner's.
func TestOwnersSettings(t *testing.T) {
	home, _ := plant(t, ".gitconfig=[core]\n\thooksPath = .githooks\n[includeIf \"gitdir:~/work/\"]\n\tpath = more/conf\n[include]\n\tpath = /etc/hosts\n",
		"more/conf=[diff]\n\texternal = ./d\n[include]\n\tpath = conf\n", "work/.git/HEAD=ref", "work/lib/.git/HEAD=ref", "work/.git/config=[include]\n\tpath = ../../more/of/other\n", "more/of/other=[core]\n\tpager = ./p\n")
	dir := filepath.Join(home, "work")
	root, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	settings := []string{home + "/.gitconfig", home + "/.config/git/config"}
	f, err := Search(root, Options{Source: dir, Protect: true, Settings: settings, Own: []string{home}, Unprotect: leaveRest})
	if got, want := f.text(Placeholder), ".githooks d lib/.git/config lib/.githooks lib/d p"; err != nil || got != want {
		t.Errorf("%q, want %q, %v", got, want, err)
	}
	// Another's file is not read.
	if os.Geteuid() == 0 {
		for _, name := range []string{"more/of", "more/of/other"} {
			if err := os.Chown(filepath.Join(home, name), 12345, 12345); err != nil {
				t.Fatal(err)
			}
		}
		if f, err = Search(root, Options{Source: dir, Protect: true}); err != nil || f.Keeps("p") {
			t.Errorf("%q, %v", f.text(Placeholder), err)
		}
	}
}

// TestNamedWhereItRuns: what is relative to a work tree is looked for in each one that takes the
// settings.
func TestNamedWhereItRuns(t *testing.T) {
	config := "config=[core]\n\thooksPath = h\n"
	dir, root := plant(t, ".git/HEAD=ref", ".git/"+config, ".git/modules/lib/HEAD=ref", ".git/modules/lib/config=[core]\n\tworktree = ../../../lib\n\thooksPath = h\n",
		"lib/.git=gitdir: ../.git/modules/lib\n", ".git/worktrees/w/HEAD=ref", ".git/worktrees/w/commondir=../..\n", ".git/worktrees/w/gitdir=../../../tree/.git\n",
		"tree/.git=gitdir: ../.git/worktrees/w\n", "bare/HEAD=ref", "bare/objects/", "bare/refs/", "bare/"+config)
	f, err := Search(root, Options{Source: dir, Protect: true, Unprotect: leaveRest})
	if got, want := f.text(Placeholder), "bare/h h lib/h tree/h"; err != nil || got != want {
		t.Errorf("%q, want %q, %v", got, want, err)
	}
}

// TestGitRuns: git runs what the settings name from where the search looks for it. Each line makes
// it run ./t, which leaves a file beside itself.
func TestGitRuns(t *testing.T) {
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("no git on this machine")
	}
	for _, c := range []struct{ set, do string }{
		{"core.fsmonitor ./t", "git status"},
		{"diff.external ./t", "git diff"},
		{"alias.x !./t", "git x"},
		{"core.editor ./t", "git commit --allow-empty"},
		{"sequence.editor ./t", "git commit -qam b; git rebase -i HEAD~"},
		{"filter.e.clean ./t", "echo '* filter=e' >.gitattributes; git add ."},
		{"filter.e.process ./t", "echo '* filter=e' >.gitattributes; git add ."},
		{"diff.e.textconv ./t", "echo '* diff=e' >.gitattributes; git diff"},
		{"diff.e.command ./t", "echo '* diff=e' >.gitattributes; git diff"},
		{"core.sshCommand ./t", "git fetch ssh://localhost/x"},
		{"core.gitProxy ./t", "git fetch git://localhost/x"},
		{"credential.helper !./t", "printf 'protocol=https\\nhost=x\\n\\n' | GIT_TERMINAL_PROMPT=0 git credential fill"},
		{"gpg.program ./t", "git commit -S --allow-empty -m x"},
		{"gpg.ssh.program ./t", "git -c gpg.format=ssh -c user.signingKey=key::x commit -S --allow-empty -m x"},
		{"remote.o.uploadpack ./t", "git -c remote.o.url=. fetch o"},
		{"remote.o.receivepack ./t", "git -c remote.o.url=. push o HEAD:x"},
		{"trailer.x.command ./t", "echo a | git interpret-trailers --trailer x=y"},
		{"tar.x.command ./t", "git archive --format=x HEAD"},
		{"mergetool.x.cmd ./t", "git checkout -q -b o; echo 1 >f; git commit -qam 1; git checkout -q -b p HEAD~; echo 2 >f; git commit -qam 2; git merge o; git mergetool -y --tool=x"},
		{"difftool.x.cmd ./t", "git difftool -y --tool=x"},
		{"merge.e.driver ./t", "echo '* merge=e' >.git/info/attributes; git checkout -q -b o; echo 1 >f; git commit -qam 1; git checkout -q -b p HEAD~; echo 2 >f; git commit -qam 2; git merge o"},
		{"remote.o.url ext::./t", "git -c protocol.ext.allow=always fetch o"},
		{"core.alternateRefsCommand ./t", "git init -q --bare alt; echo $PWD/alt/objects >.git/objects/info/alternates; git -c remote.o.url=. fetch --refetch o || git fsck; git receive-pack . </dev/null"},
		{"core.hooksPath h", "mkdir -p h; mv t h/pre-commit; ln -s h/pre-commit t; git commit --allow-empty -m x"},
	} {
		key, value, _ := strings.Cut(c.set, " ")
		dir := t.TempDir()
		script := "git init -q . && echo a >f && git add f && git commit -qm a && echo b >f\n" +
			"printf '#!/bin/sh\\n: >\"$GIT_RUNS/ran\"\\n' >t; chmod +x t; mkdir sub\ngit config " + key + " '" + value + "'; cd .\n" + c.do + "\n"
		cmd := exec.Command("sh", "-c", script)
		cmd.Dir = dir
		cmd.Env = []string{"PATH=" + filepath.Dir(git) + ":/usr/bin:/bin", "HOME=" + dir, "GIT_RUNS=" + dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a"}
		out, _ := cmd.CombinedOutput()
		if _, err := os.Stat(filepath.Join(dir, "ran")); err != nil {
			t.Logf("%s: git did not run it by %q: %s", c.set, c.do, out)
			continue
		}
		root, err := os.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		f, err := Search(root, Options{Source: dir, Protect: true})
		root.Close()
		if err != nil || !f.Keeps("t") && !f.Keeps("h/pre-commit") {
			t.Errorf("%s: git runs it, and it is not kept from the jail: %v", c.set, err)
		}
	}
}

// TestSettingsTooLong: settings that are not read to their end refuse the start, unless policy
// leaves them to jails.
func TestSettingsTooLong(t *testing.T) {
	long := "[core]\n" + strings.Repeat("#", maxCopy) + "\n\thooksPath = .gh\n"
	wordy := "[core]\n\tpager = " + strings.Repeat("./x ", 1900) + "\n"
	var loop []string
	for i := range maxSettingFiles + 1 {
		loop = append(loop, fmt.Sprintf("c/%d=[include]\n\tpath = %d\n", i, i+1))
	}
	var all strings.Builder
	for i := range loop {
		fmt.Fprintf(&all, "[include]\n\tpath = ../c/%d\n", i)
	}
	for name, tree := range map[string][]string{
		"bytes": {".git/config=" + long}, "words": {".git/config=" + strings.Repeat(wordy, maxLookedUp/1900+1)}, "files": append(loop, ".git/config="+all.String()),
		"an included file": {".git/config=[include]\n\tpath = ../x\n", "x=" + long},
	} {
		dir, root := plant(t, append([]string{".git/HEAD=ref"}, tree...)...)
		o := Options{Source: dir, Protect: true}
		if _, err := Search(root, o); !errors.Is(err, refusal.Err) || !strings.Contains(err.Error(), "binds.unprotect") {
			t.Errorf("%s: %v", name, err)
		}
		o.Unprotect = []string{".git/config"}
		if _, err := Search(root, o); err != nil {
			t.Errorf("%s, left to jails: %v", name, err)
		}
	}
}

// FuzzCommandWords: no command stops the search.
func FuzzCommandWords(f *testing.F) {
	f.Add("sh -c 'exec ./a \"b c\"'; x=$(./y) | z")
	f.Fuzz(func(t *testing.T, line string) {
		words := commandWords(line)
		if len(words) > 3*maxWords {
			t.Errorf("%d words", len(words))
		}
		for _, w := range words {
			if len(w.path) > len(line) {
				t.Errorf("%q of %q", w.path, line)
			}
		}
	})
}
