package apply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/filetime"
	"agentjail.dev/runtime/kernel/overlayfs"
	"agentjail.dev/runtime/workspace/review"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == Verb {
		os.Exit(Work())
	}
	if os.Getenv("AGENTJAIL_TEST_PLACE") != "" {
		os.Exit(victim())
	}
	if os.Getenv(attackEnv) != "" {
		os.Exit(attack())
	}
	status := m.Run()
	if crashDir != "" {
		os.RemoveAll(crashDir)
	}
	os.Exit(status)
}

// tester is what helpers need of a test; of a process that a test starts, victimT.
type tester interface {
	Helper()
	Fatal(args ...any)
	Errorf(format string, args ...any)
	Context() context.Context
}

type victimT struct{}

func (*victimT) Helper()                   {}
func (*victimT) Fatal(args ...any)         { fmt.Println(args...); os.Exit(1) }
func (*victimT) Errorf(f string, a ...any) { fmt.Printf(f, a...); os.Exit(1) }
func (*victimT) Context() context.Context  { return context.Background() }

func must(t tester, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

const uid, gid = 1234, 1235

// place is a directory with a view over it.
type place struct {
	top, dir, upper, merged string
	view                    *View
	since                   time.Time
	hidden                  []string
}

// newPlace makes a directory with files of a user's, and an overlay over it, as jails have it.
func newPlace(t testing.TB, files map[string]string) *place {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root, to mount")
	}
	top := t.TempDir()
	must(t, unix.Mount("none", top, "tmpfs", 0, "mode=755"))
	t.Cleanup(func() { _ = unix.Unmount(top, unix.MNT_DETACH) })
	p := &place{top: top, dir: top + "/dir", upper: top + "/upper", merged: top + "/merged"}
	for _, d := range []string{p.dir, p.upper, p.merged, top + "/work", top + "/state"} {
		must(t, os.Mkdir(d, 0o755))
	}
	p.write(t, p.dir, files)
	p.settled(t)
	p.mount(t)
	must(t, p.save())
	must(t, p.load())
	t.Cleanup(func() { _ = p.close() })
	return p
}

// save keeps for another process what is not in the trees.
func (p *place) save() error {
	var kept struct {
		Applied map[string]int64
		Bases   map[string]review.Base
	}
	if p.view != nil {
		kept.Applied, kept.Bases = p.view.Applied, p.view.Bases
	}
	text, err := json.Marshal(kept)
	return errors.Join(err, os.WriteFile(p.top+"/applied", text, 0o600), os.WriteFile(p.top+"/since", []byte(p.since.Format(time.RFC3339Nano)), 0o600))
}

// load opens the view.
func (p *place) load() error {
	dir, err := os.Open(p.dir)
	if err != nil {
		return err
	}
	upper, err := os.Open(p.upper)
	if err != nil {
		return err
	}
	p.view = &View{
		ID: "test", UID: uid, GID: gid, Upper: upper, Directory: dir, Journal: p.top + "/state/journal", Locks: p.top + "/applies",
		Save: func(*View) error { return p.save() }, close: func() { dir.Close(); upper.Close() },
	}
	text, err := os.ReadFile(p.top + "/applied")
	if err != nil {
		return err
	}
	since, err := os.ReadFile(p.top + "/since")
	if err != nil {
		return err
	}
	p.since, err = time.Parse(time.RFC3339Nano, string(since))
	return errors.Join(err, json.Unmarshal(text, p.view))
}

func (p *place) close() error {
	p.view.Close()
	return unix.Unmount(p.top, unix.MNT_DETACH)
}

// settled takes a moment after all that the directory has.
func (p *place) settled(t testing.TB) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		at := filetime.Moment(p.dir)
		must(t, os.WriteFile(p.top+"/probe", nil, 0o600))
		if st, _ := os.Stat(p.top + "/probe"); st.ModTime().After(at) {
			p.since = at
			return
		}
	}
	t.Fatal("the clock stands")
}

