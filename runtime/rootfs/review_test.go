package rootfs

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/openat"
	"agentjail.dev/runtime/refusal"
	"agentjail.dev/runtime/spec/plan"
	"agentjail.dev/runtime/state"
	"agentjail.dev/runtime/workspace"
)

// needViews skips a test on a host that can make no view.
func needViews(t *testing.T) {
	t.Helper()
	asRoot(t)
	if err := workspace.CheckHost(); err != nil {
		t.Skip(err)
	}
}

// reviewRequest is a request with a view of a directory of uid 1234.
func reviewRequest(t *testing.T, proj string, store workspace.Store, key string) *Request {
	t.Helper()
	r := request(t, image(t), bindMount(proj, "/work", "bind", "flat"))
	r.Plan.Binds[0].Storage = plan.StorageReview
	r.Plan.Workspace.Size, r.Plan.Workspace.Files = workspace.MinSize, 1000
	r.Workspaces, r.Jail, r.Key = store, key, key
	return r
}

// TestReview: in a view the jail's owner of the directory does all that it does in a directory, and the directory stays as it was.
func TestReview(t *testing.T) {
	needViews(t)
	onThread(t, func(t *testing.T) {
		proj, store := t.TempDir(), workspace.Store{Dir: filepath.Join(t.TempDir(), "w"), Boot: state.BootID()}
		put(t, proj, "old:1234:644", "lib/:1234:755", "lib/a:1234:600", "gone:1234:644", "x:1234:644", "y:1234:644", "mode:1234:644", "others:2000:600")
		must(t, os.Chown(proj, 1234, 1234))
		must(t, os.Chmod(proj, 0o755))
		r := reviewRequest(t, proj, store, "jail")
		st := staged(t, r)
		at := r.Spec.Mounts[0].Source
		want(t, "the view", owner(at), jailed(1000))
		want(t, "another's file", owner(at+"/others"), theirs(2000))
		as(t, base+1000, base+1000, func() {
			must(t, os.WriteFile(at+"/new", []byte("new"), 0o644))
			must(t, os.WriteFile(at+"/old", []byte("changed"), 0o644))
			must(t, os.Rename(at+"/lib", at+"/lib2")) // EXDEV without redirects
			must(t, os.Remove(at+"/gone"))
			must(t, unix.Renameat2(unix.AT_FDCWD, at+"/x", unix.AT_FDCWD, at+"/y", unix.RENAME_EXCHANGE))
			must(t, os.Link(at+"/new", at+"/hard"))
			must(t, unix.Mkfifo(at+"/fifo", 0o600))
			must(t, os.Symlink("/etc/passwd", at+"/link"))
			must(t, os.Truncate(at+"/new", 1<<30)) // sparse
			must(t, os.Chmod(at+"/mode", 0o600))
			want(t, "a moved file", content(t, at+"/lib2/a"), "lib/a")
			want(t, "an exchanged file", content(t, at+"/x"), "y")
			if err := os.Chown(at+"/new", int(base), int(base)); !errors.Is(err, unix.EPERM) {
				t.Errorf("chown: %v", err)
			}
		})
		var fs unix.Statfs_t
		must(t, unix.Statfs(at, &fs))
		want(t, "flags", fs.Flags&(unix.ST_NOSUID|unix.ST_NODEV|unix.ST_RDONLY), unix.ST_NOSUID|unix.ST_NODEV)
		for name, text := range map[string]string{"old": "old", "lib/a": "lib/a", "gone": "gone", "x": "x", "y": "y"} {
			want(t, name+" of the directory", content(t, filepath.Join(proj, name)), text)
		}
		if _, err := os.Lstat(proj + "/new"); err == nil {
			t.Error("the directory has a new file")
		}
		if len(st.Reviews) != 1 || st.Reviews[0].At != "/work" {
			t.Fatalf("%+v", st.Reviews)
		}
		view, err := store.Open(st.Reviews[0].ID)
		must(t, err)
		l, err := store.OpenLayers(view)
		must(t, err)
		defer l.Close()
		var onDisk unix.Stat_t
		must(t, unix.Fstatat(int(l.Upper.Fd()), "new", &onDisk, unix.AT_SYMLINK_NOFOLLOW))
		if onDisk.Uid != 1234 || onDisk.Gid != 1234 {
			t.Errorf("the layer's file belongs to %d:%d", onDisk.Uid, onDisk.Gid)
		}
		// The layer has whole files: apply reads no others.
		want(t, "a file with another mode", content(t, openat.Proc(int(l.Upper.Fd()))+"/mode"), "mode")
		if f, err := openat.File(int(l.Upper.Fd()), "lib/a", openat.Beneath, unix.O_RDONLY); err == nil {
			f.Close()
			t.Error("an unchanged file is in the layer")
		}
	})
}

