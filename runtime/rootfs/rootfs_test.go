package rootfs

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// engineRoot makes an overlay of n lower layers and an upper one, as an engine
// does, and returns its merged directory and the layers' names, the lowest first.
func engineRoot(t *testing.T, n int, name func(i int) string) (merged string, layers []string) {
	t.Helper()
	top := t.TempDir()
	for i := range n {
		layers = append(layers, filepath.Join(top, name(i), "diff"))
		put(t, layers[i], "common", fmt.Sprintf("only%d", i), "dir/x:1000")
		must(t, os.WriteFile(filepath.Join(layers[i], "common"), []byte(strconv.Itoa(i)), 0o644))
	}
	upper := filepath.Join(top, "upper")
	put(t, upper, "engine:0:600", "etc/hosts")
	layers = append(layers, upper)
	merged = filepath.Join(top, "merged")
	must(t, os.Mkdir(merged, 0o755))
	must(t, os.Mkdir(filepath.Join(top, "work"), 0o755))
	links := filepath.Join(top, "l") // short names, as engines use, for the page
	must(t, os.Mkdir(links, 0o755))
	var lower []string
	for i := n - 1; i >= 0; i-- {
		must(t, os.Symlink(layers[i], filepath.Join(links, strconv.Itoa(i))))
		lower = append(lower, strconv.Itoa(i))
	}
	must(t, unix.Chdir(links))
	must(t, unix.Unshare(unix.CLONE_FS)) // the working directory is this thread's own
	must(t, unix.Chdir(links))
	must(t, unix.Mount("engine", merged, "overlay", 0, "index=off,lowerdir="+strings.Join(lower, ":")+",upperdir="+upper+",workdir="+filepath.Join(top, "work")), n, " layers")
	must(t, unix.Chdir("/"))
	return merged, layers
}

// TestLayers stages images of few and of many layers, with short and with long
// names: what the top layer states shows, the engine's own additions show, owners
// are the jail's, and writing reaches no layer.
func TestLayers(t *testing.T) {
	short := func(i int) string { return strconv.Itoa(i) }
	long := func(i int) string { return fmt.Sprintf("%064x", i) }
	odd := func(i int) string { return fmt.Sprintf(`a:b,c\%d d`, i) }
	for _, c := range []struct {
		name  string
		n     int
		names func(int) string
	}{{"1", 1, short}, {"10", 10, short}, {"60", 60, short}, {"127", 127, short}, {"127 long", 127, long}, {"60 long", 60, long}, {"3 odd", 3, odd}} {
		t.Run(c.name, func(t *testing.T) {
			onThread(t, func(t *testing.T) {
				merged, layers := engineRoot(t, c.n, c.names)
				// mountinfo shows the short names, relative to a directory that
				// is not known, so the absolute ones are stated here.
				r := request(t, merged)
				s := &stager{rootMaker: newRootMaker(r)}
				defer s.close()
				var dirs []string
				for i := len(layers) - 1; i >= 0; i-- {
					dirs = append(dirs, layers[i])
				}
				var err error
				s.layers, err = commonParent(dirs)
				must(t, err)
				s.lower = []*os.File{clone(t, s)}
				must(t, isolate())
				must(t, s.makeLayer())
				must(t, s.makeRoot())
				want(t, "notes", s.notes, []string(nil))
				wantShortNames(t, s.root, c.n+1)
				want(t, "the links, which are files of the layer's", exists(filepath.Join(s.layer, linksDir)), false)
				want(t, "the top layer", content(t, s.root+"/common"), c.n-1)
				for i := range c.n {
					want(t, "layer", content(t, s.root+"/only"+strconv.Itoa(i)), fmt.Sprintf("only%d", i))
				}
				want(t, "the engine's file", content(t, s.root+"/etc/hosts"), "etc/hosts")
				want(t, "root's owner", owner(s.root), jailed(0))
				want(t, "a root file's owner", owner(s.root+"/common"), jailed(0))
				want(t, "a user file's owner", owner(s.root+"/dir/x"), jailed(1000))
				as(t, base, base, func() {
					must(t, os.WriteFile(s.root+"/common", []byte("changed"), 0o644))
					must(t, os.WriteFile(s.root+"/new", []byte("new"), 0o644))
					must(t, os.Remove(s.root+"/only0"))
					must(t, os.RemoveAll(s.root+"/dir"))
				})
				want(t, "a new file's owner", owner(s.root+"/new"), jailed(0))
				for i, l := range layers[:c.n] {
					want(t, "the engine's layer", content(t, l+"/common"), i)
					want(t, "the engine's owner", owner(l+"/common"), "0:0")
					want(t, "the engine's file", content(t, l+"/dir/x"), "dir/x")
				}
				if _, err := os.Lstat(layers[c.n] + "/new"); err == nil {
					t.Error("the engine's upper layer was written")
				}
			})
		})
	}
}

