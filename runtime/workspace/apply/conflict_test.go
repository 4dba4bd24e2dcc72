package apply

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/callfilter"
	"agentjail.dev/runtime/kernel/pathname"
	"agentjail.dev/runtime/workspace/review"
	"agentjail.dev/seccomp/bpf/filtertest"
)

// paths are those of problems.
func paths(list []Problem) (out []string) {
	for _, p := range list {
		out = append(out, p.Path)
	}
	return out
}

// TestConflicts: what the owner changed since the view began is a conflict by name; nothing is
// applied then, or the rest with --each. What an apply changed is none.
func TestConflicts(t *testing.T) {
	p := newPlace(t, project)
	m := p.merged
	p.write(t, m, map[string]string{"a.txt": "agent\n", "both": "agent\n", "b.txt": "agent\n", "src/deep/y": "y\n", "new/x": "x\n"})
	for _, name := range []string{"gone", "lib", "link", "src/old.go"} {
		must(t, os.RemoveAll(m+"/"+name))
	}
	p.unmount(t)
	p.write(t, p.dir, map[string]string{"a.txt": "owner\n", "both": "owner\n", "lib/three": "owner\n", "link": "->b.txt", "same.txt": "owner\n"})
	before := list(t, p.dir)
	want := []string{"a.txt", "both", "lib", "link"}
	res, err := p.apply(t, Options{})
	if !errors.Is(err, ErrConflicts) || !slices.Equal(paths(res.Conflicts), want) || len(res.Applied) > 0 {
		t.Errorf("%+v: %v", res, err)
	}
	if got := list(t, p.dir); got != before {
		t.Errorf("the directory is\n%s\nnot\n%s", got, before)
	}
	if res, err := p.apply(t, Options{}, "src/deep"); err != nil || !slices.Equal(res.Applied, []string{"src/deep/y"}) {
		t.Errorf("%+v: %v", res, err)
	}
	res, err = p.apply(t, Options{Each: true})
	if err != nil || !slices.Equal(paths(res.Conflicts), want) || !slices.Equal(res.Applied, []string{"b.txt", "gone", "new", "src/old.go"}) {
		t.Errorf("%+v: %v", res, err)
	}
	if got := list(t, p.dir); !strings.Contains(got, "a.txt 100644 1234:1235 owner\n") || !strings.Contains(got, "lib/three") || strings.Contains(got, "gone") {
		t.Errorf("the directory is\n%s", got)
	}
	// The view goes on: what it changes of the applied files is no conflict.
	p.mount(t)
	must(t, os.RemoveAll(m+"/src"))
	must(t, os.RemoveAll(m+"/new"))
	p.write(t, m, map[string]string{"b.txt": "again\n"})
	p.unmount(t)
	if res, err := p.apply(t, Options{Each: true}); err != nil || !slices.Equal(paths(res.Conflicts), want) || !slices.Equal(res.Applied, []string{"b.txt", "new", "src"}) {
		t.Errorf("%+v: %v", res, err)
	}
}

// TestSourceMoved: what a renamed directory of the view shows, the owner has renamed, too: what the
// view has is no longer all that the jail saw.
func TestSourceMoved(t *testing.T) {
	p := newPlace(t, project)
	must(t, os.Rename(p.merged+"/lib", p.merged+"/lib2"))
	p.write(t, p.merged, map[string]string{"lib2/one": "agent\n"})
	p.unmount(t)
	must(t, os.Rename(p.dir+"/lib", p.dir+"/other"))
	if res, err := p.apply(t, Options{}); !errors.Is(err, ErrConflicts) || !slices.Equal(paths(res.Conflicts), []string{"lib2"}) {
		t.Errorf("%+v: %v", res, err)
	}
}

// TestImplied: of what is as it was in a renamed directory, the review shows what an apply leaves
// out.
func TestImplied(t *testing.T) {
	p := newPlace(t, map[string]string{"lib/one": "1\n", "lib/.vscode/settings.json": "{}\n", "lib/out": "->/etc/passwd"})
	must(t, os.Rename(p.merged+"/lib", p.merged+"/lib2"))
	p.unmount(t)
	if got := changes(p.review(t)); got != "R lib/ -> lib2/, A lib2/.vscode/, A lib2/.vscode/settings.json, A lib2/out -> /etc/passwd" {
		t.Error(got)
	}
	if res, err := p.apply(t, Options{}); err != nil || !slices.Equal(paths(res.Left), []string{"lib2/.vscode", "lib2/out", "lib"}) {
		t.Errorf("%+v: %v", res, err)
	}
}

