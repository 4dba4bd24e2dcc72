package apply

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/pathname"
)

// tangle changes a tree at random: files and directories are written, removed, renamed, exchanged
// and replaced by one of another type.
func tangle(t testing.TB, r *rand.Rand, top string, steps int) {
	t.Helper()
	pick := func() string {
		at := top
		for range 1 + r.IntN(3) {
			at = path.Join(at, string("abc"[r.IntN(3)]))
		}
		return at
	}
	for i := range steps {
		// Most of it fails: there is no such file, or one of another type.
		switch at := pick(); r.IntN(10) {
		case 0, 1:
			_ = os.WriteFile(at, fmt.Appendf(nil, "%d\n", i), 0o644)
		case 2, 3:
			_ = os.Mkdir(at, 0o755)
		case 4:
			_ = os.RemoveAll(at)
		case 5, 6:
			_ = os.Rename(at, pick())
		case 7:
			_ = unix.Renameat2(unix.AT_FDCWD, at, unix.AT_FDCWD, pick(), unix.RENAME_EXCHANGE)
		case 8:
			_ = os.Chmod(at, os.FileMode(0o700+r.IntN(8)))
		case 9:
			_ = os.RemoveAll(at)
			_ = os.Symlink("a", at)
		}
	}
}

// tangled makes a view of a tangled directory, in which a jail has tangled as well.
func tangled(t *testing.T, r *rand.Rand) *place {
	t.Helper()
	p := newPlace(t, nil)
	tangle(t, r, p.dir, 60)
	p.own(t, p.dir)
	p.unmount(t)
	p.settled(t)
	p.mount(t)
	tangle(t, r, p.merged, 40)
	p.own(t, p.merged)
	return p
}

// TestPiecemeal: whatever a jail does, and in whatever order its changes are applied one by one, an
// apply never changes what the view shows, and in the end the directory is as the view.
func TestPiecemeal(t *testing.T) {
	for seed := range seeds(253, 1136, 1340) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 28))
			p := tangled(t, r)
			view, began := list(t, p.merged), list(t, p.dir)
			p.unmount(t)
			for range 30 {
				all := p.review(t).Changes
				if len(all) == 0 {
					break
				}
				path := all[r.IntN(len(all))].Path
				res, err := p.apply(t, Options{Links: true}, path)
				refused := func(p Problem) bool { return strings.Contains(p.Why, "of which not all is applied") }
				if err != nil && !slices.ContainsFunc(res.Conflicts, refused) {
					t.Fatalf("%q: %v: %+v\nthe directory was\n%s\nand the view\n%s", path, err, res, began, view)
				}
				p.mount(t)
				got := list(t, p.merged)
				p.unmount(t)
				if got != view {
					t.Fatalf("after the apply of %q the view is\n%s\nand was\n%s\nover\n%s", path, got, view, began)
				}
			}
			if res, err := p.apply(t, Options{Links: true}); err != nil || len(res.Left)+len(res.Conflicts) > 0 {
				t.Errorf("the rest: %+v: %v", res, err)
			}
			if got := list(t, p.dir); got != view {
				t.Errorf("the directory is\n%s\nand not as the view\n%s\nover\n%s", got, view, began)
			}
		})
	}
}

// TestDiscardPiecemeal: what a discard of a path does not refuse shows the directory's files
// there, and changes nothing elsewhere.
func TestDiscardPiecemeal(t *testing.T) {
	for seed := range seeds(122) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 29))
			p := tangled(t, r)
			dir := list(t, p.dir)
			for range 10 {
				view := list(t, p.merged)
				p.unmount(t)
				review := p.review(t)
				if len(review.Changes) == 0 {
					p.mount(t)
					break
				}
				at := review.Changes[r.IntN(len(review.Changes))].Path
				if dir := path.Dir(at); dir != "." && r.IntN(3) == 0 {
					at = dir
				}
				chosen, err := review.Select([]string{at})
				must(t, err)
				err = p.view.Discard(review, chosen, []string{at})
				p.mount(t)
				got := list(t, p.merged)
				switch {
				case err != nil && strings.Contains(err.Error(), "as a whole"):
					if got != view {
						t.Fatalf("the refused discard of %s made the view\n%s\nof\n%s\nover\n%s", at, got, view, dir)
					}
				case err != nil:
					t.Fatalf("the discard of %s: %v", at, err)
				default:
					is, had := below(got, at), below(dir, at)
					if is != had {
						t.Fatalf("after the discard of %s it is\n%s\nand not\n%s\nof the directory\n%s\nThe view is\n%s\nand was\n%s", at, is, had, dir, got, view)
					}
				}
			}
		})
	}
}

// below are the lines of a list about a path and all below it.
func below(list, at string) string {
	var out []string
	for line := range strings.SplitSeq(list, "\n") {
		if name, _, _ := strings.Cut(line, " "); pathname.Within(name, at) {
			out = append(out, line)
		}
	}
	return strings.Join(out, "\n")
}

// seeds are those of random input: some that have shown faults, and further ones.
func seeds(shown ...uint64) iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		for i := range uint64(60) {
			shown = append(shown, i)
		}
		slices.Values(shown)(yield)
	}
}

// TestSelect: a file of a renamed directory is applied without the rename, and a path without a
// change of its own is refused with the one to name.
func TestSelect(t *testing.T) {
	p := newPlace(t, project)
	work1(t, p)
	p.unmount(t)
	r := p.review(t)
	for at, want := range map[string]string{
		"": "empty", "gone/file": "gone is removed as a whole", "lib/one": "lib is renamed to lib2 as a whole", "nothing": "no change there",
	} {
		if _, err := r.Select([]string{at}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", at, err)
		}
	}
	res, err := p.apply(t, Options{}, "lib2/one")
	if err != nil || !slices.Equal(res.Applied, []string{"lib2"}) {
		t.Fatalf("%+v: %v", res, err)
	}
	if got := list(t, p.dir); below(got, "lib2") != "lib2 40755 1234:1235\nlib2/one 100644 1234:1235 one" || below(got, "lib") == "" {
		t.Errorf("the directory is\n%s", got)
	}
}
