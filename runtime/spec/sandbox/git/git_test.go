package git

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"agentjail.dev/runtime/refusal"
)

func TestJudge(t *testing.T) {
	for _, c := range []struct {
		line           string
		command        string
		refused, reads bool
	}{
		{"status", "status", false, true},
		{"", "", false, true},
		{"--version", "", false, true},
		{"-c color.ui=never diff --stat", "diff", false, true},
		{"--no-pager log -S word", "log", false, true},
		{"add -A", "add", false, false},
		{"commit -am x", "commit", false, false},
		{"commit -m -S", "commit", false, false},
		{"commit -mS", "commit", false, false},
		{"commit --message -S", "commit", false, false},
		{"commit -s -m x", "commit", false, false},
		{"commit -m x -- -S", "commit", false, false},
		{"commit -aS", "commit", true, false},
		{"commit -SKEY -m x", "commit", true, false},
		{"commit --gpg-sign=KEY", "commit", true, false},
		{"commit --gpg -m x", "commit", true, false},
		{"commit --message=x -S", "commit", true, false},
		{"tag v1", "tag", false, false},
		{"tag -m u v1", "tag", false, false},
		{"tag -s v1", "tag", true, false},
		{"tag -u KEY v1", "tag", true, false},
		{"rebase -s ours main", "rebase", false, false},
		{"rebase -S main", "rebase", true, false},
		{"push", "push", true, false},
		{"-c x.y=z push", "push", true, false},
		{"fetch --all", "fetch", true, false},
		{"pull", "pull", true, false},
		{"clone https://x.test/y", "clone", true, false},
		{"ls-remote", "ls-remote", true, false},
		{"credential fill", "credential", true, false},
		{"remote -v", "remote", false, true},
		{"remote show -n origin", "remote", false, true},
		{"remote update", "remote", true, true},
		{"remote show origin", "remote", true, true},
		{"archive HEAD", "archive", false, false},
		{"archive --remote=x HEAD", "archive", true, false},
		{"lfs push origin", "lfs", true, false},
		{"lfs ls-files", "lfs", false, false},
		{"--git-dir=/x status", "", true, false},
		{"--work-tree /x status", "", true, false},
		{"-C /x status", "", true, false},
		{"shortcut", "shortcut", false, false},
	} {
		got, err := Judge(strings.Fields(c.line))
		var why *refusal.Error
		if refused := errors.As(err, &why); refused != c.refused || refused && (why.Remedy == "" || why.Why == "") {
			t.Errorf("git %s: %v, want refused %v, with a remedy", c.line, err, c.refused)
		}
		if got.Command != c.command || got.Reads != c.reads {
			t.Errorf("git %s: %+v", c.line, got)
		}
	}
}

// TestCommandLists: a command of git's is in one list.
func TestCommandLists(t *testing.T) {
	all := slices.Concat(reading, writing, networked)
	slices.Sort(all)
	for i, name := range all[1:] {
		if name == all[i] {
			t.Errorf("%s is in two lists", name)
		}
	}
}

func TestEnvironment(t *testing.T) {
	reads := Call{Reads: true}.Environment("Ann", "a@x.test")
	if !slices.Contains(reads, "GIT_OPTIONAL_LOCKS=0") || !slices.Contains(reads, "GIT_AUTHOR_NAME=Ann") || !slices.Contains(reads, "GIT_COMMITTER_EMAIL=a@x.test") {
		t.Errorf("%q", reads)
	}
	for _, e := range (Call{}).Environment("", "") {
		if strings.HasPrefix(e, "GIT_OPTIONAL_LOCKS") || strings.HasPrefix(e, "GIT_AUTHOR") || strings.HasPrefix(e, "GIT_COMMITTER") {
			t.Errorf("%s is set", e)
		}
	}
}