// wantShortNames holds that a mount table shows of an overlay's layers nothing
// but numbers.
func wantShortNames(t *testing.T, at string, n int) {
	t.Helper()
	text, err := os.ReadFile("/proc/thread-self/mountinfo")
	must(t, err)
	var numbers []string
	for i := range n {
		numbers = append(numbers, strconv.Itoa(i))
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 4 && f[4] == at {
			_, lower, _ := strings.Cut(line, "lowerdir=")
			lower, _, _ = strings.Cut(lower, ",")
			want(t, "the layers' names", lower, strings.Join(numbers, ":"))
			return
		}
	}
	t.Errorf("nothing is mounted at %s", at)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// clone is the idmapped clone of the layers' directory, as cloneLayers makes it.
func clone(t *testing.T, s *stager) *os.File {
	t.Helper()
	ns, err := s.namespace(ids.UIDs, ids.GIDs)
	must(t, err)
	parent, err := OpenDir(s.layers.parent)
	must(t, err)
	defer parent.Close()
	tree, err := cloneTree(int(parent.Fd()), "", false, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP | unix.MOUNT_ATTR_RDONLY, Userns_fd: uint64(ns.Fd())})
	if unlessUnsupported(err) == nil && err != nil {
		t.Skipf("the %s file system of %s cannot be idmapped here", FSName(parent), s.layers.parent)
	}
	must(t, err)
	return tree
}

// TestEngineOverlay goes the whole way with an overlay whose names mountinfo
// shows whole, with one whose layers are on several mounts, and with a plain directory.
func TestEngineOverlay(t *testing.T) {
	for _, name := range []string{"merged", "apart", "low 1"} {
		onThread(t, func(t *testing.T) {
			top := t.TempDir()
			put(t, top, "low 1/a:0", "low 1/both", "low2/b:1000:600", "low2/both", "merged/", "apart/", "other/")
			up := top
			if name == "apart" {
				up = top + "/other"
				must(t, unix.Mount("other", up, "tmpfs", 0, ""))
			}
			put(t, up, "up/c:65535", "up/d:70000", "work/")
			overlaid := name != "low 1"
			if overlaid {
				must(t, unix.Mount("engine", top+"/"+name, "overlay", 0, "lowerdir="+top+"/low2:"+top+"/low 1,upperdir="+up+"/up,workdir="+up+"/work"))
			}
			r := request(t, top+"/"+name)
			st := staged(t, r)
			at := r.Spec.Root.Path
			want(t, "notes", len(st.Notes), 0)
			want(t, "root file", owner(at+"/a"), jailed(0))
			want(t, "content", content(t, at+"/a"), "low 1/a")
			if overlaid {
				want(t, "top layer", content(t, at+"/both"), "low2/both")
				want(t, "user file", owner(at+"/b"), jailed(1000))
				want(t, "last id", owner(at+"/c"), jailed(65535))
				want(t, "an id that the jail does not have, which the file keeps", owner(at+"/d"), "70000:70000")
				must(t, os.Remove(at+"/d"))
				wantShortNames(t, at, 3)
			}
			var fs unix.Statfs_t
			must(t, unix.Statfs(at, &fs))
			want(t, "nosuid, nodev", fs.Flags&(unix.ST_NOSUID|unix.ST_NODEV), unix.ST_NOSUID|unix.ST_NODEV)
			var s unix.Stat_t
			must(t, unix.Stat(at, &s))
			want(t, "device", st.Dev, s.Dev)
			var byFile unix.Stat_t
			must(t, unix.Fstat(int(st.Root.Fd()), &byFile))
			want(t, "the clone's device", byFile.Dev, s.Dev)
		})
	}
}

