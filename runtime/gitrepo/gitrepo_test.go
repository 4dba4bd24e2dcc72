package gitrepo_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/gitrepo"
	"agentjail.dev/runtime/kernel/pathname"
	"agentjail.dev/runtime/protect"
	"agentjail.dev/runtime/spec/sandbox/git"
	"agentjail.dev/runtime/workspace/review"
	"agentjail.dev/tests/env"
)

// heads are texts of HEAD, and whether git takes them for one; "-> " begins a link's target.
var heads = []struct {
	text string
	good bool
}{
	{"ref: refs/heads/main\n", true},
	{"ref:refs/heads/main", true},
	{"ref: \t\r\n refs/", true},
	{strings.Repeat("a", 40) + "\n", true},
	{strings.Repeat("0A", 32) + "\n", true},
	{strings.Repeat("b", 40) + "nonsense", true},
	{"-> refs/heads/main", true},
	{"-> refs/../good", true},
	{"ref: refs/heads/.invalid\n", true}, // reftable
	{"ref:" + strings.Repeat(" ", 246) + "refs/x", true},
	{"ref:" + strings.Repeat(" ", 247) + "refs/x", false},
	{"ref: heads/main\n", false},
	{"ref:\v refs/heads/main\n", false},
	{" ref: refs/heads/main\n", false},
	{strings.Repeat("a", 39), false},
	{"-> good", false}, // a file that would be one
	{"-> ./refs/heads/main", false},
	{"", false},
	{"none", false},
	{"dir", false},
}

// places are forms of objects and refs.
var places = []struct {
	form string
	good bool
}{
	{"dir", true},
	{"dir 0", true},
	{"program", true},
	{"-> ../d", true},
	{"-> ../program", true},
	{"-> ../../outside", true},
	{"-> ../l/d", true},
	{"-> @/d", true},
	{"file", false},
	{"none", false},
	{"-> ../none", false},
	{"-> ../file", false},
	{"-> objects", false},
}

// commons are texts of commondir, with "@" for the tree's path; those before the empty line lead to
// the directory c beside r.
var commons = []string{
	"../c\n", "../c", "../c\r\n\n\r\n", "@/c\n", "../l/c", "../r/../c/", "-> ../pointer", "../c" + strings.Repeat("\n", 5000), "../c\x00more\n",
	"",
	".", "..", "../none", "../file", "\n", "../c ", "dir", "-> ../none", "empty", "../l\n",
}

// tree makes a tree with a directory "r" that may be a repository.
func tree(t *testing.T, top string, r *rand.Rand) {
	t.Helper()
	put := func(at, form string) {
		at = filepath.Join(top, at)
		form = strings.ReplaceAll(form, "@", top)
		target, link := strings.CutPrefix(form, "-> ")
		switch {
		case form == "none":
		case form == "dir 0" && os.Geteuid() == 0: // root can open it
			env.Check(t, os.Mkdir(at, 0))
		case form == "dir", form == "dir 0":
			env.Check(t, os.Mkdir(at, 0o755))
		case form == "program":
			env.Check(t, os.WriteFile(at, nil, 0o700))
		case link:
			env.Check(t, os.Symlink(target, at))
		case form == "file", form == "empty":
			env.Check(t, os.WriteFile(at, nil, 0o600))
		default:
			env.Check(t, os.WriteFile(at, []byte(form), 0o600))
		}
	}
	for _, dir := range []string{"", "r", "c", "d", "refs"} {
		env.Check(t, os.Mkdir(filepath.Join(top, dir), 0o755))
	}
	put("program", "program")
	put("file", "file")
	put("pointer", "../c")
	put("l", "-> ../"+filepath.Base(top))
	put("r/good", "ref: refs/heads/main\n")
	// Most parts are good, so that a third of the trees are repositories.
	head := heads[r.IntN(len(heads))]
	for i := 0; i < 2 && !head.good; i++ {
		head = heads[r.IntN(len(heads))]
	}
	put("r/HEAD", head.text)
	in := "r"
	if common := r.IntN(2 * len(commons)); common < len(commons) && commons[common] != "" {
		put("r/commondir", commons[common])
		if r.IntN(4) > 0 {
			in = "c"
		}
	}
	for _, name := range []string{"objects", "refs"} {
		p := places[r.IntN(len(places))]
		for i := 0; i < 2 && !p.good; i++ {
			p = places[r.IntN(len(places))]
		}
		put(in+"/"+name, p.form)
	}
	put("r/description", "x")
	put("c/config", "[core]\n\tfsmonitor = ./x\n")
}

