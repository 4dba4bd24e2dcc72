package fork

import (
	"fmt"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// UserNS makes a user namespace with these contents for uid_map and gid_map
// (user_namespaces(7)) and returns a file that keeps it. It has no member: the
// process that made it is gone on return. The caller has CAP_SETUID and
// CAP_SETGID over the mapped ids.
func UserNS(uidMap, gidMap string) (*os.File, error) {
	syscall.ForkLock.Lock()
	beforeFork()
	pid, errno := cloneAndExit()
	afterFork()
	syscall.ForkLock.Unlock()
	if errno != 0 {
		return nil, fmt.Errorf("making a user namespace: %w (is user.max_user_namespaces 0?)", errno)
	}
	// Without a signal at its end it is only waited for by name, also where
	// something else in this process waits for all children (wait(2), __WALL).
	defer func() {
		for {
			if _, err := syscall.Wait4(pid, nil, unix.WALL, nil); err != syscall.EINTR {
				return
			}
		}
	}()
	dir := "/proc/" + strconv.Itoa(pid)
	for _, m := range [][2]string{{"/uid_map", uidMap}, {"/gid_map", gidMap}} {
		if err := writeOnce(dir+m[0], m[1]); err != nil {
			return nil, fmt.Errorf("mapping ids %q: %w", m[1], err)
		}
	}
	f, err := os.Open(dir + "/ns/user")
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

// cloneAndExit makes a child in a new user namespace that shares our memory and has
// ended on return (clone(2), CLONE_VFORK). What has ended and is not waited for
// still is a member of its namespaces. The child runs on our stack, and touches
// none of it. Between beforeFork and afterFork no stack may grow.
//
//go:nosplit
func cloneAndExit() (pid int, errno syscall.Errno) {
	r := rawCloneAndExit(unix.CLONE_VM | unix.CLONE_VFORK | unix.CLONE_NEWUSER)
	if r < 0 {
		return 0, syscall.Errno(-r)
	}
	return int(r), 0
}

// rawCloneAndExit is clone(2) with these flags, followed by exit(2) in the child.
//
//go:noescape
func rawCloneAndExit(flags uintptr) (r int64)
