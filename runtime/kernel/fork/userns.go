package fork

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// UserNS makes a user namespace with these contents for uid_map and gid_map
// (user_namespaces(7)) and returns a file that keeps it. It has no member: the
// process that made it is gone on return. The caller has CAP_SETUID and
// CAP_SETGID over the mapped ids.
func UserNS(uidMap, gidMap string) (*os.File, error) {
	// A child that has ended when its namespace is mapped takes no copy of this process.
	f, err := new(script).makesUserNS(unix.CLONE_NEWUSER, uidMap, gidMap)
	if errors.Is(err, os.ErrPermission) {
		// Files in /proc of what has ended belong to the machine's root alone
		// (fs/proc/base.c, task_dump_owner): not to root of a user namespace.
		return UserNSBy(func(pid int) error { return writeMaps(pid, uidMap, gidMap) })
	}
	return f, err
}

// makesUserNS runs a script whose child is in a new user namespace at its end.
func (s *script) makesUserNS(flags uintptr, uidMap, gidMap string) (f *os.File, err error) {
	made := false
	err = s.run(flags, func(pid int) error {
		made = true
		if err = writeMaps(pid, uidMap, gidMap); err == nil {
			f, err = openUserNS(pid)
		}
		return err
	})
	if err != nil && !made {
		return nil, noUserNS(err)
	}
	return f, err
}

// UserNSBy is UserNS for maps that another function writes: those of the process pid, which waits
// meanwhile as the namespace's only member.
func UserNSBy(write func(pid int) error) (*os.File, error) {
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		return nil, fmt.Errorf("making a user namespace: %w", err)
	}
	syscall.ForkLock.Lock()
	pid, errno := forkPause(uintptr(pipe[0]), uintptr(pipe[1]))
	syscall.ForkLock.Unlock()
	unix.Close(pipe[0])
	defer func() {
		unix.Close(pipe[1]) // lets the child go
		if pid > 0 {
			var ws syscall.WaitStatus
			_ = wait4(pid, &ws, 0)
		}
	}()
	if errno != 0 {
		pid = 0
		return nil, noUserNS(errno)
	}
	if err := write(pid); err != nil {
		return nil, err
	}
	return openUserNS(pid)
}

func noUserNS(err error) error {
	return fmt.Errorf("making a user namespace: %w (is user.max_user_namespaces 0?)", err)
}

func writeMaps(pid int, uidMap, gidMap string) error {
	dir := "/proc/" + strconv.Itoa(pid)
	for _, m := range [][2]string{{"/uid_map", uidMap}, {"/gid_map", gidMap}} {
		if err := writeOnce(dir+m[0], m[1]); err != nil {
			return fmt.Errorf("mapping ids %q: %w", m[1], err)
		}
	}
	return nil
}

func openUserNS(pid int) (*os.File, error) {
	f, err := os.Open("/proc/" + strconv.Itoa(pid) + "/ns/user")
	if err != nil {
		return nil, fmt.Errorf("opening the user namespace: %w", err)
	}
	return f, nil
}

// writeOnce writes in one system call, as the kernel demands for id maps.
func writeOnce(path, text string) error {
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	_, err = unix.Write(fd, []byte(text))
	return err
}

// forkPause makes a child in a new user namespace that waits for the end of the
// pipe and exits.
//
//go:noinline
//go:norace
//go:nocheckptr
func forkPause(r, w uintptr) (int, syscall.Errno) {
	beforeFork()
	pid, _, errno := syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD)|unix.CLONE_NEWUSER, 0, 0, 0, 0, 0)
	if errno != 0 || pid != 0 {
		afterFork()
		return int(pid), errno
	}
	afterForkInChild()
	var b [1]byte
	syscall.RawSyscall(syscall.SYS_CLOSE, w, 0, 0)
	syscall.RawSyscall(syscall.SYS_READ, r, uintptr(unsafe.Pointer(&b[0])), 1)
	for {
		syscall.RawSyscall(syscall.SYS_EXIT_GROUP, 0, 0, 0)
	}
}
