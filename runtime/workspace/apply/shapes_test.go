package apply

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/protect"
	"agentjail.dev/runtime/workspace/review"
)

// TestShutTrees: directories that their owner cannot list, in each other, are applied as others:
// made, shut, opened and removed.
func TestShutTrees(t *testing.T) {
	p := newPlace(t, map[string]string{"d/x": "x\n", "d/e/y": "y\n", "gone/in/z": "z\n"})
	m := p.merged
	must(t, os.Chmod(p.dir+"/gone/in", 0))
	p.settled(t)
	step := func(what string, change func()) {
		t.Helper()
		change()
		p.own(t, m)
		view := list(t, m)
		p.unmount(t)
		if res, err := p.apply(t, Options{}); err != nil {
			t.Errorf("%s: %+v: %v", what, res, err)
		}
		if got := list(t, p.dir); got != view {
			t.Errorf("%s: the directory is\n%s\nnot\n%s", what, got, view)
		}
		if r := p.review(t); len(r.Changes) > 0 {
			t.Errorf("%s: still %s", what, changes(r))
		}
		p.mount(t)
	}
	step("made and shut", func() {
		p.write(t, m, map[string]string{"n/a/b/c": "c\n", "d/e/y": "2\n"})
		for _, at := range []string{"n/a/b/c", "n/a/b", "n/a", "n", "d/e", "d"} {
			must(t, os.Chmod(m+"/"+at, 0))
		}
		must(t, os.RemoveAll(m+"/gone"))
	})
	step("opened", func() {
		must(t, os.Chmod(m+"/d", 0o700))
		must(t, os.Chmod(m+"/d/e", 0o700))
		p.write(t, m, map[string]string{"d/x": "3\n", "d/e/new": "n\n"})
	})
	step("removed", func() { must(t, os.RemoveAll(m+"/n")) })
}

// TestSpecialsRemoved: a pipe or socket of the owner's is removed and replaced as a file is, and no
// patch has it.
func TestSpecialsRemoved(t *testing.T) {
	p := newPlace(t, nil)
	for _, at := range []string{"pipe", "pipe2"} {
		must(t, errors.Join(unix.Mkfifo(p.dir+"/"+at, 0o644), os.Chown(p.dir+"/"+at, uid, gid)))
	}
	must(t, errors.Join(unix.Mknod(p.dir+"/socket", unix.S_IFSOCK|0o644, 0), os.Chown(p.dir+"/socket", uid, gid)))
	p.settled(t)
	for _, at := range []string{"pipe", "pipe2", "socket"} {
		must(t, os.Remove(p.merged+"/"+at))
	}
	p.write(t, p.merged, map[string]string{"pipe": "file\n"})
	r := p.review(t)
	var patch bytes.Buffer
	var left []string
	d := &review.Differ{Upper: p.view.Upper, Directory: p.view.Directory, Out: &patch, Patch: true, Left: func(at, _ string) { left = append(left, at) }}
	for _, c := range r.Changes {
		must(t, d.Write(t.Context(), c))
	}
	if patch.Len() > 0 || !slices.Equal(left, []string{"pipe", "pipe2", "socket"}) {
		t.Errorf("%q is left out of %s", left, &patch)
	}
	p.unmount(t)
	if res, err := p.apply(t, Options{}); err != nil {
		t.Errorf("%+v: %v", res, err)
	}
	if got := list(t, p.dir); got != ". 40755 1234:1235\npipe 100644 1234:1235 file\n" {
		t.Errorf("the directory is\n%s", got)
	}
}

// TestDeep: of a tree that is deeper than a search for protected paths goes, only the part that it
// goes into is compared and applied; the view is still read then, and discarded.
func TestDeep(t *testing.T) {
	p := newPlace(t, map[string]string{"a": "a\n"})
	dir, err := unix.Open(p.merged, unix.O_PATH, 0)
	must(t, err)
	for range 2500 {
		must(t, unix.Mkdirat(dir, "d", 0o755))
		next, err := unix.Openat(dir, "d", unix.O_PATH, 0)
		must(t, errors.Join(err, unix.Fchownat(dir, "d", uid, gid, 0), unix.Close(dir)))
		dir = next
	}
	unix.Close(dir)
	p.unmount(t)
	depth := protect.DefaultLimits.Depth
	if r := p.review(t); len(r.Changes) != depth+1 || !r.Changes[depth].Has(review.Never) {
		t.Errorf("%d changes", len(r.Changes))
	}
	if res, err := p.apply(t, Options{}); err != nil || len(res.Left) != 1 || strings.Count(res.Left[0].Path, "/") != depth {
		t.Errorf("%+v: %v", res, err)
	}
	r := p.review(t)
	chosen, err := r.Select([]string{"."})
	must(t, errors.Join(err, p.view.Discard(r, chosen, []string{"."})))
	if left := p.review(t).Changes; len(left) > 0 {
		t.Errorf("still %d changes", len(left))
	}
}