// repositories makes a repository with a submodule and a further work tree, as git makes them, and what looks like them.
const repositories = `
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@x GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@x GIT_CONFIG_GLOBAL=/dev/null
git init -q lib; git -C lib commit -q --allow-empty -m one
git init -q -b main repo; cd repo; git commit -q --allow-empty -m one
git -c protocol.file.allow=always submodule --quiet add ../lib lib
git worktree add -q ../tree; mkdir -p deep/er; cd ..
git init -q --bare bare.git
git clone -q --shared repo shared
git init -q secret
mkdir plain stolen stolen2 linked borrowed
echo "gitdir: $PWD/secret/.git" >stolen/.git                   # another's git directory
echo "gitdir: $PWD/repo/.git/worktrees/tree" >stolen2/.git     # a work tree's, which names that one
ln -s ../secret/.git linked/.git
git init -q moved; echo "$PWD/secret/.git" >moved/.git/commondir
git init -q below; mkdir below/x; printf 'gitdir: ../.git\n' >below/x/.git   # within what is mounted already? it is not: x is
git init -q fifo; rm fifo/.git/config; mkdir fifotree; mkfifo fifo/.git/config; echo "gitdir: $PWD/fifo/.git" >fifotree/.git
`

func TestFind(t *testing.T) {
	program, err := exec.LookPath("git")
	if err != nil {
		t.Skip("no git on this machine")
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-ec", repositories)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	person, err := Caller(func(string) string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		dir, with, want string // want are directories; "" is a refusal
	}{
		{"repo", "", "repo"},
		{"repo/deep/er", "", "repo"},
		{"repo/lib", "", "repo/lib repo/.git/modules/lib"},
		{"tree", "", "tree repo/.git"},
		{"bare.git", "", "bare.git"},
		{"bare.git/refs", "", "bare.git"},
		{"shared", "", ""},
		{"shared", "repo/.git/objects", "shared repo/.git/objects"},
		{"stolen", "", ""},
		{"stolen", "secret/.git", "stolen secret/.git"},
		{"stolen2", "", ""},
		{"linked", "", ""},
		{"moved", "", ""},
		{"below/x", "", ""},
		{"fifotree", "", ""},
	} {
		var with []string
		if c.with != "" {
			with = []string{filepath.Join(dir, c.with)}
		}
		p, err := Find(filepath.Join(dir, c.dir), with, person.WorkTree(program))
		var why *refusal.Error
		switch {
		case c.want == "" && (!errors.As(err, &why) || !strings.Contains(why.Remedy, "--with")):
			t.Errorf("%s: %+v, %v; want a refusal that names --with", c.dir, p, err)
		case c.want == "":
		case err != nil:
			t.Errorf("%s: %v", c.dir, err)
		default:
			var got []string
			for _, d := range p.Dirs {
				rel, _ := filepath.Rel(dir, d)
				got = append(got, rel)
			}
			if strings.Join(got, " ") != c.want || p.Start != filepath.Join(dir, c.dir) {
				t.Errorf("%s: %q in %s, want %s", c.dir, got, p.Start, c.want)
			}
		}
	}
	if p, err := Find(filepath.Join(dir, "plain"), nil, person.WorkTree(program)); err == nil {
		t.Errorf("a directory without a repository: %+v", p)
	}
}

// TestPerson: the name is the person's own setting, included files among it; and signing that the person's settings demand is
// not left away in silence.
func TestPerson(t *testing.T) {
	program, err := exec.LookPath("git")
	if err != nil {
		t.Skip("no git on this machine")
	}
	home := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(home, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(".gitconfig", "[include]\n\tpath = me\n[commit]\n\tgpgSign = true\n")
	write("me", "[user]\n\tname = Ann\n\temail = ann@x.test\n")
	p := Person{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid()), Home: home}
	for _, c := range []struct {
		line    string
		refused bool
	}{{"status", false}, {"commit -m x", true}, {"commit --no-gpg-sign -m x", false}, {"tag v1", false}} {
		call, err := Judge(strings.Fields(c.line))
		if err != nil {
			t.Fatal(err)
		}
		name, mail, err := p.Signature(program, call)
		if errors.Is(err, refusal.Err) != c.refused || !c.refused && (name != "Ann" || mail != "ann@x.test") {
			t.Errorf("git %s: %q, %q, %v", c.line, name, mail, err)
		}
	}
	if name, mail, err := (Person{UID: p.UID, GID: p.GID, Home: t.TempDir()}).Signature(program, Call{}); err != nil || name != "" || mail != "" {
		t.Errorf("without settings: %q, %q, %v", name, mail, err)
	}
}
