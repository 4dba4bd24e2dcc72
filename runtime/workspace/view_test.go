package workspace

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/openat"
	"agentjail.dev/runtime/refusal"
	"agentjail.dev/runtime/spec/policy"
	"agentjail.dev/runtime/version/form"
	"agentjail.dev/runtime/workspace/review"
)

// size is the test's: the smallest.
const size = MinSize

// begun makes a store with a view of a directory, and opens it for a jail.
func begun(t *testing.T, name string) (Store, *Record, *os.File, *os.File) {
	t.Helper()
	s, dir := newStore(t), t.TempDir()
	if err := errors.Join(os.Chown(dir, 1000, 1001), os.Chmod(dir, 0o750), os.WriteFile(filepath.Join(dir, "old"), []byte("old"), 0o644)); err != nil {
		t.Fatal(err)
	}
	lower, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { lower.Close() })
	r := &Record{Name: name, At: "/w", Jail: "j", Key: "k-j", Size: size, Files: 1000}
	if err := s.Make(r, lower); err != nil {
		t.Fatal(err)
	}
	return s, r, lower, begin(t, s, r, lower)
}

func begin(t *testing.T, s Store, r *Record, lower *os.File) *os.File {
	t.Helper()
	tree, lock, err := s.Begin(r, lower)
	if err != nil {
		t.Fatal(err)
	}
	lock.Close()
	t.Cleanup(func() { tree.Close() })
	return tree
}

