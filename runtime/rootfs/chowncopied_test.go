package rootfs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

// engines puts what an engine puts into a running jail: through its view, as the
// host's ids.
func engines(t *testing.T, root string) {
	t.Helper()
	put(t, root, "in/secret:0:600", "in/users:1000:600", "in/setid:0:6755", "in/high:70000", "in/link->secret", "in/overflow:65534:600")
	must(t, os.Lchown(root+"/in", 0, 0))
	must(t, os.Lchown(root+"/in/link", 1000, 1000))
	must(t, os.Link(root+"/in/secret", root+"/in/again"))
	must(t, unix.Mknod(root+"/in/node", unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))))
	put(t, root, "in/mixed")
	must(t, os.Lchown(root+"/in/mixed", int(base)+7, 0))
}

// TestAdopt: what the engine put into the layer belongs to the jail's ids after
// it, what is the jail's stays, and nothing of the image is touched.
func TestAdopt(t *testing.T) {
	onThread(t, func(t *testing.T) {
		image := t.TempDir()
		put(t, image, "etc/passwd", "etc/high:70000", "tmp/:0:1777")
		r := request(t, image)
		st := staged(t, r)
		root := r.Spec.Root.Path
		as(t, base+1000, base+1000, func() {
			must(t, os.WriteFile(root+"/tmp/own", nil, 0o600))
		})
		engines(t, root+"/tmp")
		n, complete, err := chownForeign(st.Changes, st.Root, ids)
		must(t, err)
		want(t, "complete", complete, true)
		if n == 0 {
			t.Error("nothing was given to the jail")
		}
		for name, owns := range map[string]string{
			"in": jailed(0), "in/secret": jailed(0), "in/again": jailed(0), "in/users": jailed(1000), "in/setid": jailed(0), "in/link": jailed(1000),
			"in/overflow": jailed(65534), "in/high": "70000:70000", "in/node": "0:0", "own": jailed(1000), "in/mixed": fmt.Sprintf("%d:%d", base+7, base),
		} {
			want(t, name, owner(root+"/tmp/"+name), owns)
		}
		var setid unix.Stat_t
		must(t, unix.Lstat(root+"/tmp/in/setid", &setid))
		want(t, "set-id bits", setid.Mode&0o7777, 0o755)
		want(t, "the image's directory", owner(image+"/etc"), "0:0")
		want(t, "the image's file", owner(image+"/etc/high"), "70000:70000")
		// The overlay's own copies of the owners are what rights are checked by.
		as(t, base, base, func() { want(t, "root's", content(t, root+"/tmp/in/secret"), "in/secret") })
		as(t, base+1000, base+1000, func() {
			want(t, "the user's", content(t, root+"/tmp/in/users"), "in/users")
			if _, err := os.ReadFile(root + "/tmp/in/secret"); err == nil {
				t.Error("the user reads root's")
			}
		})
		n, complete, err = chownForeign(st.Changes, st.Root, ids)
		must(t, err)
		want(t, "the second time", n, 0)
		want(t, "complete", complete, true)
	})
}

// TestAdoptBound: a jail that has made many files costs no more than a bounded
// look, and what lies less deep is found.
func TestAdoptBound(t *testing.T) {
	onThread(t, func(t *testing.T) {
		image := t.TempDir()
		put(t, image, "tmp/:0:1777", "in/")
		r := request(t, image)
		r.Plan.Root.Inodes = 2 * maxScanned
		st := staged(t, r)
		root := r.Spec.Root.Path
		as(t, base, base, func() {
			must(t, os.MkdirAll(root+"/tmp/deep", 0o755))
			for i := range maxScanned {
				must(t, unix.Mkdir(fmt.Sprintf("%s/tmp/deep/%d", root, i), 0o755))
			}
		})
		put(t, root, "in/secret:0:600")
		_, complete, err := chownForeign(st.Changes, st.Root, ids)
		must(t, err)
		want(t, "complete", complete, false)
		want(t, "what was put in", owner(root+"/in/secret"), jailed(0))
	})
}