func (p *place) mount(t testing.TB) {
	t.Helper()
	upper, err := os.Open(p.upper)
	must(t, err)
	defer upper.Close()
	must(t, overlayfs.ForgetOrigins(int(upper.Fd()))) // as workspace.Store.Begin does
	opts := fmt.Sprintf("redirect_dir=on,metacopy=off,index=off,lowerdir=%s,upperdir=%s,workdir=%s/work", p.dir, p.upper, p.top)
	must(t, unix.Mount("none", p.merged, "overlay", 0, opts))
	t.Cleanup(func() { _ = unix.Unmount(p.merged, unix.MNT_DETACH) })
}

// unmount ends the view's jail, as workspace.Store.End does.
func (p *place) unmount(t testing.TB) {
	t.Helper()
	must(t, unix.Unmount(p.merged, 0))
	bases, err := review.Bases(t.Context(), p.view.Upper, p.view.Directory, p.view.Bases, len(p.view.Applied) > 0)
	must(t, err)
	p.view.Bases = bases
	must(t, os.RemoveAll(p.top+"/work"))
	must(t, os.Mkdir(p.top+"/work", 0o755))
}

// write makes files of the user's: a name with a slash at its end is a directory, and content that
// begins with "->" a link.
func (p *place) write(t testing.TB, in string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		at := filepath.Join(in, name)
		must(t, os.MkdirAll(filepath.Dir(at), 0o755))
		switch target, link := strings.CutPrefix(text, "->"); {
		case strings.HasSuffix(name, "/"):
			must(t, os.MkdirAll(at, 0o755))
		case link:
			_ = os.Remove(at)
			must(t, os.Symlink(target, at))
		default:
			must(t, os.WriteFile(at, []byte(text), 0o644))
		}
	}
	p.own(t, in)
}

func (p *place) own(t testing.TB, in string) {
	t.Helper()
	must(t, filepath.WalkDir(in, func(at string, _ fs.DirEntry, err error) error {
		var st unix.Stat_t
		if err == nil && unix.Lstat(at, &st) == nil && st.Uid == 0 {
			err = os.Lchown(at, uid, gid)
		}
		return err
	}))
}

func (p *place) review(t tester) *review.Review {
	t.Helper()
	r, err := review.Of(t.Context(), p.view.Upper, p.view.Directory, review.Options{Since: p.since, Applied: p.view.Applied, Bases: p.view.Bases, Hide: p.hidden, Path: p.dir})
	must(t, err)
	return r
}

// apply applies the changes of these paths with options, without paths all.
func (p *place) apply(t testing.TB, o Options, paths ...string) (*Result, error) {
	t.Helper()
	r := p.review(t)
	chosen, err := r.Select(paths)
	must(t, err)
	return p.view.Run(t.Context(), r, chosen, o)
}

// list is a tree in words: type, mode, owner and content.
func list(t testing.TB, top string) string {
	t.Helper()
	var out []string
	must(t, filepath.WalkDir(top, func(at string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(top, at)
		var st unix.Stat_t
		must(t, unix.Lstat(at, &st))
		line := fmt.Sprintf("%s %o %d:%d", rel, st.Mode, st.Uid, st.Gid)
		switch {
		case e.Type() == fs.ModeSymlink:
			target, _ := os.Readlink(at)
			line += " -> " + target
		case e.Type().IsRegular() && st.Size < 1<<20:
			data, err := os.ReadFile(at)
			must(t, err)
			line += " " + string(data)
		}
		out = append(out, line)
		return nil
	}))
	return strings.Join(out, "\n")
}

// changes are a review's in short.
func changes(r *review.Review) string {
	var out []string
	for _, c := range r.Changes {
		if !c.Implied {
			out = append(out, c.String())
		}
	}
	slices.SortFunc(out, func(a, b string) int { return strings.Compare(a[2:], b[2:]) })
	return strings.Join(out, ", ")
}

var project = map[string]string{
	"a.txt": "a\n", "b.txt": "b\n", "same.txt": "same\n", "src/main.go": "main\n", "src/old.go": "old\n", "src/deep/x": "x\n",
	"lib/one": "1\n", "lib/two": "2\n", "gone/file": "gone\n", "link": "->a.txt", "swap": "was a file\n", "turn/file": "was a directory\n",
}

