package apply

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/pathname"
	"agentjail.dev/runtime/workspace/review"
)

// knots are names of the oracle's trees: those of protected paths, and others.
var knots = []string{"a", "b", "c", "tools", "hooks", "more", ".husky", ".vscode", ".claude", "settings.json", ".mcp.json", "post-commit"}

// knot is a random path of a tree.
func knot(r *rand.Rand) string {
	var parts []string
	for range 1 + r.IntN(3) {
		parts = append(parts, knots[r.IntN(len(knots))])
	}
	return strings.Join(parts, "/")
}

// knotted changes a tree at random. Links lead anywhere in the tree top, or out of it.
func knotted(r *rand.Rand, in, top string, steps int) {
	for range steps {
		at := in + "/" + knot(r)
		switch _ = os.MkdirAll(path.Dir(at), 0o755); r.IntN(8) {
		case 0, 1:
			_ = os.WriteFile(at, fmt.Appendf(nil, "[core]\n\thooksPath = %s\n#%d\n", knot(r), r.Uint64()), 0o644)
		case 2:
			_ = os.MkdirAll(at, 0o755)
		case 3:
			_ = os.Rename(in+"/"+knot(r), at)
		case 4:
			_ = os.RemoveAll(at)
		default:
			to := strings.Repeat("../", r.IntN(3)) + knot(r)
			switch r.IntN(8) {
			case 0:
				to = top + "/" + to
			case 1:
				to = "/proc/self/cwd/" + knot(r)
			case 2:
				to = knot(r) + "/../" + knot(r)
			}
			if r.IntN(3) == 0 {
				_ = os.RemoveAll(at)
			}
			_ = os.Symlink(to, at)
		}
	}
}

// trail walks a path as programs do whose directory is top. It returns the links of top on its way,
// and the end, "" where there is none or it lies outside.
func trail(t *testing.T, top, at string) (links []string, end string) {
	cur, todo := top, strings.Split(at, "/")
	for len(todo) > 0 {
		name := todo[0]
		todo = todo[1:]
		next := path.Join(cur, name)
		if strings.HasPrefix(next, "/proc/self/cwd") {
			next = top
		}
		st, err := os.Lstat(next)
		switch {
		case err != nil:
			return links, ""
		case st.Mode()&fs.ModeSymlink != 0:
			to, err := os.Readlink(next)
			must(t, err)
			if rel, ok := pathname.Rel(next, top); ok {
				links = append(links, rel)
			}
			if len(links) > 40 {
				return links, ""
			}
			if todo = append(strings.Split(to, "/"), todo...); path.IsAbs(to) {
				cur = "/"
			}
		case !st.IsDir() && len(todo) > 0:
			return links, ""
		default:
			cur = next
		}
	}
	if cur == top {
		return links, "."
	}
	end, _ = pathname.Rel(cur, top)
	return links, end
}

// runBy returns the places of a tree that protected paths lead to, by the files themselves.
func runBy(t *testing.T, top string) (places []string) {
	add := func(at string) string {
		links, end := trail(t, top, at)
		places = append(places, links...)
		if end == "" {
			return ""
		}
		places = append(places, end)
		// Files that are links, in a directory of hooks.
		list, _ := os.ReadDir(path.Join(top, end))
		for _, e := range list {
			if e.Type()&fs.ModeSymlink == 0 {
				continue
			}
			links, in := trail(t, top, path.Join(end, e.Name()))
			if in != "" && in != "." && !pathname.Within(end, in) {
				places = append(places, append(links, in)...)
			}
		}
		return path.Join(top, end)
	}
	for _, set := range []string{".git/config", "more"} {
		file := add(set)
		if set == ".git/config" {
			file = path.Join(top, set)
		}
		text, _ := os.ReadFile(file)
		for line := range strings.Lines(string(text)) {
			if hooks, ok := strings.CutPrefix(line, "\thooksPath = "); ok {
				add(strings.TrimSpace(hooks))
			}
		}
	}
	must(t, filepath.WalkDir(top, func(at string, e fs.DirEntry, err error) error {
		if err != nil || !e.IsDir() {
			return err
		}
		if e.Name() == ".git" {
			return fs.SkipDir
		}
		rel, _ := pathname.Rel(at, top)
		for _, name := range []string{".husky", ".vscode", ".mcp.json", ".claude/settings.json", ".claude/hooks"} {
			add(path.Join(rel, name))
		}
		return nil
	}))
	return places
}