// TestAdoptHostile: whatever the jail renames and links while its files are looked
// at, no file but its own changes owners: none behind a link, none of the image.
func TestAdoptHostile(t *testing.T) {
	onThread(t, func(t *testing.T) {
		outside := t.TempDir()
		put(t, outside, "host/file:0:600", "host/dir/file:0:600")
		image := t.TempDir()
		put(t, image, "w/:0:1777", "etc/shadow:0:600")
		r := request(t, image)
		r.Plan.Root.EngineLinks = true // or the kernel itself would follow none
		st := staged(t, r)
		root := r.Spec.Root.Path
		must(t, os.Mkdir(root+"/w/in", 0o777))
		must(t, os.Mkdir(root+"/w/in/dir", 0o777))
		for _, name := range []string{"file", "dir/file"} {
			must(t, os.WriteFile(root+"/w/in/"+name, nil, 0o600))
		}
		must(t, os.Lchown(root+"/w", int(base), int(base)))
		var put []*os.File // what the engine puts in, again and again
		for _, name := range []string{"in", "in/dir", "in/file", "in/dir/file"} {
			f, err := os.Open(root + "/w/" + name)
			must(t, err)
			defer f.Close()
			put = append(put, f)
		}
		dir, err := unix.Open(root+"/w", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		must(t, err)
		defer unix.Close(dir)
		var stop atomic.Bool
		renamed := 0
		began, done := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(done)
			runtime.LockOSThread()
			for !stop.Load() { // by descriptor: this thread is in another mount namespace
				_ = unix.Symlinkat(outside+"/host", dir, "link")
				for _, name := range []string{"in", "in/dir", "in/file"} {
					for range 2 { // there and back
						if unix.Renameat2(dir, name, dir, "link", unix.RENAME_EXCHANGE) == nil {
							if renamed++; renamed == 1 {
								close(began)
							}
						}
					}
				}
			}
		}()
		<-began
		for range 2000 {
			for _, f := range put {
				must(t, f.Chown(0, 0))
			}
			if _, _, err := chownForeign(st.Changes, st.Root, ids); err != nil {
				t.Errorf("Adopt: %v", err)
				break
			}
		}
		stop.Store(true)
		<-done
		if renamed == 0 {
			t.Error("the jail renamed nothing")
		}
		_ = filepath.WalkDir(outside, func(path string, _ os.DirEntry, err error) error {
			want(t, path, owner(path), "0:0")
			return err
		})
		want(t, "the image's file", owner(image+"/etc/shadow"), "0:0")
	})
}

// TestNextInode: the number moves on exactly when a file was made.
func TestNextInode(t *testing.T) {
	onThread(t, func(t *testing.T) {
		image := t.TempDir()
		put(t, image, "etc/passwd", "tmp/:0:1777")
		r := request(t, image)
		st := staged(t, r)
		root := r.Spec.Root.Path
		next := func() uint64 {
			n, err := nextInode(st.Changes)
			must(t, err)
			return n
		}
		first := next()
		want(t, "nothing was made", next(), first+1)
		must(t, os.WriteFile(root+"/tmp/x", []byte("x"), 0o600))
		second := next()
		if second == first+2 {
			t.Error("a new file does not show")
		}
		must(t, os.Remove(root+"/tmp/x"))
		must(t, os.WriteFile(root+"/tmp/x", []byte("x"), 0o600))
		if next() == second+1 {
			t.Error("a replaced file of the same size does not show")
		}
	})
}

// TestAttachChanges: the changes are reachable by root only, and detached without
// a trace, also twice and where nothing was attached.
func TestAttachChanges(t *testing.T) {
	onThread(t, func(t *testing.T) {
		image := t.TempDir()
		put(t, image, "tmp/:0:1777")
		r := request(t, image)
		st := staged(t, r)
		must(t, os.Chmod(r.Dir, 0o711))
		must(t, DetachChanges(r.Dir))
		if _, err := OpenChanges(r.Dir); !errors.Is(err, ErrNoChanges) {
			t.Errorf("before: %v", err)
		}
		must(t, AttachChanges(st.Changes, r.Dir))
		f, err := OpenChanges(r.Dir)
		must(t, err)
		f.Close()
		as(t, base, base, func() {
			if _, err := os.ReadDir(filepath.Join(r.Dir, changesPoint)); err == nil {
				t.Error("another user of the host reaches the layer")
			}
		})
		must(t, DetachChanges(r.Dir))
		must(t, DetachChanges(r.Dir))
		want(t, "the directory", exists(filepath.Join(r.Dir, changesDir)), false)
	})
}
