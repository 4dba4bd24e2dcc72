package fork

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: makes namespaces")
	}
}

func TestUserNSKeepsItsMap(t *testing.T) {
	needRoot(t)
	f, err := UserNS("0 2013265920 65536\n", "0 2013265920 65536\n")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var st, own unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		t.Fatal(err)
	}
	if err := unix.Stat("/proc/self/ns/user", &own); err != nil {
		t.Fatal(err)
	}
	if st.Ino == own.Ino {
		t.Fatal("the namespace is our own")
	}
	if _, err := UserNS("bad", "bad"); err == nil {
		t.Fatal("a broken map was taken")
	}
}

// Root of a user namespace is not root of the machine: a user's own engine.
func TestUserNSInside(t *testing.T) {
	needRoot(t)
	const inside = "AGENTJAIL_TEST_INSIDE"
	if os.Getenv(inside) != "" {
		f, err := UserNS("0 0 1\n1 1 1000\n", "0 0 1\n1 1 1000\n")
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
		return
	}
	// The test's program, where another user can run it.
	data, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "userns")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	program := filepath.Join(dir, "test")
	if err := errors.Join(os.Chmod(dir, 0o755), os.WriteFile(program, data, 0o755)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "-test.run=^TestUserNSInside$", "-test.v")
	cmd.Dir, cmd.Env = "/", append(os.Environ(), inside+"=1")
	ids := []syscall.SysProcIDMap{{ContainerID: 0, HostID: 2013265920, Size: 65536}}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWUSER, UidMappings: ids, GidMappings: ids,
		Credential: &syscall.Credential{},
	}
	if out, err := cmd.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("PASS")) {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestNewTimeStartsNearZero(t *testing.T) {
	needRoot(t)
	if _, err := os.Stat("/proc/self/ns/time"); err != nil {
		t.Skip("this kernel has no time namespaces")
	}
	t.Run("by exec", func(t *testing.T) {
		if !execMovesTime() {
			t.Skip("before Linux 6.3 exec does not change time namespaces")
		}
		newTime(t)
	})
	t.Run("by fork", func(t *testing.T) {
		defer func(f func() bool) { execMovesTime = f }(execMovesTime)
		execMovesTime = func() bool { return false }
		newTime(t)
	})
}

func newTime(t *testing.T) {
	runtime.LockOSThread() // and never unlock: see Cmd.NewTime
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		t.Fatal(err)
	}
	out, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	c := &Cmd{
		Path: "/bin/sh", Args: []string{"sh", "-c", "cat /proc/uptime >" + out.Name()}, Env: os.Environ(),
		NewTime: strings.Replace("boottime -N 0\n", "N", itoa(now.Sec), 1), DieWithParent: true,
	}
	p, err := c.Start()
	if err != nil {
		t.Fatal(err)
	}
	status, err := p.Wait()
	if err != nil || status != 0 {
		t.Fatal(status, err)
	}
	var after unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &after); err != nil {
		t.Fatal(err)
	}
	var up float64
	b, _ := os.ReadFile(out.Name())
	if _, err := fmt.Sscan(string(b), &up); err != nil || up > float64(after.Sec-now.Sec+1) {
		t.Fatalf("uptime in the new time namespace is %q, and it is %d s old: %v", b, after.Sec-now.Sec, err)
	}
}

// TestMovedTo: a process in another time namespace is found, and one that has
// ended before it was looked at is no failure.
func TestMovedTo(t *testing.T) {
	needRoot(t)
	const own = "/proc/self/ns/time"
	if _, err := os.Stat(own); err != nil {
		t.Skip("this kernel has no time namespaces")
	}
	if err := movedTo(own, os.Getpid()); err != nil {
		t.Error(err)
	}
	if err := movedTo("/proc/self/ns/uts", os.Getpid()); err == nil {
		t.Error("a process is stated to be where it is not")
	}
	cmd := exec.Command("/bin/true")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// It stays a member of no namespace until it is waited for.
	if err := unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
		t.Fatal(err)
	}
	for range 2 { // before and after
		if err := movedTo(own, cmd.Process.Pid); err != nil {
			t.Error(err)
		}
		_ = cmd.Wait()
	}
}

func itoa(n int64) string {
	var b []byte
	for ; n > 0; n /= 10 {
		b = append([]byte{byte('0' + n%10)}, b...)
	}
	return string(b)
}

func TestStartNamesTheStep(t *testing.T) {
	c := &Cmd{Path: "/nonexistent/x", Args: []string{"x"}}
	if _, err := c.Start(); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), c.Path) {
		t.Error(err)
	}
	needRoot(t)
	c.NewTime = "boottime 0 0\n"
	if _, err := c.Start(); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "exec") {
		t.Error(err)
	}
}

