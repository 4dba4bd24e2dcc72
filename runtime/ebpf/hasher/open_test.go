package hasher

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/linux/mountinfo"
)

// far is a deadline that no test reaches.
const far = time.Hour

// fileOf is a file as the kernel would say that it was executed: on a file system whose number stat(2) says.
func fileOf(t *testing.T, path string) File {
	t.Helper()
	var st unix.Stat_t
	var fs unix.Statfs_t
	if err := unix.Stat(path, &st); err != nil {
		t.Fatal(err)
	}
	if err := unix.Statfs(path, &fs); err != nil {
		t.Fatal(err)
	}
	return File{Device: unix.Major(st.Dev)<<20 | unix.Minor(st.Dev), Kind: uint32(fs.Type), Inode: st.Ino, Changed: st.Ctim.Nano(), Size: uint64(st.Size)}
}

// request is of a file at a path that this process executed.
func request(t *testing.T, at, path string) *Request {
	t.Helper()
	r := &Request{File: fileOf(t, at), Pid: uint32(os.Getpid())}
	copy(r.Path[:], path)
	return r
}

// shortDir is a directory whose names fit into an event.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "h")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}

// hashOf is what becomes of a request, as a server answers it.
func hashOf(r *Request) ([32]byte, Why) {
	found := r.find()
	if found < 0 {
		return [32]byte{}, Gone
	}
	defer unix.Close(found)
	return r.File.sum(found, time.Now().Add(far))
}

// awaitOther changes a file until the kernel's clock gives it another ctime.
func awaitOther(t *testing.T, path string, f File) {
	t.Helper()
	for fileOf(t, path).Changed == f.Changed {
		if err := os.Chmod(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// TestFind: the file that was executed is found by its path, and what has taken its place is not taken for it, nor touched.
func TestFind(t *testing.T) {
	dir := shortDir(t)
	at, other := filepath.Join(dir, "x\n\x1b"), filepath.Join(dir, "y")
	write(t, at, "evil")
	r := request(t, at, at)
	if sum, why := hashOf(r); why != None || sum != sha256.Sum256([]byte("evil")) {
		t.Fatalf("the file itself: %x, %s", sum, why)
	}
	device := *r
	device.File.Device++
	size := *r
	size.File.Size++
	for name, r := range map[string]*Request{"another file system": &device, "another size": &size} {
		if _, why := hashOf(r); why != Gone {
			t.Errorf("%s: %s", name, why)
		}
	}
	relative := request(t, at, filepath.Base(at))
	if _, why := hashOf(relative); why != Gone {
		t.Errorf("beneath another directory: %s", why)
	}
	t.Chdir(dir)
	if _, why := hashOf(relative); why != None {
		t.Errorf("beneath the process's directory: %s", why)
	}
	for name, swap := range map[string]func() error{
		"another file":     func() error { write(t, other, "good"); return os.Rename(other, at) },
		"written in place": func() error { write(t, at, "good"); awaitOther(t, at, r.File); return nil },
		"a FIFO":           func() error { return unix.Mkfifo(at, 0o755) },
		"a directory":      func() error { return os.Mkdir(at, 0o755) },
		"a device's name":  func() error { return os.Symlink("/dev/zero", at) },
		"a loop":           func() error { return os.Symlink(at, at) },
		"a magic link":     func() error { return os.Symlink("/proc/self/exe", at) },
		"nothing":          func() error { return nil },
	} {
		write(t, at, "evil")
		r := request(t, at, at)
		if name != "another file" && name != "written in place" {
			// Kept by another name, so that its inode is nobody else's.
			if err := os.Rename(at, other); err != nil {
				t.Fatal(err)
			}
		} else {
			awaitOther(t, at, r.File)
		}
		if err := swap(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if _, why := hashOf(r); why != Gone {
			t.Errorf("%s: %s", name, why)
		}
		os.RemoveAll(at)
		os.RemoveAll(other)
	}
}

// TestChanged: of a file that is written while it is read there is no hash.
func TestChanged(t *testing.T) {
	at := filepath.Join(shortDir(t), "x")
	write(t, at, "evil")
	r := request(t, at, at)
	for name, change := range map[string]func(){
		"longer": func() { write(t, at, "longer") }, "shorter": func() { write(t, at, "s") }, "as long": func() { awaitOther(t, at, r.File); write(t, at, "good") },
	} {
		found := r.find()
		if found < 0 {
			t.Fatalf("%s: not found", name)
		}
		change()
		if _, why := r.File.sum(found, time.Now().Add(far)); why != Changed {
			t.Errorf("%s: %s", name, why)
		}
		unix.Close(found)
		write(t, at, "evil")
		r = request(t, at, at)
	}
	found := r.find()
	defer unix.Close(found)
	if _, why := r.File.sum(found, time.Now().Add(-far)); why != Late {
		t.Errorf("too late: %s", why)
	}
}

// awaitRuns waits until a process runs what it was started for: in a virtual machine, it was seen to be still this program.
func awaitRuns(t *testing.T, pid int) {
	t.Helper()
	own, err := os.Readlink("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	for runs := own; runs == own; time.Sleep(time.Millisecond) {
		if runs, err = os.Readlink(fmt.Sprintf("/proc/%d/exe", pid)); err != nil {
			t.Fatal(err)
		}
	}
}

// running starts a program that ends with the test.
func running(t *testing.T, path string) uint32 {
	t.Helper()
	cmd := exec.Command(path, "1000")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: unix.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	awaitRuns(t, cmd.Process.Pid)
	return uint32(cmd.Process.Pid)
}

// TestRunning: a program that has no name any more, or never had one, or whose name was cut, is found by its process.
func TestRunning(t *testing.T) {
	text, err := os.ReadFile("/bin/sleep")
	if err != nil {
		t.Fatal(err)
	}
	want := sha256.Sum256(text)
	gone := filepath.Join(shortDir(t), "gone")
	write(t, gone, string(text))
	cut := filepath.Join(shortDir(t), strings.Repeat("c", PathSize))
	write(t, cut, string(text))
	fd, err := unix.MemfdCreate("m", 0)
	if err != nil {
		t.Fatal(err)
	}
	memory := fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), fd)
	write(t, memory, string(text))
	readOnly, err := unix.Open(memory, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(readOnly)
	unix.Close(fd)
	memory = fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), readOnly)
	for name, path := range map[string]string{"a deleted file": gone, "a long name": cut, "a memfd": memory} {
		r := request(t, path, path)
		r.Pid = running(t, path)
		if path == gone {
			// Its ctime with its last name gone is another: what was executed had its name. So it is of the process while it had two.
			if err := os.Link(gone, gone+"2"); err != nil {
				t.Fatal(err)
			}
			if err := os.Remove(gone); err != nil {
				t.Fatal(err)
			}
			r = &Request{File: fileOf(t, gone+"2"), Pid: r.Pid}
		}
		if sum, why := hashOf(r); why != None || sum != want {
			t.Errorf("%s: %s", name, why)
		}
	}
}

// TestBeneath: a path is followed beneath the root of the process, also behind an absolute link, and of one that has ended beneath its jail's.
func TestBeneath(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: it changes a process's root")
	}
	dir := shortDir(t)
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "stays"), string(self))
	write(t, filepath.Join(dir, "x"), "inside")
	if err := os.Symlink("/../x", filepath.Join(dir, "agentjail-link")); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/stays", "-test.run=^TestStays$")
	cmd.Env = []string{"HASHER_TEST_STAYS=1"}
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: dir}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	err = cmd.Start()
	if errors.Is(err, os.ErrNotExist) {
		t.Skip("this program is linked dynamically, as for -race: there is no loader in the other root")
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { in.Close(); _ = cmd.Wait() }()
	awaitRuns(t, cmd.Process.Pid)
	r := request(t, filepath.Join(dir, "x"), "/agentjail-link")
	if _, why := hashOf(r); why != Gone {
		t.Errorf("beneath this process's root: %s", why)
	}
	r.Roots[1] = uint32(cmd.Process.Pid)
	for range 2 { // by the jail's first process, and by its own
		if sum, why := hashOf(r); why != None || sum != sha256.Sum256([]byte("inside")) {
			t.Errorf("beneath process %d's root: %s", r.Pid, why)
		}
		r.Pid, r.Roots[1] = r.Roots[1], 0
	}
}