// TestNotUTF8: a program gets the path of a file whose name JSON does not have, the names of
// changes, and what an apply has done and left.
func TestNotUTF8(t *testing.T) {
	p := newPlace(t, map[string]string{"lib\xff/one": "1\n"})
	p.write(t, p.merged, map[string]string{"bad\xff": "1"})
	must(t, os.Rename(p.merged+"/lib\xff", p.merged+"/moved"))
	must(t, os.Symlink("/etc\xff", p.merged+"/out\xff"))
	text, err := json.Marshal(p.review(t).Changes)
	must(t, err)
	var all []struct{ Kind, Path, From, Target pathname.Text }
	must(t, json.Unmarshal(text, &all))
	var got []string
	for _, c := range all {
		got = append(got, fmt.Sprintf("%s %s<%s>%s", c.Kind, c.Path, c.From, c.Target))
	}
	for _, want := range []string{"A bad\xff<>", "R moved<lib\xff>", "A out\xff<>/etc\xff"} {
		if !slices.Contains(got, want) {
			t.Errorf("%q has no %q: %s", got, want, text)
		}
	}
	p.own(t, p.merged)
	p.unmount(t)
	res, err := p.apply(t, Options{})
	must(t, err)
	text, err = json.Marshal(res.ToJSON())
	must(t, err)
	var done Result
	must(t, json.Unmarshal(text, &done))
	if len(done.Applied) != 3 || pathname.FromJSON(done.Applied[0]) != "bad\xff" || len(done.Left) != 1 ||
		pathname.FromJSON(done.Left[0].Path) != "out\xff" || res.Applied[0] != "bad\xff" || res.Left[0].Path != "out\xff" {
		t.Errorf("%s", text)
	}
}

// TestMeanwhile: what the owner changes between the comparison and the apply is a conflict, too,
// and stays.
func TestMeanwhile(t *testing.T) {
	for at, change := range map[string]func(dir string) error{
		"b.txt": func(dir string) error { return os.WriteFile(dir+"/b.txt", []byte("own\n"), 0o600) },
		"a.txt": func(dir string) error { // of the same size and time
			st, err := os.Stat(dir + "/a.txt")
			return errors.Join(err, os.WriteFile(dir+"/a.txt", []byte("x\n"), 0o600), os.Chtimes(dir+"/a.txt", st.ModTime(), st.ModTime()))
		},
		"turn": func(dir string) error { return os.WriteFile(dir+"/turn/more", nil, 0o600) },
		"gone": func(dir string) error { return os.Chmod(dir+"/gone/file", 0o600) },
		"new":  func(dir string) error { return os.Mkdir(dir+"/new", 0o700) },
		"swap": func(dir string) error { return os.Remove(dir + "/swap") },
		"src/deep/y": func(dir string) error {
			return errors.Join(os.Rename(dir+"/src", dir+"/moved"), os.Symlink("moved", dir+"/src"))
		},
	} {
		for _, each := range []bool{false, true} {
			p := newPlace(t, project)
			work1(t, p)
			p.unmount(t)
			r := p.review(t)
			must(t, change(p.dir))
			before := list(t, p.dir)
			res, err := p.view.Run(t.Context(), r, r.Changes, Options{Each: each})
			if !slices.Contains(paths(res.Conflicts), at) || each != (err == nil) {
				t.Errorf("%s: %+v: %v", at, res, err)
			}
			if got := list(t, p.dir); !each && got != before {
				t.Errorf("%s: the directory is\n%s\nnot\n%s", at, got, before)
			}
		}
	}
}

// TestFullDisk: nothing is applied where there is no room for all, and nothing is left.
func TestFullDisk(t *testing.T) {
	p := newPlace(t, project)
	for i := range 20 {
		must(t, os.WriteFile(fmt.Sprintf("%s/big%d", p.merged, i), make([]byte, 100_000), 0o644))
	}
	must(t, os.Remove(p.merged+"/a.txt"))
	p.own(t, p.merged)
	p.unmount(t)
	before := list(t, p.dir)
	must(t, unix.Mount("none", p.top, "", unix.MS_REMOUNT, "size=3m"))
	if res, err := p.apply(t, Options{}); err == nil || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("%+v: %v", res, err)
	}
	if got := list(t, p.dir); got != before || isPending(p.view.Journal) {
		t.Errorf("the directory is\n%s\nnot\n%s", got, before)
	}
	must(t, unix.Mount("none", p.top, "", unix.MS_REMOUNT, "size=30m"))
	if _, err := p.apply(t, Options{}); err != nil {
		t.Error(err)
	}
}

// TestOthersStaging: what another process has at the staging directory's name stays, and nothing
// is applied; then it is.
func TestOthersStaging(t *testing.T) {
	p := newPlace(t, project)
	p.write(t, p.merged, map[string]string{"a.txt": "agent\n"})
	p.unmount(t)
	p.write(t, p.dir, map[string]string{review.StagingPrefix + "test/0": "another's\n"})
	before := list(t, p.dir)
	if res, err := p.apply(t, Options{}); err == nil || !strings.Contains(err.Error(), "remove it") {
		t.Errorf("%+v: %v", res, err)
	}
	if got := list(t, p.dir); got != before || isPending(p.view.Journal) {
		t.Errorf("the directory is\n%s\nnot\n%s", got, before)
	}
	must(t, os.RemoveAll(p.dir+"/"+review.StagingPrefix+"test"))
	if _, err := p.apply(t, Options{}); err != nil {
		t.Error(err)
	}
}

