package rootless

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// EndInner kills the processes in user namespaces that were made in this process's own, which was
// made for one jail. A delegate that was killed may leave a process that no record and no control
// group names. Processes that cannot be looked at are left out: init steps, which end with their
// maker.
func EndInner() error {
	if !Inside() {
		return errors.New("not in a user namespace of a user's own")
	}
	var own unix.Stat_t
	if err := unix.Stat("/proc/self/ns/user", &own); err != nil {
		return err
	}
	dirs, err := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		pid, perr := strconv.Atoi(filepath.Base(dir))
		if perr != nil || !madeIn(dir, &own) {
			continue
		}
		if kerr := unix.Kill(pid, unix.SIGKILL); kerr != nil && kerr != unix.ESRCH {
			err = errors.Join(err, fmt.Errorf("killing process %d: %w", pid, kerr))
		}
	}
	return err
}

// madeIn reports whether a process's user namespace was made in another one.
func madeIn(dir string, outer *unix.Stat_t) bool {
	ns, err := os.Open(dir + "/ns/user")
	if err != nil {
		return false
	}
	defer ns.Close()
	fd, err := unix.IoctlRetInt(int(ns.Fd()), unix.NS_GET_PARENT)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	return unix.Fstat(fd, &st) == nil && st.Dev == outer.Dev && st.Ino == outer.Ino
}