// TestStays is no test, but the program that TestBeneath runs in another root.
func TestStays(*testing.T) {
	if os.Getenv("HASHER_TEST_STAYS") != "" {
		_, _ = io.Copy(io.Discard, os.Stdin)
	}
}

// TestOverlay: of an overlay whose layers are several file systems, where stat(2) says a layer's number, the table of mounts says which one a file is on.
func TestOverlay(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: it mounts file systems")
	}
	dir := shortDir(t)
	mount := func(from, name, kind, data string) string {
		t.Helper()
		at := filepath.Join(dir, name)
		if err := os.Mkdir(at, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mount(from, at, kind, 0, data); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Unmount(at, unix.MNT_DETACH) })
		return at
	}
	lower, upper := mount("lower", "l", "tmpfs", ""), mount("upper", "u", "tmpfs", "")
	for _, d := range []string{"u", "w"} {
		if err := os.Mkdir(filepath.Join(upper, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(lower, "x"), "image")
	merged := mount("overlay", "m", "overlay", "lowerdir="+lower+",upperdir="+upper+"/u,workdir="+upper+"/w,xino=off")
	at := filepath.Join(merged, "x")
	r := request(t, at, at)
	byStat := r.File.Device
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	mounts, err := mountinfo.Parse(string(text))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mounts {
		if m.Point == merged {
			var major, minor uint32
			if _, err := fmt.Sscanf(m.Dev, "%d:%d", &major, &minor); err != nil {
				t.Fatal(err)
			}
			r.File.Device = major<<20 | minor
		}
	}
	if r.File.Device == byStat {
		t.Fatal("stat(2) says the overlay's own number: this test shows nothing")
	}
	if sum, why := hashOf(r); why != None || sum != sha256.Sum256([]byte("image")) {
		t.Errorf("by the table of mounts: %s", why)
	}
	r.File.Device++
	if _, why := hashOf(r); why != Gone {
		t.Errorf("another overlay's: %s", why)
	}
}

// TestUnchanged: only a file that kept its content since then, by a ctime that tells, is what was executed.
func TestUnchanged(t *testing.T) {
	now := time.Now()
	before := File{Kind: unix.OVERLAYFS_SUPER_MAGIC, Changed: now.Add(-time.Second).UnixNano()}
	memory, after, tick := before, before, before
	memory.Kind, after.Changed, tick.Changed = unix.TMPFS_MAGIC, now.UnixNano(), now.Add(-time.Millisecond).UnixNano()
	if !before.UnchangedSince(now) || before.UnchangedSince(time.Time{}) {
		t.Error("one that changed before, or since nobody knows when")
	}
	for name, f := range map[string]File{"memory": memory, "after": after, "the same tick": tick} {
		if f.UnchangedSince(now) {
			t.Errorf("%s: unchanged", name)
		}
	}
}
