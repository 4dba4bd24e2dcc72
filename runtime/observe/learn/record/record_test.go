package record

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestRecord counts what a process in a user namespace calls: what passes, what fails, and nothing
// of others.
func TestRecord(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("loading programs takes root")
	}
	r, err := New(map[uint32][6]uint64{unix.SYS_SOCKET: {^uint64(0), 0xf}})
	if errors.Is(err, errCannot) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cmd := exec.Command("/bin/sh", "-c", "read x; ls / > /dev/null; ls /no-such-file 2> /dev/null; true")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER, Pdeathsig: unix.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill() }()
	jail, err := r.Watch(cmd.Process.Pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	if before, _, err := r.Read(jail); err != nil {
		t.Fatal(err)
	} else if slices.ContainsFunc(before, func(s Seen) bool { return s.Number == unix.SYS_GETDENTS64 }) {
		t.Error("a directory was read before it was requested")
	}
	in.Close()
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	seen, lost, err := r.Read(jail)
	if err != nil || lost > 0 {
		t.Fatalf("%v, %d lost", err, lost)
	}
	has := func(nr, errno uint32) bool {
		return slices.ContainsFunc(seen, func(s Seen) bool { return s.Number == nr && s.Errno == errno && s.Count > 0 })
	}
	for _, nr := range []uint32{unix.SYS_GETDENTS64, unix.SYS_EXECVE, unix.SYS_EXIT_GROUP, unix.SYS_MMAP} {
		if !has(nr, 0) {
			t.Errorf("call %d was not seen in %v", nr, seen)
		}
	}
	if !slices.ContainsFunc(seen, func(s Seen) bool { return s.Errno == uint32(unix.ENOENT) }) {
		t.Errorf("no failed call was seen in %v", seen)
	}
	if has(unix.SYS_SOCKET, 0) {
		t.Error("a call of another process was counted")
	}
}

// TestFilters: what a process calls before it has its filters is not counted.
func TestFilters(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("loading programs takes root")
	}
	r, err := New(nil)
	if errors.Is(err, errCannot) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cmd := exec.Command("/bin/cat")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER, Pdeathsig: unix.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	jail, err := r.Watch(cmd.Process.Pid, 64) // more than it can have
	if err != nil {
		t.Fatal(err)
	}
	in.Close()
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if seen, _, err := r.Read(jail); err != nil || len(seen) > 0 {
		t.Errorf("%v %v", seen, err)
	}
}