// gits returns which paths git takes for a git directory or a file that leads to one
// (git-rev-parse(1)). One process prints those before the first that is none.
func gits(t *testing.T, paths []string) (out []bool) {
	t.Helper()
	for len(out) < len(paths) {
		rest := paths[len(out):min(len(paths), len(out)+200)]
		args := []string{"rev-parse"}
		for _, p := range rest {
			args = append(args, "--resolve-git-dir", p)
		}
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir, cmd.Env = "/", []string{"HOME=/none", "GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C"}
		text, err := cmd.Output()
		good := strings.Count(string(text), "\n")
		if err == nil && good != len(rest) {
			t.Fatalf("%d of %d printed", good, len(rest))
		}
		out = append(out, slices.Repeat([]bool{true}, good)...)
		if good < len(rest) {
			out = append(out, false)
		}
	}
	return out
}

// trees is how many trees are compared.
const trees = 2000

// TestGit compares the rule with git's own verdict, and all that use the rule with each other.
func TestGit(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	env.Check(t, err)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	env.Check(t, os.Mkdir(filepath.Join(top, "outside"), 0o755))
	var dirs, all []string
	for i := range trees {
		dir := filepath.Join(top, fmt.Sprint(i))
		tree(t, dir, r)
		dirs, all = append(dirs, dir), append(all, dir+"/r")
	}
	whole, apart := 0, 0
	for i, is := range gits(t, all) {
		got, named := gitrepo.Look(gitrepo.Host{}, all[i])
		if is != got.Whole {
			t.Errorf("git takes %s for a repository: %v; here %v: %s", all[i], is, got.Whole, describe(dirs[i]))
			continue
		}
		if is {
			if whole++; got.Common != got.Dir {
				apart++
			}
		}
		for door, found := range doors(t, dirs[i], top, got, r) {
			if want := named && (got.Whole || door != "git"); found != want {
				t.Errorf("%s: by %s %v, by the rule %v (whole %v): %s", dirs[i], door, found, named, got.Whole, describe(dirs[i]))
			}
		}
	}
	t.Logf("%d of %d trees are repositories, %d by commondir", whole, trees, apart)
	if whole < trees/3 || apart < trees/20 {
		t.Errorf("%d of %d trees are repositories, %d by commondir: too few", whole, trees, apart)
	}
}

// doors returns what each user of the rule takes a tree's directory "r" for.
func doors(t *testing.T, dir, scratch string, rule gitrepo.Repository, r *rand.Rand) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	root, err := os.Open(dir)
	env.Check(t, err)
	defer root.Close()
	in := func(rel string) bool { return pathname.Below(rel, "r") }

	found, err := protect.Search(root, protect.Options{Source: dir, Protect: true, Absent: true})
	env.Check(t, err)
	out["protection"] = slices.ContainsFunc(found.Paths, func(p protect.Path) bool { return in(p.Rel) })
	if rule.Common == dir+"/c" && !found.Keeps("c/config") {
		t.Errorf("%s: the settings of its common directory are not protected", dir)
	}

	arrived := protect.Arrived(root, dir, time.Time{})
	out["receipt"] = slices.ContainsFunc(arrived.List, func(a protect.Arrival) bool {
		return a.Kind == protect.NewRepository && a.Rel == "r" || in(a.Rel)
	})
	if rule.Whole && rule.Common == dir+"/c" && !slices.ContainsFunc(arrived.List, func(a protect.Arrival) bool {
		return a.Rel == "r" && strings.HasSuffix(a.Why, "core.fsmonitor")
	}) {
		t.Errorf("%s: the receipt lacks the settings of its common directory: %v", dir, arrived.List)
	}

	_, err = git.Find(dir+"/r", nil, func(string) (string, error) { return "", nil })
	out["git"] = err == nil || !strings.Contains(err.Error(), "there is no repository")

	// A part of it comes from the directory, the rest from the layer.
	upper, lower := filepath.Join(scratch, "upper"), filepath.Join(scratch, "lower")
	for _, layer := range []string{upper, lower} {
		env.Check(t, os.RemoveAll(layer))
		env.Check(t, os.MkdirAll(layer+"/r", 0o755))
		env.Check(t, os.Mkdir(layer+"/c", 0o755))
	}
	for _, name := range []string{"d", "refs", "program", "file", "pointer", "l", "r/", "c/"} {
		names := []string{name}
		if sub, isDir := strings.CutSuffix(name, "/"); isDir {
			list, err := os.ReadDir(filepath.Join(dir, sub))
			env.Check(t, err)
			names = nil
			for _, e := range list {
				names = append(names, name+e.Name())
			}
		}
		for _, name := range names {
			layer := []string{upper, lower}[r.IntN(2)]
			if name == "r/description" || name == "c/config" {
				layer = upper
			}
			env.Check(t, os.Rename(filepath.Join(dir, name), filepath.Join(layer, name)))
			defer func() { env.Check(t, os.Rename(filepath.Join(layer, name), filepath.Join(dir, name))) }()
		}
	}
	up, err := os.Open(upper)
	env.Check(t, err)
	defer up.Close()
	low, err := os.Open(lower)
	env.Check(t, err)
	defer low.Close()
	marks, err := review.Of(context.Background(), up, low, review.Options{Path: dir})
	env.Check(t, err)
	for _, c := range marks.Changes {
		if c.Path == "r/description" {
			out["review"] = c.Has(review.Protected)
		}
		if c.Path == "c/config" && rule.Common != "" && pathname.Within(dir+"/c", rule.Common) && !c.Has(review.Protected) {
			t.Errorf("%s: the settings of the common directory %s have the marks %v", dir, rule.Common, c.Marks)
		}
	}
	return out
}

