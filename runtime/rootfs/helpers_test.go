package rootfs

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/spec/bindsource"
	"agentjail.dev/runtime/spec/plan"
	"agentjail.dev/runtime/spec/policy"
)

// ids is the jail's mapping in these tests: base is its root on the host.
var (
	ids     = policy.Default().Userns.Block(2000)
	base, _ = ids.HostUID(0)
)

// The main thread is kept out of what tests do with threads: its mounts are
// those that /proc/self shows.
func init() { runtime.LockOSThread() }

// asRoot skips where staging cannot be tried.
func asRoot(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root, to mount")
	}
}

// onThread runs f on a thread in a mount namespace of its own, which ends with
// it, and holds that the mounts of everybody else stay as they were.
func onThread(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	asRoot(t)
	before := mountinfo(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
			t.Errorf("unshare: %v", err)
			return
		}
		if err := unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""); err != nil {
			t.Errorf("private mounts: %v", err)
			return
		}
		f(t)
	}()
	<-done
	if after := mountinfo(t); after != before {
		t.Errorf("mounts before\n%s\nand after\n%s", before, after)
	}
}

// mountinfo is what the process's other threads see, without what other
// programs mount meanwhile: engines of other tests and their jails have their
// own directories.
func mountinfo(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	test, _, _ := strings.Cut(t.Name(), "/")
	own := " " + os.TempDir() + "/" + test // its temporary directories
	var out []string
	for line := range strings.Lines(string(data)) {
		others := strings.Contains(line, " /run/agentjail/") || strings.Contains(line, " /var/tmp/")
		if strings.Contains(line, " "+mountSource+" ") && !others || strings.Contains(line, own) {
			out = append(out, line)
		}
	}
	return strings.Join(out, "")
}

// must ends the test's thread on an error. It is for use on that thread only.
func must(t *testing.T, err error, what ...any) {
	t.Helper()
	if err != nil {
		t.Errorf("%s: %v", fmt.Sprint(what...), err)
		runtime.Goexit()
	}
}

// put writes files: name, or name:uid, or name:uid:mode; a name that ends in a
// slash is a directory, name->target a symbolic link.
func put(t *testing.T, dir string, names ...string) {
	t.Helper()
	for _, n := range names {
		parts := strings.Split(n, ":")
		name, target, link := strings.Cut(parts[0], "->")
		at := filepath.Join(dir, name)
		must(t, os.MkdirAll(filepath.Dir(at), 0o755), n)
		switch {
		case link:
			must(t, os.Symlink(target, at), n)
			continue
		case strings.HasSuffix(name, "/"):
			must(t, os.MkdirAll(at, 0o755), n)
		default:
			must(t, os.WriteFile(at, []byte(name), 0o644), n)
		}
		if len(parts) > 2 {
			var mode uint32
			_, err := fmt.Sscanf(parts[2], "%o", &mode)
			must(t, err, n)
			must(t, unix.Chmod(at, mode), n)
		}
		if len(parts) > 1 {
			var uid int
			_, err := fmt.Sscan(parts[1], &uid)
			must(t, err, n)
			must(t, os.Lchown(at, uid, uid), n)
		}
	}
}

// as runs f with the file system ids of somebody on the host, and without
// root's capabilities over files (setfsuid(2)): what that user may do.
func as(t *testing.T, uid, gid uint32, f func()) {
	t.Helper()
	set := func(u, g uintptr) {
		_, _, _ = unix.RawSyscall(unix.SYS_SETFSGID, g, 0, 0)
		_, _, _ = unix.RawSyscall(unix.SYS_SETFSUID, u, 0, 0)
	}
	set(uintptr(uid), uintptr(gid))
	defer set(0, 0)
	f()
}

// request begins one for an image.
func request(t *testing.T, rootfs string, mounts ...specs.Mount) *Request {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "state")
	for _, d := range []string{dir, filepath.Join(dir, layerDir), filepath.Join(dir, rootDir)} {
		must(t, os.Mkdir(d, 0o711))
	}
	// What the jail's user goes through on the way.
	for d := dir; d != os.TempDir() && d != "/"; d = filepath.Dir(d) {
		must(t, os.Chmod(d, 0o711))
	}
	f, err := OpenDir(rootfs)
	must(t, err, rootfs)
	t.Cleanup(func() { f.Close() })
	host, err := bindsource.OpenMounts()
	must(t, err)
	r := &Request{
		Dir: dir, Rootfs: f, Mounts: host,
		Spec: &specs.Spec{
			Root: &specs.Root{Path: rootfs}, Linux: &specs.Linux{},
			Process: &specs.Process{User: specs.User{UID: 1000, GID: 1000}},
			Mounts:  mounts,
		},
		Plan: plan.Plan{IDs: ids, User: plan.User{UID: 1000, GID: 1000}, Root: policy.Root{Size: 1 << 20, Inodes: 300}},
	}
	r.Sources = make([]*bindsource.Source, len(mounts))
	for i, m := range mounts {
		if m.Type != "bind" {
			continue
		}
		s, err := bindsource.Open(m.Source, bindsource.Engine{})
		must(t, err, m.Source)
		t.Cleanup(func() { s.File.Close() })
		r.Sources[i] = s
		b := plan.Bind{Index: i, Owner: plan.OwnerDir, Source: m.Source, Storage: plan.StorageDirect}
		for _, o := range m.Options {
			switch o {
			case "ro", "rro":
				b.ReadOnly = true
			case "noexec":
				b.NoExec = true
			case "flat":
				b.NonRecursive = true
			case "same":
				b.Owner = plan.OwnerSame
			case "none":
				b.Owner = plan.OwnerNone
			}
		}
		r.Plan.Binds = append(r.Plan.Binds, b)
	}
	return r
}

func bindMount(from, to string, options ...string) specs.Mount {
	return specs.Mount{Type: "bind", Source: from, Destination: to, Options: options}
}

// staged stages a request that has to pass; the jail's root is then at the
// spec's root path.
func staged(t *testing.T, r *Request) *Staged {
	t.Helper()
	st, err := Stage(*r)
	must(t, err, "Stage")
	t.Cleanup(func() { st.Root.Close() })
	return st
}

// owner is uid:gid of a path, or the error.
func owner(path string) string {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%d:%d", st.Uid, st.Gid)
}

func jailed(uid uint32) string { return fmt.Sprintf("%d:%d", base+uid, base+uid) }

func want(t *testing.T, what string, got, want any) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: %v, not %v", what, got, want)
	}
}

func content(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return string(bytes.TrimSpace(b))
}