// TestUnfinished: an apply whose journal cannot be written any more is finished by a later call.
func TestUnfinished(t *testing.T) {
	p := newPlace(t, project)
	work1(t, p)
	view := list(t, p.merged)
	p.unmount(t)
	small := p.top + "/small"
	must(t, os.Mkdir(small, 0o700))
	must(t, unix.Mount("none", small, "tmpfs", 0, "nr_inodes=4")) // itself, the journal, and two files of it
	t.Cleanup(func() { _ = unix.Unmount(small, unix.MNT_DETACH) })
	p.view.Journal = small + "/journal"
	if res, err := p.apply(t, Options{}); err == nil || !strings.Contains(err.Error(), "agentjail gc") || len(res.Applied) > 0 || !isPending(p.view.Journal) {
		t.Errorf("%+v: %v", res, err)
	}
	must(t, unix.Mount("none", small, "", unix.MS_REMOUNT, "nr_inodes=20"))
	if _, done, pending, err := p.view.recoverJournal(t.Context()); err != nil || !done || !pending {
		t.Errorf("done %v, pending %v: %v", done, pending, err)
	}
	if got := list(t, p.dir); got != view || isPending(p.view.Journal) {
		t.Errorf("the directory is\n%s\nnot\n%s", got, view)
	}
}

// TestOthersFile: what only root can read is not copied to the owner, whatever its mode.
func TestOthersFile(t *testing.T) {
	p := newPlace(t, map[string]string{"lib/secret": "s\n", "lib/x": "x\n"})
	must(t, os.Chown(p.dir+"/lib/secret", 0, 0))
	must(t, os.Chmod(p.dir+"/lib/secret", 0o040))
	p.settled(t)
	must(t, os.Rename(p.merged+"/lib", p.merged+"/lib2"))
	p.unmount(t)
	res, err := p.apply(t, Options{Each: true})
	must(t, err)
	if _, err := os.Lstat(p.dir + "/lib2/secret"); err == nil || !slices.Contains(paths(res.Conflicts), "lib2/secret") {
		t.Errorf("%+v: %v", res, err)
	}
	if _, err := os.Lstat(p.dir + "/lib/secret"); err != nil {
		t.Errorf("the file is lost: %v", err)
	}
}

// TestDiscard: what is discarded by a path shows no more, and the rest still does.
func TestDiscard(t *testing.T) {
	p := newPlace(t, project)
	work1(t, p)
	must(t, os.RemoveAll(p.merged+"/src/deep"))
	p.write(t, p.merged, map[string]string{"src/deep/z": "z\n"})
	p.unmount(t)
	discard := func(paths ...string) error {
		r := p.review(t)
		chosen, err := r.Select(paths)
		must(t, err)
		return p.view.Discard(r, chosen, paths)
	}
	must(t, discard("a.txt", "lib2", "new/dir", "gone", "b.txt"))
	if err := discard("src/deep/x"); err == nil || !strings.Contains(err.Error(), "as a whole") {
		t.Errorf("a part of a new directory: %v", err)
	}
	must(t, discard("src/deep"))
	if got, want := changes(p.review(t)), "A inner -> src/main.go, A new.txt, A new/, A new/empty/, D src/old.go, T swap/, A swap/is/, A swap/is/dir, T turn"; got != want {
		t.Errorf("%s\nnot\n%s", got, want)
	}
	p.view.Live = true
	if err := discard("turn"); err == nil {
		t.Error("discarded while a jail has the view")
	}
	p.view.Live = false
	must(t, discard("."))
	if got := changes(p.review(t)); got != "" {
		t.Errorf("still %s", got)
	}
}

// TestFilter: the process that applies makes no device and no pipe, changes no owner and
// attribute, runs no program and has no network.
func TestFilter(t *testing.T) {
	const pid = 4711
	run := filtertest.Runner(t, filter(pid, gid))
	denied := uint32(unix.SECCOMP_RET_ERRNO) | uint32(unix.EPERM)
	for nr, want := range map[uint32]uint32{
		unix.SYS_OPENAT2: unix.SECCOMP_RET_ALLOW, unix.SYS_RENAMEAT2: unix.SECCOMP_RET_ALLOW, statCall: unix.SECCOMP_RET_ALLOW, unix.SYS_MKNODAT: denied,
		unix.SYS_FCHOWNAT: denied, unix.SYS_FSETXATTR: denied, unix.SYS_EXECVE: denied, unix.SYS_SOCKET: denied, unix.SYS_LINKAT: denied,
		unix.SYS_OPENAT: denied, unix.SYS_PTRACE: denied, unix.SYS_MOUNT: denied, unix.SYS_SETXATTR: denied, unix.SYS_IO_URING_SETUP: denied,
	} {
		if got := run(callfilter.Arch, nr); got != want {
			t.Errorf("call %d: %#x, not %#x", nr, got, want)
		}
	}
}