// describe lists a tree.
func describe(dir string) string {
	text, _ := exec.Command("sh", "-c", `cd "$1" && ls -lAR r c; head -c 300 r/HEAD r/commondir | cat -A | head -n 12`, "sh", dir).CombinedOutput()
	return string(text)
}

// TestAt: a ".git" leads where git goes from it.
func TestAt(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	env.Check(t, err)
	run := func(script string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "sh", "-ec", script)
		cmd.Dir, cmd.Env = top, append(os.Environ(), "HOME=/none", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	run(`git init -q plain
		git init -q --bare bare
		git init -q --object-format=sha256 sha256
		git init -q --separate-git-dir=apart.git apart
		cd plain; git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x; git worktree add -q ../linked; cd ..
		git -c protocol.file.allow=always -c user.name=a -c user.email=a@b -C apart submodule --quiet add ../plain sub
		mkdir link file none cr nul dir long plain/in
		ln -s ../plain/.git link/.git
		ln -s ../linked/.git file/.git
		printf 'gitdir: ../plain/.git\r\n\n' > cr/.git
		printf 'gitdir: ../plain/.git\0x' > nul/.git
		printf 'gitdir:../plain/.git' > none/.git
		mkdir dir/.git dir/refs dir/objects; echo "ref: refs/heads/x" > dir/HEAD
		{ printf 'gitdir: ../plain/.git'; head -c 1048600 /dev/zero | tr '\0' '\n'; } > long/.git`)
	for _, name := range []string{"plain", "bare", "sha256", "apart", "linked", "apart/sub", "link", "file", "cr", "nul", "dir", "none", "long", "plain/in", "plain/.git"} {
		dir := filepath.Join(top, name)
		cmd := exec.CommandContext(t.Context(), "git", "-c", "safe.directory=*", "rev-parse", "--absolute-git-dir")
		cmd.Dir, cmd.Env = dir, []string{"HOME=/none", "GIT_CEILING_DIRECTORIES=" + filepath.Dir(dir)}
		text, err := cmd.Output()
		want := strings.TrimSpace(string(text))
		got, ok, _ := gitrepo.At(gitrepo.Host{}, dir)
		if ok != (err == nil) || got.Dir != want {
			t.Errorf("%s: %q, %v; git has %q, %v", name, got.Dir, ok, want, err)
		}
	}
}

// FuzzLook: no text of HEAD or commondir stops it.
func FuzzLook(f *testing.F) {
	f.Add("ref: refs/heads/main\n", "../c\n")
	f.Fuzz(func(t *testing.T, head, common string) {
		gitrepo.Look(texts{"r/HEAD": head, "r/commondir": common}, "r")
		gitrepo.GitFile(head)
	})
}

// texts are files in memory.
type texts map[string]string

func (m texts) Lstat(at string) (uint32, error) {
	if _, ok := m[at]; ok {
		return unix.S_IFREG, nil
	}
	return 0, unix.ENOENT
}

func (m texts) Stat(at string) (string, uint32, error) {
	mode, err := m.Lstat(at)
	return at, mode, err
}

func (m texts) Readlink(string) (string, error) { return "", unix.EINVAL }

func (m texts) Head(at string, max int64) (string, error) {
	text := m[at]
	return text[:min(len(text), int(max))], nil
}