// perform does a plan as the worker does, without its care.
func perform(t *testing.T, plan *applyPlan, upper, dir string) {
	texts := map[string][]byte{}
	for _, i := range plan.Items {
		from := dir
		if i.Source.Upper {
			from = upper
		}
		if i.Type == review.File {
			text, err := os.ReadFile(from + "/" + i.Source.Path)
			must(t, err)
			texts[i.Path] = text
		}
	}
	for _, o := range plan.Ops {
		if o.Do == remove || o.Do == replace {
			must(t, os.RemoveAll(dir+"/"+o.Path))
		}
	}
	for _, i := range plan.Items {
		switch at := dir + "/" + i.Path; i.Type {
		case review.Dir:
			must(t, os.Mkdir(at, 0o755))
		case review.Link:
			must(t, os.Symlink(i.Target, at))
		default:
			must(t, os.WriteFile(at, texts[i.Path], 0o644))
		}
	}
}

// snapshot is a tree by path.
func snapshot(t *testing.T, top string) map[string]string {
	out := map[string]string{}
	must(t, filepath.WalkDir(top, func(at string, e fs.DirEntry, err error) error {
		if rel, ok := pathname.Rel(at, top); ok && err == nil {
			text, _ := os.ReadFile(at)
			if e.Type()&fs.ModeSymlink != 0 {
				to, _ := os.Readlink(at)
				text = []byte(to)
			}
			out[rel] = e.Type().String() + string(text)
		}
		return err
	}))
	return out
}

// TestOracle: after an apply without --protected, whatever paths it is of, nothing that it changed
// lies where a protected path leads to, by the files themselves; nor did it before.
func TestOracle(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to mount")
	}
	base := t.TempDir()
	must(t, unix.Mount("none", base, "tmpfs", 0, "mode=755"))
	t.Cleanup(func() { _ = unix.Unmount(base, unix.MNT_DETACH) })
	must(t, os.Mkdir(base+"/cwd", 0o755))
	t.Chdir(base + "/cwd") // links to /proc/self/cwd lead there
	cases, applied, left := 0, 0, 0
	seeds := []uint64{2608} // one that has shown a fault, and further ones
	for seed := range uint64(1000) {
		seeds = append(seeds, seed)
	}
	for _, seed := range seeds {
		r := rand.New(rand.NewPCG(seed, 31))
		top := fmt.Sprintf("%s/case%d", base, cases)
		p := &place{top: top, dir: top + "/dir", upper: top + "/upper", merged: top + "/merged"}
		for _, d := range []string{top, p.dir, p.upper, p.merged, top + "/work"} {
			must(t, os.Mkdir(d, 0o755))
		}
		p.write(t, p.dir, gitWith("hooksPath = "+knot(r)+"\n[include]\n\tpath = ../more"))
		knotted(r, p.dir, p.dir, r.IntN(8))
		must(t, unix.Mount("none", p.merged, "overlay", 0, fmt.Sprintf("redirect_dir=on,index=off,lowerdir=%s,upperdir=%s,workdir=%s/work", p.dir, p.upper, top)))
		knotted(r, p.merged, p.dir, 1+r.IntN(14))
		must(t, unix.Unmount(p.merged, 0))
		upper, err := os.Open(p.upper)
		must(t, err)
		dir, err := os.Open(p.dir)
		must(t, err)
		for range 3 {
			was, places := snapshot(t, p.dir), runBy(t, p.dir)
			rev, err := review.Of(t.Context(), upper, dir, review.Options{Since: time.Now().Add(time.Hour), Path: p.dir})
			must(t, err)
			if len(rev.Changes) == 0 {
				break
			}
			var paths []string
			for range r.IntN(3) {
				paths = append(paths, rev.Changes[r.IntN(len(rev.Changes))].Path)
			}
			chosen, err := rev.Select(paths)
			must(t, err)
			plan, out, _ := newPlan(rev, chosen, false, Options{Links: r.IntN(2) == 0, Each: true})
			left += len(out)
			perform(t, plan, p.upper, p.dir)
			is := snapshot(t, p.dir)
			places = append(places, runBy(t, p.dir)...)
			for at := range is {
				if was[at] == "" {
					was[at] = "nothing"
				}
			}
			for at, had := range was {
				if is[at] == had {
					continue
				}
				applied++
				if i := slices.IndexFunc(places, func(in string) bool { return in == "." || pathname.Within(at, in) }); i >= 0 {
					t.Errorf("seed %d: %s, of %q, lies in %s: was %q, is %q", seed, at, paths, places[i], had, is[at])
				}
			}
			cases++
		}
		upper.Close()
		dir.Close()
		must(t, os.RemoveAll(top))
	}
	if t.Logf("%d applies: %d paths applied, %d left out", cases, applied, left); cases == 0 || applied == 0 || left == 0 {
		t.Error("there is nothing to compare")
	}
}
