package host

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/internal/testprograms"
	"agentjail.dev/runtime/jailinit"
	"agentjail.dev/runtime/kernel/programs"
)

// beside puts the step beside this test's program, where Prepare looks.
func beside(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: the step's program must be root's")
	}
	dir, err := programs.Dir()
	if err != nil {
		t.Fatal(err)
	}
	if err := testprograms.Put(dir, Name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(filepath.Join(dir, Name)) })
}

// TestPrepare: the jail gets a copy of the program, made once, that can be run
// and neither read nor changed, and its orders.
func TestPrepare(t *testing.T) {
	beside(t)
	dir := t.TempDir()
	o := &jailinit.Orders{UID: 7}
	f, err := Prepare(dir, "", o)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	fd := int(f.Passed[0].Fd())
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		t.Fatal(err)
	}
	if st.Mode != unix.S_IFREG|0o111 || st.Uid != 0 {
		t.Errorf("the program has mode %o of uid %d, want %o of root", st.Mode, st.Uid, unix.S_IFREG|0o111)
	}
	if _, err := unix.Read(fd, make([]byte, 1)); err != unix.EBADF {
		t.Errorf("reading the program: %v, want EBADF", err)
	}
	// Root may open it; the mount is read-only all the same.
	if _, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", fd), unix.O_RDWR|unix.O_CLOEXEC, 0); err != unix.EROFS {
		t.Errorf("opening the program for writing: %v, want EROFS", err)
	}
	again, err := Prepare(dir, "", o)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	var st2 unix.Stat_t
	if err := unix.Fstat(int(again.Passed[0].Fd()), &st2); err != nil {
		t.Fatal(err)
	}
	if st2.Ino != st.Ino {
		t.Error("the program was copied twice")
	}
	// Once the program at its place is another release's, the copy is made of the one that was opened.
	if err := os.Remove(filepath.Join(dir, copyName(t, dir))); err != nil {
		t.Fatal(err)
	}
	path, err := programs.Dir()
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(path, Name)
	if err := errors.Join(os.WriteFile(path+".next", []byte("next"), 0o755), os.Rename(path+".next", path)); err != nil {
		t.Fatal(err)
	}
	later, err := Prepare(dir, "", o)
	if err != nil {
		t.Fatal(err)
	}
	defer later.Close()
	var st3 unix.Stat_t
	if err := unix.Fstat(int(later.Passed[0].Fd()), &st3); err != nil || st3.Size != st.Size {
		t.Errorf("after an upgrade: a program of %d bytes and not of %d (%v)", st3.Size, st.Size, err)
	}
	names, err := os.ReadDir(dir)
	if err != nil || len(names) != 1 {
		t.Errorf("left in the directory: %v, %v", names, err)
	}
	// A copy of an old version goes when the next is made.
	old := filepath.Join(dir, "enter-0123456789abcdef")
	if err := os.WriteFile(old, nil, 0o111); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(old, time.Time{}, time.Now().Add(-2*age)); err != nil {
		t.Fatal(err)
	}
	prune(dir, prefix, age)
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 || left[0].Name() != names[0].Name() {
		t.Errorf("after an old one was removed: %v, %v", left, err)
	}
	// What is not the copy is not taken for it.
	if err := os.Chmod(filepath.Join(dir, names[0].Name()), 0o711); err != nil {
		t.Fatal(err)
	}
	if _, err := Prepare(dir, "", o); err == nil || !strings.Contains(err.Error(), "not the copy") {
		t.Errorf("with another mode: %v", err)
	}
	data := make([]byte, 1<<16)
	n, err := f.Passed[1].Read(data)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := jailinit.Decode(data[:n]); err != nil || got.UID != 7 {
		t.Errorf("the orders state %+v, %v", got, err)
	}
}

// copyName returns the name of the only copy in a directory.
func copyName(t *testing.T, dir string) string {
	t.Helper()
	names, err := os.ReadDir(dir)
	if err != nil || len(names) != 1 {
		t.Fatalf("in the directory: %v, %v", names, err)
	}
	return names[0].Name()
}

func BenchmarkPrepare(b *testing.B) {
	beside(b)
	dir := b.TempDir()
	for b.Loop() {
		f, err := Prepare(dir, "", &jailinit.Orders{Filter: make([]byte, 4096)})
		if err != nil {
			b.Fatal(err)
		}
		f.Close()
	}
}

func TestRuns(t *testing.T) {
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Skip(err)
	}
	data, err := os.ReadFile(sleep)
	if err != nil {
		t.Fatal(err)
	}
	dir, other := t.TempDir(), "/dev/shm" // which is a file system of its own
	for name, c := range map[string]struct {
		in       string
		mode     os.FileMode
		detached bool // as the step is run
		want     bool
	}{
		"a copy":                                {dir, programMode, false, true},
		"a copy, from a mount attached nowhere": {dir, programMode, true, true},
		"a program":                             {dir, 0o755, false, false},
		"a program of the jail's that looks so": {other, programMode, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			if c.want && os.Geteuid() != 0 {
				t.Skip("needs root to look at a process whose program cannot be read (ptrace(2)), and to clone a mount")
			}
			path := filepath.Join(c.in, fmt.Sprint("agentjail-", os.Getpid(), "-test"))
			if err := os.WriteFile(path, data, c.mode); err != nil {
				t.Fatal(err)
			}
			defer os.Remove(path)
			cmd := exec.Command(path, "100000")
			cmd.Args[0] = "sleep" // where sleep is one of several in a program
			if c.detached {
				fd, err := unix.OpenTree(unix.AT_FDCWD, path, unix.OPEN_TREE_CLONE)
				if err != nil {
					t.Fatal(err)
				}
				defer unix.Close(fd)
				cmd.Path = fmt.Sprint("/proc/self/fd/", fd)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			if got := Runs(cmd.Process.Pid, dir); got != c.want {
				t.Errorf("reported %v", got)
			}
			// A newer version's copy may replace it while a created jail waits for its start.
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			if got := Runs(cmd.Process.Pid, dir); got != c.want {
				t.Errorf("removed: reported %v", got)
			}
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			if Runs(cmd.Process.Pid, dir) {
				t.Error("it has ended")
			}
		})
	}
}
