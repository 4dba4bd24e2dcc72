package gitrepo

import (
	"os"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/openat"
)

// Host are the host's own files, by absolute paths.
type Host struct{}

// Lstat is Tree's.
func (Host) Lstat(at string) (uint32, error) {
	_, mode, err := stat(at, unix.O_NOFOLLOW, false)
	return mode, err
}

// Stat is Tree's.
func (Host) Stat(at string) (string, uint32, error) { return stat(at, 0, true) }

func stat(at string, flags int, named bool) (real string, mode uint32, err error) {
	fd, err := openat.Open(unix.AT_FDCWD, at, openat.Real, unix.O_PATH|flags)
	if err != nil {
		return "", 0, &os.PathError{Op: "open", Path: at, Err: err}
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return "", 0, &os.PathError{Op: "stat", Path: at, Err: err}
	}
	if named {
		real, err = openat.Name(fd)
	}
	return real, st.Mode, err
}

// Readlink is Tree's.
func (Host) Readlink(at string) (string, error) { return os.Readlink(at) }

// Head is Tree's.
func (Host) Head(at string, max int64) (string, error) {
	text, err := openat.Head(at, max)
	return string(text), err
}
