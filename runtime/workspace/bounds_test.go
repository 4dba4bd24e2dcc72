package workspace

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/refusal"
)

// TestBounds: a layer beyond the number of policy's, and one that leaves less free than policy has, are refused by name with nothing made,
// be it a view's, a home's or a root's.
func TestBounds(t *testing.T) {
	s := diskStore(t)
	before, err := BoundDevices()
	if err != nil {
		t.Fatal(err)
	}
	first, err := s.ThrowAway(MinSize, 1000, mountFlags)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	if now, err := BoundDevices(); err != nil || now.Roots < 1 || now.RootBytes < MinSize || now.All < before.All {
		t.Errorf("%+v, then %+v, %v", before, now, err)
	}
	dir, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	_, free, err := s.Free()
	if err != nil {
		t.Fatal(err)
	}
	left := func() (names []string) {
		list, _ := os.ReadDir(s.Dir)
		for _, e := range list {
			if !strings.HasPrefix(e.Name(), ".template-") {
				names = append(names, e.Name())
			}
		}
		return names
	}
	for _, c := range []struct {
		bounds Bounds
		want   string
	}{
		{Bounds{Layers: 1}, "layers on disk, of at most 1 (remedy: end jails that are not needed, or policy: disk.layers)"},
		{Bounds{Free: free}, "are to stay free (remedy: "},
	} {
		s.Bounds = c.bounds
		for what, do := range map[string]func() error{
			"view": func() error { return s.Make(&Record{Size: MinSize, Files: 1000}, dir) },
			"root": func() error { _, err := s.ThrowAway(MinSize, 1000, mountFlags); return err },
			"home": func() error {
				return errors.Join(s.Bounds.Home(s.Dir, MinSize), func() error {
					if c.bounds.Layers == 0 {
						return nil
					}
					_, err := s.MountHome(dir, 0)
					return err
				}())
			},
		} {
			if err := do(); !errors.Is(err, refusal.Err) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), what) {
				t.Errorf("%s: %v", what, err)
			}
		}
		if l := left(); len(l) > 0 {
			t.Errorf("made: %q", l)
		}
	}
}

// TestThrowAwayEnds: the blocks of a root's layer are free again with its mount, and no file of it has had a name.
func TestThrowAwayEnds(t *testing.T) {
	s := diskStore(t)
	tree, err := s.ThrowAway(64<<20, 1000, mountFlags)
	if err != nil {
		t.Fatal(err)
	}
	var fs unix.Statfs_t
	if err := unix.Fstatfs(int(tree.Fd()), &fs); err != nil || int64(fs.Type) != unix.EXT4_SUPER_MAGIC || fs.Files > 1000 {
		t.Errorf("%v: %+v", err, fs)
	}
	bound := func() bool {
		files, _ := filepath.Glob("/sys/block/loop*/loop/backing_file")
		for _, f := range files {
			if text, err := os.ReadFile(f); err == nil && strings.HasPrefix(string(text), s.Dir+"/") {
				return true
			}
		}
		return false
	}
	if !bound() {
		t.Error("no loop device")
	}
	tree.Close()
	if err := poll(patience, func() (bool, error) { return !bound(), nil }); err != nil {
		t.Errorf("the loop device: %v", err)
	}
}

// TestInMemory: a root's layer in a directory in memory is refused by name, with nothing made.
func TestInMemory(t *testing.T) {
	const memory = "/dev/shm"
	var fs unix.Statfs_t
	if unix.Statfs(memory, &fs) != nil || int64(fs.Type) != unix.TMPFS_MAGIC {
		t.Skip(memory + " is no tmpfs")
	}
	if err := CheckHost(); err != nil {
		t.Skip(err)
	}
	s := Store{Dir: filepath.Join(memory, "agentjail-none", "w")}
	if _, err := s.ThrowAway(MinSize, 1000, 0); !errors.Is(err, refusal.Err) || !strings.Contains(err.Error(), "is in memory (remedy: mount a disk there") {
		t.Error(err)
	}
	if _, err := os.Lstat(filepath.Dir(s.Dir)); err == nil {
		t.Error("something was made")
	}
}

// TestRoundFiles: mkfs.ext4 never makes more inodes than a layer may have.
func TestRoundFiles(t *testing.T) {
	for _, c := range []struct{ size, files, want int64 }{
		{8 << 30, 1 << 18, 1 << 18}, {64 << 20, 1000, 992}, {256<<20 + 1, 1000, 960}, {64 << 20, 5, 16},
	} {
		if got := roundFiles(c.size, c.files); got != c.want {
			t.Errorf("%d, %d: %d, and not %d", c.size, c.files, got, c.want)
		}
	}
}