// write makes a file in the upper directory.
func write(t *testing.T, tree *os.File, name string) {
	t.Helper()
	fd, err := unix.Openat(int(tree.Fd()), upperDir+"/"+name, unix.O_CREAT|unix.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	_ = unix.Close(fd)
}

// TestPathNotUTF8: the record has the path of a directory whose name JSON does not have.
func TestPathNotUTF8(t *testing.T) {
	s := Store{Dir: t.TempDir()}
	r := &Record{ID: "one", Path: "/bad\xff", State: Ended}
	if err := errors.Join(os.Mkdir(filepath.Join(s.Dir, r.ID), 0o700), s.save(r)); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Open("one"); err != nil || got.Path != r.Path {
		t.Errorf("%+v: %v", got, err)
	}
}

// TestViewOfAnotherRelease: a view of a form that this release does not know is neither begun with, read nor ended, and can be discarded.
func TestViewOfAnotherRelease(t *testing.T) {
	s, r, lower, tree := begun(t, "kept")
	tree.Close()
	r.Form = form.Number + 1
	if err := s.save(r); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Begin(r, lower); err == nil || !strings.Contains(err.Error(), "(remedy: the release that made it") {
		t.Errorf("begun: %v", err)
	}
	if _, err := s.OpenLayers(r); err == nil || !strings.Contains(err.Error(), "(remedy: the release that made it") {
		t.Errorf("read: %v", err)
	}
	if err := s.End(r.Key); err != nil {
		t.Error(err)
	}
	if got, err := s.Open(r.ID); err != nil || got.State != Open || got.Form != r.Form {
		t.Errorf("after its jail's end: %+v, %v", got, err)
	}
	if err := s.Discard(r); err != nil {
		t.Error(err)
	}
}

// TestBeginFails: nothing of a view stays mounted that a jail could not begin with.
func TestBeginFails(t *testing.T) {
	s, r, lower, tree := begun(t, "")
	if err := unix.Unlinkat(int(tree.Fd()), upperDir, unix.AT_REMOVEDIR); err != nil {
		t.Fatal(err)
	}
	tree.Close()
	if _, _, err := s.Begin(r, lower); !errors.Is(err, unix.ENOENT) {
		t.Errorf("%v", err)
	}
	if err := s.unmounted(r); err != nil {
		t.Error(err)
	}
}

// TestMountedTogether: all calls that mount an image at one time get one file system.
func TestMountedTogether(t *testing.T) {
	s, r, _, tree := begun(t, "")
	tree.Close()
	for range 10 {
		if err := s.unmounted(r); err != nil {
			t.Fatal(err)
		}
		trees, errs := make([]*os.File, 8), make([]error, 8)
		var wait sync.WaitGroup
		for i := range trees {
			wait.Go(func() { trees[i], errs[i] = mountImage(s.path(r.ID, imageFile), mountFlags) })
		}
		wait.Wait()
		devs := map[uint64]bool{}
		for i, tree := range trees {
			if errs[i] != nil {
				t.Error(errs[i])
				continue
			}
			var st unix.Stat_t
			if err := unix.Fstat(int(tree.Fd()), &st); err != nil {
				t.Error(err)
			}
			devs[st.Dev] = true
			tree.Close()
		}
		if len(devs) != 1 {
			t.Fatalf("%d file systems", len(devs))
		}
	}
}

func impatient(t *testing.T) {
	was := patience
	patience = 20 * time.Millisecond
	t.Cleanup(func() { patience = was })
}

func TestView(t *testing.T) {
	s, r, lower, tree := begun(t, "mine")
	kept := strings.Repeat("what the jail wrote\n", 1<<12)
	if err := os.WriteFile(openat.Proc(int(tree.Fd()))+"/"+upperDir+"/new", []byte(kept), 0o600); err != nil {
		t.Fatal(err)
	}
	if room := s.Held([]*Record{r}); room < size {
		t.Errorf("the new view has %d bytes on the disk, and its size is %d", room, int64(size))
	}
	if r.UID != 1000 || r.GID != 1001 || r.Mode != 0o750 || r.State != Open || r.Path != lower.Name() {
		t.Errorf("%+v", r)
	}
	for _, ref := range []string{r.ID, "mine", r.ID[:5]} {
		if got, err := s.Open(ref); err != nil || got.ID != r.ID || got.State != Open {
			t.Errorf("%s: %+v, %v", ref, got, err)
		}
	}
	for _, ref := range []string{"", "min", "none", "../x"} {
		if _, err := s.Open(ref); !errors.Is(err, ErrNotFound) {
			t.Errorf("%q: %v", ref, err)
		}
	}
	l, err := s.OpenLayers(r)
	if err != nil {
		t.Fatal(err)
	}
	if f, err := openat.File(int(l.Upper.Fd()), "new", openat.Beneath, unix.O_RDONLY); err != nil || !l.Live {
		t.Errorf("live %v: %v", l.Live, err)
	} else {
		f.Close()
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(l.Upper.Fd()), &st); err != nil || st.Uid != 1000 || st.Gid != 1001 || st.Mode&0o7777 != 0o750 {
		t.Errorf("upper: %+v, %v", st, err)
	}
	l.Close()
	tree.Close()
	if err := s.End(r.Key); err != nil {
		t.Fatal(err)
	}
	all, err := s.List()
	if err != nil || len(all) != 1 || all[0].State != Ended {
		t.Fatalf("%+v, %v", all, err)
	}
	if room := s.Held(all); room > size/2 {
		t.Errorf("the ended view has %d bytes on the disk, and its size is %d", room, int64(size))
	}
	again := begin(t, s, all[0], lower)
	if room := s.Held(all); room < size {
		t.Errorf("the open view has %d bytes on the disk, and its size is %d", room, int64(size))
	}
	if text, err := os.ReadFile(openat.Proc(int(again.Fd())) + "/" + upperDir + "/new"); err != nil || string(text) != kept {
		t.Errorf("%d bytes, %v", len(text), err)
	}
	again.Close()
	if err := s.Discard(r); err != nil {
		t.Fatal(err)
	}
	if all, err := s.List(); err != nil || len(all) != 0 {
		t.Errorf("%+v, %v", all, err)
	}
}

// TestOneJail: a view is of one jail, and of none while it is read; the kernel mounts a second
// overlay over the same directory.
func TestOneJail(t *testing.T) {
	s, r, lower, tree := begun(t, "")
	write(t, tree, "new")
	impatient(t)
	refused := func(what, why string, err error) {
		t.Helper()
		if !errors.Is(err, refusal.Err) || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, _, err := s.Begin(r, lower)
	refused("second jail", "jail j has it", err)
	refused("discard", "jail j has it", s.Discard(r))
	tree.Close()
	patience = 5 * time.Second
	if err := s.End(r.Key); err != nil {
		t.Fatal(err)
	}
	l, err := s.OpenLayers(r)
	if err != nil || l.Live {
		t.Fatalf("%+v, %v", l, err)
	}
	impatient(t)
	_, _, err = s.Begin(r, lower)
	refused("while it is read", "reads or applies", err)
	l.Close()
	patience = 5 * time.Second
	begin(t, s, r, lower)
	other, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	_, _, err = s.Begin(r, other)
	refused("another directory", "it is of "+lower.Name(), err)
}

// TestKeepMounted: a process that ends soon mounts a view once, for its end and what is read of it.
func TestKeepMounted(t *testing.T) {
	s, r, _, tree := begun(t, "kept")
	image, err := os.Open(s.path(r.ID, imageFile))
	if err != nil {
		t.Fatal(err)
	}
	defer image.Close()
	t.Cleanup(func() {
		for _, fd := range kept.trees {
			_ = unix.Close(fd)
		}
		kept.on, kept.trees = false, nil
	})
	KeepMounted()
	write(t, tree, "new")
	tree.Close()
	if err := s.End(r.Key); err != nil {
		t.Fatal(err)
	}
	l, err := s.OpenLayers(r)
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	device, err := boundTo(image)
	if err != nil || device == nil {
		t.Fatalf("the view is not mounted any more: %v", err)
	}
	device.Close()
	if len(kept.trees) != 2 {
		t.Errorf("%d mounts are kept", len(kept.trees))
	}
}

// TestEmptyEnds: a view without a change goes, with a name or without.
func TestEmptyEnds(t *testing.T) {
	for _, name := range []string{"", "named"} {
		s, r, _, tree := begun(t, name)
		tree.Close()
		if err := s.End(r.Key); err != nil {
			t.Fatal(err)
		}
		if all, err := s.List(); err != nil || len(all) != 0 {
			t.Errorf("name %q: %+v, %v", name, all, err)
		}
	}
}

// TestRemovalCutOff: whatever the removal of a view has left is listed, and removed by the next call.
func TestRemovalCutOff(t *testing.T) {
	for name, remove := range map[string]func(Store, *Record) error{
		"discard": Store.Discard,
		"gc":      func(s Store, _ *Record) error { return s.Sweep(func(string) bool { return false }) },
		"delete":  func(s Store, r *Record) error { return s.End(r.Key) },
	} {
		s, r, lower, tree := begun(t, "")
		tree.Close()
		if err := errors.Join(s.unmounted(r), os.Remove(s.path(r.ID, imageFile))); err != nil {
			t.Fatal(err)
		}
		if all, err := s.List(); err != nil || len(all) != 1 {
			t.Errorf("%s: listed: %+v, %v", name, all, err)
		}
		if _, _, err := s.Begin(r, lower); err == nil {
			t.Errorf("%s: a jail begins with what is left of a view", name)
		}
		if err := remove(s, r); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if all, err := s.List(); err != nil || len(all) != 0 {
			t.Errorf("%s: left: %+v, %v", name, all, err)
		}
	}
}

// TestDirectoryReplaced: a view is of the directory that it began over, and of nothing that has its path by now.
func TestDirectoryReplaced(t *testing.T) {
	s, r, _, tree := begun(t, "kept")
	write(t, tree, "new")
	tree.Close()
	if err := s.End(r.Key); err != nil {
		t.Fatal(err)
	}
	moved := r.Path + "-moved"
	for what, replace := range map[string]func() error{
		"a link to it":      func() error { return os.Symlink(moved, r.Path) },
		"another directory": func() error { return os.Mkdir(r.Path, 0o755) },
		"a mount": func() error {
			return errors.Join(os.Mkdir(r.Path, 0o755), unix.Mount("none", r.Path, "tmpfs", 0, ""))
		},
		"nothing": func() error { return nil },
	} {
		if err := errors.Join(os.Rename(r.Path, moved), replace()); err != nil {
			t.Fatal(err)
		}
		if l, err := s.OpenLayers(r); err == nil {
			l.Close()
			t.Errorf("%s is taken for the directory", what)
		} else if !strings.Contains(err.Error(), "remedy: ") {
			t.Errorf("%s: %v", what, err)
		}
		_ = unix.Unmount(r.Path, unix.MNT_DETACH)
		_ = os.Remove(r.Path)
		if err := os.Rename(moved, r.Path); err != nil {
			t.Fatal(err)
		}
		l, err := s.OpenLayers(r)
		if err != nil {
			t.Fatalf("after %s: %v", what, err)
		}
		l.Close()
	}
}

// TestIncomplete: a view that was open in another boot is read, and never mounted for a jail.
func TestIncomplete(t *testing.T) {
	s, r, lower, tree := begun(t, "")
	write(t, tree, "new")
	tree.Close()
	s.Boot = "next"
	got, err := s.Open(r.ID)
	if err != nil || got.State != Incomplete {
		t.Fatalf("%+v, %v", got, err)
	}
	if _, _, err := s.Begin(got, lower); !errors.Is(err, refusal.Err) {
		t.Errorf("begun with %v", err)
	}
	l, err := s.OpenLayers(got)
	if err != nil || l.Live {
		t.Fatalf("%+v, %v", l, err)
	}
	l.Close()
	if err := os.WriteFile(s.path(r.ID, recordFile), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Open(r.ID); err != nil || got.State != Incomplete {
		t.Errorf("without a record's text: %+v, %v", got, err)
	}
}

// TestRoom: a layer that the disk has no room for is refused before anything is made.
func TestRoom(t *testing.T) {
	s, _, lower, _ := begun(t, "taken")
	for _, r := range []*Record{{Size: 1 << 50, Files: 1000}, {Size: size, Files: 1000, Name: "taken"}, {Size: size, Files: 1000, Name: "a/b"}} {
		if err := s.Make(r, lower); !errors.Is(err, refusal.Err) {
			t.Errorf("%+v: %v", r, err)
		}
	}
	if all, err := os.ReadDir(s.Dir); err != nil || len(all) != 2 { // the view and the template
		t.Errorf("%v, %v", all, err)
	}
}

// begunOnSmall is a view that a jail has, on a disk with little more room than it takes.
func begunOnSmall(t *testing.T) (s Store, r *Record, lower, tree *os.File) {
	t.Helper()
	_, _, lower, _ = begun(t, "")
	s = Store{Dir: t.TempDir(), Boot: "this"}
	if err := unix.Mount("none", s.Dir, "tmpfs", 0, "size=20m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(s.Dir, unix.MNT_DETACH) })
	r = &Record{Name: "x", Key: "k", Size: size, Files: 1000}
	if err := s.Make(r, lower); err != nil {
		t.Fatal(err)
	}
	return s, r, lower, begin(t, s, r, lower)
}

// TestRoomAgain: an ended view that no longer fits on the disk is refused by name, and takes up nothing more.
func TestRoomAgain(t *testing.T) {
	s, r, lower, tree := begunOnSmall(t)
	write(t, tree, "new")
	tree.Close()
	filler := filepath.Join(s.Dir, "filler")
	err := errors.Join(s.End("k"), os.WriteFile(filler, make([]byte, 8<<20), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	held := s.Room(r)
	if _, _, err := s.Begin(r, lower); !errors.Is(err, refusal.Err) || !strings.Contains(err.Error(), "MiB free") || s.Room(r) != held {
		t.Errorf("%v; %d bytes held, and then %d", err, held, s.Room(r))
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	begin(t, s, r, lower).Close()
}

// TestFullHost: what a jail writes is kept where the host's disk gets full meanwhile.
func TestFullHost(t *testing.T) {
	s, r, _, tree := begunOnSmall(t)
	if err := os.WriteFile(filepath.Join(s.Dir, "filler"), make([]byte, 32<<20), 0o600); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("the host's disk is not full: %v", err)
	}
	text := []byte(strings.Repeat("what the jail wrote\n", 1<<16))
	f, err := os.Create(openat.Proc(int(tree.Fd())) + "/" + upperDir + "/new")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(text); err != nil {
		t.Error(err)
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		t.Error(err)
	}
	tree.Close()
	if err := s.End(r.Key); err != nil && !errors.Is(err, unix.ENOSPC) { // of the record
		t.Error(err)
	}
	l, err := s.OpenLayers(r)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if got, err := os.ReadFile(openat.Proc(int(l.Upper.Fd())) + "/new"); err != nil || !bytes.Equal(got, text) {
		t.Errorf("%d of %d bytes are left: %v", len(got), len(text), err)
	}
}

func TestSweep(t *testing.T) {
	s, r, _, tree := begun(t, "")
	if err := os.MkdirAll(filepath.Join(s.Dir, newPrefix+"x", "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := s.Sweep(func(string) bool { return true }); err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(filepath.Join(s.Dir, newPrefix+"*")); len(left) != 0 {
		t.Errorf("%v", left)
	}
	if got, err := s.Open(r.ID); err != nil || got.State != Open {
		t.Errorf("%+v, %v", got, err)
	}
	write(t, tree, "new")
	tree.Close()
	if err := s.Sweep(func(string) bool { return false }); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Open(r.ID); err != nil || got.State != Ended {
		t.Errorf("of a jail that is gone: %+v, %v", got, err)
	}
}

// TestExpired: views that no jail has expire by their age, and the ones used longest ago by the size of all.
func TestExpired(t *testing.T) {
	s := Store{Dir: t.TempDir(), Boot: "this"}
	var all []*Record
	for i, state := range []State{Open, Ended, Ended, Incomplete} { // the last is the oldest
		r := &Record{ID: string(rune('a' + i)), State: state, Boot: "this"}
		used := time.Now().Add(-time.Duration(i) * time.Hour)
		if err := errors.Join(os.Mkdir(filepath.Join(s.Dir, r.ID), 0o700), s.save(r), os.WriteFile(s.path(r.ID, imageFile), make([]byte, 1<<20), 0o600),
			os.Chtimes(s.path(r.ID, recordFile), used, used)); err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	one := s.Room(all[0])
	for _, c := range []struct {
		age  time.Duration
		size int64
		want string
	}{
		{0, 0, ""},
		{90 * time.Minute, 0, "dc"},
		{time.Nanosecond, 0, "dcb"},
		{0, 4 * one, ""},
		{0, 4*one - 1, "d"},
		{0, 2 * one, "dc"},
		{0, 1, "dcb"},
		{150 * time.Minute, 3 * one, "d"}, // after the old one the size holds
	} {
		got := ""
		for _, r := range s.Expired(all, c.age, c.size) {
			got += r.ID
		}
		if got != c.want {
			t.Errorf("%v, %d: %q, and not %q", c.age, c.size, got, c.want)
		}
	}
}

// TestHostLacks: without mkfs.ext4 or loop devices a view is refused by name, with nothing made.
func TestHostLacks(t *testing.T) {
	lower, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer lower.Close()
	t.Setenv("PATH", t.TempDir())
	wasMkfs, wasLoop := mkfs, loopControl
	t.Cleanup(func() { mkfs, loopControl = wasMkfs, wasLoop })
	for _, c := range []struct{ mkfs, loop, want string }{
		{"/nonexistent", "/dev/null", "mkfs.ext4, which makes its file system, is not installed (remedy: apt-get install e2fsprogs"},
		{"/bin/true", "/nonexistent", "no loop devices: lstat /nonexistent: no such file or directory (remedy: modprobe loop)"},
	} {
		mkfs, loopControl = c.mkfs, c.loop
		s := Store{Dir: filepath.Join(t.TempDir(), "w")}
		if err := s.Make(&Record{Size: size, Files: 1000}, lower); !errors.Is(err, refusal.Err) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v", err)
		}
		if _, err := os.Lstat(s.Dir); err == nil {
			t.Error("something was made")
		}
		if _, err := (Store{}).MountHome(lower, 0); c.loop == "/nonexistent" && (!errors.Is(err, refusal.Err) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("a home: %v", err)
		}
	}
}

// TestPaths: what is kept of paths is the same for those that are not UTF-8.
func TestPaths(t *testing.T) {
	s, r, _, _ := begun(t, "")
	applied := map[string]int64{".": 1, "a/b": 2, "bad\xff": 3, "bad\xfe": 4}
	bases := map[string]review.Base{"a": {Path: "b\xff", Ctime: 1}, "b\xff": {Path: "c"}}
	if err := errors.Join(s.SaveApplied(r, applied), s.SaveBases(r, bases)); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Applied(r); err != nil || !maps.Equal(got, applied) {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := s.Bases(r); err != nil || !maps.Equal(got, bases) {
		t.Errorf("%v, %v", got, err)
	}
}

// TestSmallest: mkfs.ext4 makes layers of policy's bounds, with as many files as policy has in them.
func TestSmallest(t *testing.T) {
	if _, err := findMkfs(); err != nil {
		t.Skip(err)
	}
	for _, bytes := range []policy.Size{size, 64 << 20, 3<<30 + 5000} {
		p := policy.Default().Workspace
		p.Size = bytes
		image := filepath.Join(t.TempDir(), "image")
		if err := errors.Join(os.WriteFile(image, nil, 0o600), os.Truncate(image, int64(bytes)), makeFS(image, int64(bytes), p.Inodes(), "0:0", journaled(int64(bytes))...)); err != nil {
			t.Errorf("%s, %d files: %v", bytes, p.Inodes(), err)
		}
	}
}