// TestReviewRefused: what the kernel makes no view of is refused with the reason.
func TestReviewRefused(t *testing.T) {
	onThread(t, func(t *testing.T) {
		store := workspace.Store{Dir: filepath.Join(t.TempDir(), "w"), Boot: state.BootID()}
		dirs := t.TempDir()
		put(t, dirs, "l/", "u/", "o/", "w/")
		must(t, unix.Mount("overlay", dirs+"/o", "overlay", 0, "lowerdir="+dirs+"/l,upperdir="+dirs+"/u,workdir="+dirs+"/w"))
		defer func() { must(t, unix.Unmount(dirs+"/o", unix.MNT_DETACH)) }()
		must(t, os.Chown(dirs+"/o", 1234, 1234))
		if _, err := Stage(*reviewRequest(t, dirs+"/o", store, "jail")); !errors.Is(err, refusal.Err) {
			t.Errorf("of an overlay: %v", err)
		}
		if left, err := os.ReadDir(store.Dir); err == nil && len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	})
}

// TestReviewAgain: a jail goes on in a view whose last jail was killed, and in one that has ended. A view is not mounted by two.
func TestReviewAgain(t *testing.T) {
	needViews(t)
	store := workspace.Store{Dir: filepath.Join(t.TempDir(), "w"), Boot: state.BootID()}
	proj := t.TempDir()
	onThread(t, func(t *testing.T) {
		put(t, proj, "old:1234:644")
		must(t, os.Chown(proj, 1234, 1234))
		must(t, os.Chmod(proj, 0o755))
	})
	for _, end := range []bool{false, true, false} { // the threads' mounts end with them
		onThread(t, func(t *testing.T) {
			r := reviewRequest(t, proj, store, "jail")
			staged(t, r)
			at := r.Spec.Mounts[0].Source
			as(t, base+1000, base+1000, func() {
				before, err := os.ReadFile(at + "/log")
				if err != nil && !errors.Is(err, os.ErrNotExist) {
					t.Fatal(err)
				}
				must(t, os.WriteFile(at+"/log", append(before, 'x'), 0o644))
			})
			mounts, err := os.ReadFile("/proc/thread-self/mountinfo")
			must(t, err)
			_, options, _ := strings.Cut(string(mounts), "upperdir=u/upper,")
			if options, _, _ = strings.Cut(options, "\n"); !strings.Contains(options, "redirect_dir=on") || !strings.Contains(options, "volatile") {
				t.Errorf("an overlay with the options %q", options)
			}
		})
		if end {
			must(t, store.End("jail"))
		}
	}
	all, err := store.List()
	must(t, err)
	if len(all) != 1 {
		t.Fatalf("%d views", len(all))
	}
	l, err := store.OpenLayers(all[0])
	must(t, err)
	defer l.Close()
	want(t, "after three jails", content(t, openat.Proc(int(l.Upper.Fd()))+"/log"), "xxx")
}

// TestReadOnlyReview: a view that the kernel has made read-only is no view.
func TestReadOnlyReview(t *testing.T) {
	onThread(t, func(t *testing.T) {
		dir := t.TempDir()
		must(t, unix.Mount("none", dir, "tmpfs", unix.MS_RDONLY, ""))
		f, err := os.Open(dir)
		must(t, err)
		defer f.Close()
		if err := writable(f); err == nil {
			t.Error("it is taken")
		}
	})
}

// TestReviewDescriptors: no descriptor is closed a second time, when it is another file's.
func TestReviewDescriptors(t *testing.T) {
	needViews(t)
	onThread(t, func(t *testing.T) {
		proj := t.TempDir()
		must(t, os.Chown(proj, 1234, 1234))
		store := workspace.Store{Dir: filepath.Join(t.TempDir(), "w"), Boot: state.BootID()}
		st := staged(t, reviewRequest(t, proj, store, "jail"))
		var open []*os.File
		for range 64 {
			f, err := os.Open("/dev/null")
			must(t, err)
			defer f.Close()
			open = append(open, f)
		}
		for range 5 {
			runtime.GC() // closes what has no owner left
			done := make(chan struct{})
			runtime.AddCleanup(new([64]byte), func(c chan struct{}) { close(c) }, done)
			runtime.GC()
			<-done
		}
		for _, f := range open {
			if _, err := f.Stat(); err != nil {
				t.Error(err)
			}
		}
		runtime.KeepAlive(st)
	})
}