// work does in the view what an agent does.
func work1(t testing.TB, p *place) {
	p.write(t, p.merged, map[string]string{
		"a.txt": "changed\n", "new.txt": "new\n", "src/deep/y": "y\n", "new/dir/file": "f\n", "new/empty/": "", "same.txt": "same\n", "inner": "->src/main.go",
	})
	m := p.merged
	must(t, os.Chmod(m+"/b.txt", 0o755))
	must(t, os.Remove(m+"/src/old.go"))
	must(t, os.RemoveAll(m+"/gone"))
	must(t, os.Rename(m+"/lib", m+"/lib2"))
	must(t, os.WriteFile(m+"/lib2/one", []byte("one\n"), 0o600))
	must(t, os.Remove(m+"/swap"))
	p.write(t, m, map[string]string{"swap/is/dir": "d\n"})
	must(t, os.RemoveAll(m+"/turn"))
	p.write(t, m, map[string]string{"turn": "is a file\n"})
	must(t, os.Chmod(m+"/new/dir", 0o500))
	p.own(t, m)
}

func TestApply(t *testing.T) {
	p := newPlace(t, project)
	work1(t, p)
	r := p.review(t)
	want := "M a.txt, m b.txt  0644 → 0755, D gone/, A inner -> src/main.go, R lib/ -> lib2/, A lib2/one, A new.txt, A new/, A new/dir/, A new/dir/file, A new/empty/, " +
		"A src/deep/y, D src/old.go, T swap/, A swap/is/, A swap/is/dir, T turn"
	if got := changes(r); got != want {
		t.Errorf("changes:\n%s\nnot\n%s", got, want)
	}
	view := list(t, p.merged)
	p.unmount(t)
	res, err := p.apply(t, Options{})
	if err != nil || len(res.Conflicts)+len(res.Left)+len(res.Kept) > 0 {
		t.Fatalf("%+v: %v", res, err)
	}
	if got := list(t, p.dir); got != view {
		t.Errorf("the directory is not as the view was:\n%s\nnot\n%s", got, view)
	}
	// Nothing remains, and the view shows the same.
	if left, _ := os.ReadDir(p.top + "/state"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if r := p.review(t); len(r.Changes) > 0 {
		t.Errorf("still: %s", changes(r))
	}
	if left, _ := os.ReadDir(p.upper); len(left) > 2 { // src, a directory that is merged, and what is the same
		t.Errorf("left in the layer: %v", left)
	}
	p.mount(t)
	if got := list(t, p.merged); got != view {
		t.Errorf("the view is not as it was:\n%s\nnot\n%s", got, view)
	}
	p.write(t, p.merged, map[string]string{"new/again": "1", "new/dir2/again": "2", "lib2/two": "zwei\n"})
	must(t, os.RemoveAll(p.merged+"/src"))
	p.unmount(t)
	if _, err := p.apply(t, Options{}); err != nil {
		t.Errorf("a second apply: %v", err)
	}
}

// TestRemovedMeanwhile: what the jail has changed and the owner moves or removes, in whichever run
// of the view and after whichever apply, is a conflict, and is not made again. What the jail
// renames or links itself is none, and what an apply has replaced.
func TestRemovedMeanwhile(t *testing.T) {
	jail := func(f func(p *place) error) func(*place) error {
		return func(p *place) error {
			p.mount(t)
			err := f(p)
			p.own(t, p.merged)
			p.unmount(t)
			return err
		}
	}
	owner := func(f func(p *place) error) func(*place) error { return f }
	write := func(at, text string) func(p *place) error {
		return func(p *place) error { return os.WriteFile(p.merged+"/"+at, []byte(text), 0o644) }
	}
	replace := func(at string) func(p *place) error { // as git and most editors do
		return func(p *place) error {
			return errors.Join(write(at+".new", "replaced\n")(p), os.Rename(p.merged+"/"+at+".new", p.merged+"/"+at))
		}
	}
	// During a run the owner changes the directory below the mounted view.
	during := func(f, g func(p *place) error) func(p *place) error {
		return func(p *place) error { return errors.Join(f(p), g(p)) }
	}
	rename := func(from, to string) func(p *place) error {
		return func(p *place) error { return os.Rename(p.dir+"/"+from, p.dir+"/"+to) }
	}
	remove := func(at string) func(p *place) error {
		return func(p *place) error { return os.RemoveAll(p.dir + "/" + at) }
	}
	jailRename := func(from, to string) func(p *place) error {
		return func(p *place) error { return os.Rename(p.merged+"/"+from, p.merged+"/"+to) }
	}
	apply := func(paths ...string) func(p *place) error {
		return func(p *place) error {
			res, err := p.apply(t, Options{}, paths...)
			if err == nil && len(res.Conflicts) > 0 {
				err = fmt.Errorf("%+v", res)
			}
			return err
		}
	}
	type steps []func(*place) error
	for name, c := range map[string]struct {
		steps     steps
		conflicts []string
	}{
		"removed":                   {steps{jail(write("a.txt", "changed\n")), owner(remove("a.txt"))}, []string{"a.txt"}},
		"renamed":                   {steps{jail(write("a.txt", "changed\n")), owner(rename("a.txt", "z.txt"))}, []string{"a.txt"}},
		"renamed meanwhile":         {steps{jail(during(write("a.txt", "changed\n"), rename("a.txt", "z.txt")))}, []string{"a.txt"}},
		"removed meanwhile":         {steps{jail(during(write("a.txt", "changed\n"), remove("a.txt")))}, []string{"a.txt"}},
		"replaced and renamed":      {steps{jail(replace("a.txt")), owner(rename("a.txt", "z.txt"))}, []string{"a.txt"}},
		"link removed":              {steps{jail(func(p *place) error { return os.Remove(p.merged + "/link") }), jail(write("link", "file\n")), owner(remove("link"))}, []string{"link"}},
		"after the second run":      {steps{jail(write("a.txt", "changed\n")), jail(write("new", "n\n")), owner(remove("a.txt"))}, []string{"a.txt"}},
		"before the second run":     {steps{jail(write("a.txt", "changed\n")), owner(remove("a.txt")), jail(write("new", "n\n"))}, []string{"a.txt"}},
		"changed in the second run": {steps{jail(write("new", "n\n")), jail(write("a.txt", "changed\n")), owner(rename("a.txt", "z.txt"))}, []string{"a.txt"}},
		"made anew":                 {steps{owner(remove("a.txt")), jail(write("a.txt", "new\n"))}, nil},
		"brought back":              {steps{jail(write("a.txt", "changed\n")), owner(rename("a.txt", "z")), owner(rename("z", "a.txt"))}, []string{"a.txt"}},
		"after an apply":            {steps{jail(during(write("a.txt", "changed\n"), write("b.txt", "changed\n"))), apply("b.txt"), owner(remove("a.txt"))}, []string{"a.txt"}},
		"after its own apply":       {steps{jail(write("a.txt", "changed\n")), apply(), jail(write("a.txt", "again\n")), owner(remove("a.txt"))}, []string{"a.txt"}},
		"discarded and made anew": {
			steps{
				jail(write("a.txt", "changed\n")),
				func(p *place) error {
					r := p.review(t)
					chosen, err := r.Select([]string{"a.txt"})
					return errors.Join(err, p.view.Discard(r, chosen, []string{"a.txt"}))
				},
				owner(remove("a.txt")), jail(write("a.txt", "new\n")),
			}, nil,
		},
		"new beside":                  {steps{jail(write("src/new", "n\n")), owner(remove("src/old.go"))}, nil},
		"new and applied and removed": {steps{jail(write("new", "n\n")), apply(), owner(remove("new")), jail(write("new", "again\n"))}, nil},
		"with its directory":          {steps{jail(write("src/deep/x", "changed\n")), owner(remove("src"))}, []string{"src"}},
		"its directory renamed":       {steps{jail(write("src/deep/new", "new\n")), owner(rename("src/deep", "deep"))}, []string{"src/deep"}},
		"renamed by both":             {steps{jail(jailRename("a.txt", "moved")), owner(remove("a.txt"))}, []string{"moved"}},
		"renamed by both twice": {
			steps{jail(jailRename("a.txt", "moved")), jail(write("new", "n\n")), owner(rename("a.txt", "z.txt"))},
			[]string{"moved"},
		},
		"in a directory that the jail renamed": {
			steps{jail(during(jailRename("lib", "lib2"), write("lib2/one", "changed\n"))), owner(rename("lib/one", "lib/three"))},
			[]string{"lib2/one", "lib"},
		},
		"meanwhile in a directory that the jail renamed": {
			steps{jail(during(during(jailRename("lib", "lib2"), write("lib2/one", "changed\n")), rename("lib/one", "lib/three")))},
			[]string{"lib2/one", "lib"},
		},
		"renamed by the jail": {steps{jail(jailRename("a.txt", "moved"))}, nil},
		"renamed out of a removed directory": {
			steps{jail(during(jailRename("src/deep/x", "moved"), func(p *place) error { return os.RemoveAll(p.merged + "/src") }))}, nil,
		},
		"renamed out of a renamed directory": {
			steps{jail(during(jailRename("src", "src2"), jailRename("src2/deep/x", "moved")))}, nil,
		},
		"linked by the jail": {steps{jail(func(p *place) error { return os.Link(p.merged+"/a.txt", p.merged+"/link2") })}, nil},
		"replaced by an apply": {
			steps{jail(during(write("a.txt", "changed\n"), func(p *place) error { return os.Link(p.merged+"/a.txt", p.merged+"/link2") })), apply("a.txt")},
			nil,
		},
		"replaced by an apply while the jail lives": {
			steps{jail(during(write("a.txt", "changed\n"), func(p *place) error {
				p.view.Live = true
				defer func() { p.view.Live = false }()
				return errors.Join(os.Link(p.merged+"/a.txt", p.merged+"/link2"), apply("a.txt")(p))
			}))}, nil,
		},
		"its source removed by an apply": {
			steps{jail(during(jailRename("src/deep/x", "moved"), func(p *place) error { return os.RemoveAll(p.merged + "/src/deep") })), apply("src/deep")},
			nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t, project)
			p.unmount(t)
			for _, step := range c.steps {
				must(t, step(p))
			}
			before := list(t, p.dir)
			res, err := p.apply(t, Options{})
			if errors.Is(err, ErrConflicts) != (c.conflicts != nil) || err != nil && c.conflicts == nil || !slices.Equal(paths(res.Conflicts), c.conflicts) {
				t.Errorf("in conflict: %+v, not %q: %v", res.Conflicts, c.conflicts, err)
			}
			if got := list(t, p.dir); c.conflicts != nil && got != before {
				t.Errorf("the directory is\n%s\nnot\n%s", got, before)
			}
			// What is left out with --each is not made in part.
			if res, err := p.apply(t, Options{Each: true}); err != nil || !slices.Equal(paths(res.Conflicts), c.conflicts) {
				t.Errorf("with each: %+v: %v", res, err)
			}
			for _, at := range c.conflicts {
				if _, err := os.Lstat(p.dir + "/" + at); err == nil && name != "brought back" && at != "lib" {
					t.Errorf("%s was made again", at)
				}
			}
		})
	}
}

// TestModeInConflict: a directory whose mode cannot be changed keeps what is in it from nothing.
func TestModeInConflict(t *testing.T) {
	p := newPlace(t, project)
	must(t, os.Chmod(p.merged+"/src", 0o700))
	must(t, os.Remove(p.merged+"/src/old.go"))
	p.unmount(t)
	p.write(t, p.dir, map[string]string{"src/owner": "1\n"})
	res, err := p.apply(t, Options{Each: true})
	if err != nil || !slices.Equal(paths(res.Conflicts), []string{"src"}) || !slices.Equal(res.Applied, []string{"src/old.go"}) {
		t.Errorf("%+v: %v", res, err)
	}
}