// Children that share our memory for a moment must leave it as it is, whatever
// the rest of the program does meanwhile, and be gone.
func TestManyUserNS(t *testing.T) {
	needRoot(t)
	stop := make(chan struct{})
	defer close(stop)
	go func() { // allocates, and is preempted by signals
		for keep := [][]byte{}; ; {
			select {
			case <-stop:
				return
			default:
				keep = append(keep[max(0, len(keep)-100):], make([]byte, 4096))
			}
		}
	}()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				f, err := UserNS("0 1000 1\n", "0 1000 1\n")
				if err != nil {
					t.Error(err)
					return
				}
				f.Close()
			}
		})
	}
	wg.Wait()
	if _, err := syscall.Wait4(-1, nil, unix.WALL|syscall.WNOHANG, nil); err != syscall.ECHILD {
		t.Errorf("children are left: %v", err)
	}
}

func TestManyForks(t *testing.T) {
	// Forking from a busy multi-threaded program must neither hang nor crash.
	// A time namespace to join, our own, makes the child a plain copy.
	ns, err := os.Open("/proc/self/ns/time")
	if err == nil {
		defer ns.Close()
	}
	if os.Geteuid() != 0 {
		ns = nil // setns(2) needs CAP_SYS_ADMIN
	}
	done := make(chan error, 8)
	for i := range 8 {
		go func() {
			c := &Cmd{Path: "/bin/true", Args: []string{"true"}}
			if i%2 == 0 {
				c.JoinTime = ns
			}
			for range 50 {
				p, err := c.Start()
				if err == nil {
					_, err = p.Wait()
				}
				if err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
	}
	for range 8 {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	if _, err := exec.Command("/bin/true").Output(); err != nil {
		t.Fatal(err)
	}
}

// TestFiles: files arrive in order from 3 on, whatever numbers they have here.
func TestFiles(t *testing.T) {
	dir := t.TempDir()
	var files []*os.File
	for _, name := range []string{"b", "a", "c"} {
		f, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		files = append(files, f)
	}
	slices.Reverse(files) // so that a number is taken before its file is moved
	out, err := os.Create(filepath.Join(dir, "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	c := Cmd{Path: "/bin/sh", Args: []string{"sh", "-c", "readlink /proc/$$/fd/3 /proc/$$/fd/4 /proc/$$/fd/5"}, Stdio: [3]*os.File{nil, out, nil}, Files: files}
	p, err := c.Start()
	if err != nil {
		t.Fatal(err)
	}
	if status, err := p.Wait(); err != nil || status != 0 {
		t.Fatal(status, err)
	}
	text, err := os.ReadFile(out.Name())
	if err != nil {
		t.Fatal(err)
	}
	if want := dir + "/c\n" + dir + "/a\n" + dir + "/b\n"; string(text) != want {
		t.Errorf("got\n%swant\n%s", text, want)
	}
}

// TestStdio: each standard file can be another, also one that has the number of
// a standard file or of one that is handed on.
func TestStdio(t *testing.T) {
	dir := t.TempDir()
	var files [4]*os.File
	for i := range files {
		f, err := os.Create(filepath.Join(dir, "f"+itoa(int64(i)+1)))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		files[i] = f
	}
	c := Cmd{
		Path: "/bin/sh", Args: []string{"sh", "-c", "readlink /proc/$$/fd/0 /proc/$$/fd/2 /proc/$$/fd/3"},
		Stdio: [3]*os.File{files[0], files[1], files[2]}, Files: files[3:],
	}
	p, err := c.Start()
	if err != nil {
		t.Fatal(err)
	}
	if status, err := p.Wait(); err != nil || status != 0 {
		t.Fatal(status, err)
	}
	text, err := os.ReadFile(files[1].Name())
	if want := files[0].Name() + "\n" + files[2].Name() + "\n" + files[3].Name() + "\n"; err != nil || string(text) != want {
		t.Errorf("%v: %q, not %q", err, text, want)
	}
}

// TestReaper: where somebody else waits for all children, a status comes from
// there, and a child that could not start is not requested.
func TestReaper(t *testing.T) {
	asked, stopped := 0, 0
	Reaper = func() (func(int) (int, error), func()) {
		return func(pid int) (int, error) {
			asked++
			var ws syscall.WaitStatus
			if err := wait4(pid, &ws, 0); err != nil {
				return -1, err
			}
			return 1000 + ws.ExitStatus(), nil
		}, func() { stopped++ }
	}
	defer func() { Reaper = nil }()
	p, err := (&Cmd{Path: "/bin/sh", Args: []string{"sh", "-c", "exit 3"}}).Start()
	if err != nil {
		t.Fatal(err)
	}
	if status, err := p.Wait(); status != 1003 || err != nil {
		t.Error(status, err)
	}
	if _, err := (&Cmd{Path: "/nonexistent/x", Args: []string{"x"}}).Start(); err == nil {
		t.Error("what is not there was started")
	}
	if asked != 1 || stopped != 1 {
		t.Error(asked, stopped)
	}
}