// TestLayerSizeIsCapped: the layer takes no more bytes and files than policy sets, from
// any writer.
func TestLayerSizeIsCapped(t *testing.T) {
	onThread(t, func(t *testing.T) {
		image := t.TempDir()
		put(t, image, "bin/x", "tmp/:0:1777")
		r := request(t, image)
		staged(t, r)
		at := r.Spec.Root.Path
		as(t, base+1000, base+1000, func() {
			err := os.WriteFile(at+"/tmp/big", make([]byte, 2<<20), 0o644)
			if !strings.Contains(fmt.Sprint(err), "no space left") {
				t.Errorf("2 MiB in a layer of 1 MiB: %v", err)
			}
			_ = os.Remove(at + "/tmp/big")
			n := 0
			for ; n < 1000; n++ {
				if err = os.WriteFile(at+"/tmp/f"+strconv.Itoa(n), nil, 0o644); err != nil {
					break
				}
			}
			if !strings.Contains(fmt.Sprint(err), "no space left") || n < 200 || n > 300 {
				t.Errorf("%d files in a layer of 300: %v", n, err)
			}
		})
	})
}

// TestCopyUp stages images on file systems that cannot be idmapped: a directory
// within an overlay mount. Contents stay, owners become the jail's, and neither
// data nor owners change below.
func TestCopyUp(t *testing.T) {
	onThread(t, func(t *testing.T) {
		top := t.TempDir()
		put(t, top, "low/image/a:0", "low/image/b:1000:640", "low/image/d/e/f:5", "low/image/d/e/big:7", "low/image/s->a", "low/image/dead->/nowhere", "low/image/gone", "low/image/foreign:70000", "low/image/su:0:4755", "up/", "work/", "merged/")
		must(t, os.WriteFile(top+"/low/image/d/e/big", make([]byte, 4<<20), 0o644))
		must(t, unix.Mkfifo(top+"/low/image/pipe", 0o600))
		must(t, unix.Mount("engine", top+"/merged", "overlay", 0, "lowerdir="+top+"/low,upperdir="+top+"/up,workdir="+top+"/work"))
		must(t, os.Remove(top+"/merged/image/gone"))
		r := request(t, top+"/merged/image")
		st := staged(t, r)
		at := r.Spec.Root.Path
		if len(st.Notes) != 1 || !strings.Contains(st.Notes[0], "overlay file system cannot be idmapped") {
			t.Errorf("notes %q", st.Notes)
		}
		want(t, "root", owner(at), jailed(0))
		want(t, "a", owner(at+"/a"), jailed(0))
		want(t, "b", owner(at+"/b"), jailed(1000))
		want(t, "f", owner(at+"/d/e/f"), jailed(5))
		want(t, "the link itself", owner(at+"/s"), jailed(0))
		want(t, "a link to nothing", owner(at+"/dead"), jailed(0))
		want(t, "a pipe", owner(at+"/pipe"), jailed(0))
		want(t, "an id that the jail does not have", owner(at+"/foreign"), "70000:70000")
		want(t, "content", content(t, at+"/d/e/f"), "low/image/d/e/f")
		fi, err := os.Stat(at + "/d/e/big")
		must(t, err)
		want(t, "a file larger than the layer", fi.Size(), 4<<20)
		if _, err := os.Lstat(at + "/gone"); !os.IsNotExist(err) {
			t.Errorf("a deleted file is there again: %v", err)
		}
		want(t, "the engine's owner", owner(top+"/low/image/b"), "1000:1000")
		want(t, "the engine's merged owner", owner(top+"/merged/image/b"), "1000:1000")
		as(t, base+1000, base+1000, func() {
			want(t, "reading one's own", content(t, at+"/b"), "low/image/b")
			must(t, os.WriteFile(at+"/b", []byte("x"), 0o600))
			if err := os.WriteFile(at+"/a", []byte("x"), 0o600); err == nil {
				t.Error("root's file was written by another")
			}
		})
	})
}

// More files than the layer may have: the message reports what to do.
func TestCopyUpTooMany(t *testing.T) {
	onThread(t, func(t *testing.T) {
		top := t.TempDir()
		put(t, top, "low/image/", "up/", "work/", "merged/")
		for i := range 400 {
			put(t, top, fmt.Sprintf("low/image/f%d", i))
		}
		must(t, unix.Mount("engine", top+"/merged", "overlay", 0, "lowerdir="+top+"/low,upperdir="+top+"/up,workdir="+top+"/work"))
		_, err := Stage(*request(t, top+"/merged/image"))
		if err == nil || !strings.Contains(err.Error(), "more files than the layer's 300") || !strings.Contains(err.Error(), "root.inodes") {
			t.Errorf("%v", err)
		}
	})
}

// Engines map layers by mounts that they end once the root stands on them: its mount table then names directories that are
// empty.
func TestShiftedByEndedMounts(t *testing.T) {
	onThread(t, func(t *testing.T) {
		top := t.TempDir()
		put(t, top, fmt.Sprintf("low/mine:%d", base+7), "mapped/", "up/", "work/", "merged/")
		must(t, unix.Mount(top+"/low", top+"/mapped", "", unix.MS_BIND, ""))
		must(t, unix.Mount("engine", top+"/merged", "overlay", 0, "lowerdir="+top+"/mapped,upperdir="+top+"/up,workdir="+top+"/work"))
		must(t, unix.Unmount(top+"/mapped", unix.MNT_DETACH))
		r := request(t, top+"/merged")
		r.Plan.AlreadyMapped = true
		staged(t, r)
		want(t, "a file of the image", owner(r.Spec.Root.Path+"/mine"), jailed(7))
	})
}

// The same where the files are not shifted and the directory of the mount is gone: owners are copied up.
func TestLayersOfEndedMounts(t *testing.T) {
	onThread(t, func(t *testing.T) {
		top := t.TempDir()
		put(t, top, "low/mine:7", "mapped/", "up/", "work/", "merged/")
		must(t, unix.Mount(top+"/low", top+"/mapped", "", unix.MS_BIND, ""))
		must(t, unix.Mount("engine", top+"/merged", "overlay", 0, "lowerdir="+top+"/mapped,upperdir="+top+"/up,workdir="+top+"/work"))
		must(t, unix.Unmount(top+"/mapped", unix.MNT_DETACH))
		must(t, os.Remove(top+"/mapped"))
		r := request(t, top+"/merged")
		staged(t, r)
		want(t, "a file of the image", owner(r.Spec.Root.Path+"/mine"), jailed(7))
	})
}

// An engine that shifts files itself, and a root whose files keep their owners.
func TestShiftedAndPlain(t *testing.T) {
	onThread(t, func(t *testing.T) {
		image := t.TempDir()
		put(t, image, fmt.Sprintf("mine:%d", base+7), "roots:0:600")
		r := request(t, image)
		r.Plan.AlreadyMapped = true
		staged(t, r)
		want(t, "shifted", owner(r.Spec.Root.Path+"/mine"), jailed(7))
		r = request(t, image)
		r.Plan.KeepHostOwners = true
		staged(t, r)
		want(t, "plain", owner(r.Spec.Root.Path+"/roots"), "0:0")
		as(t, base, base, func() {
			if _, err := os.ReadFile(r.Spec.Root.Path + "/roots"); err == nil {
				t.Error("the jail's root reads what is the host root's alone")
			}
		})
	})
}
