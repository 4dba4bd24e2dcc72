package hasher

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	cf "agentjail.dev/runtime/linux/callfilter"
)

// writes are what opening a file to change it takes.
const writes = unix.O_WRONLY | unix.O_RDWR | unix.O_CREAT | unix.O_TRUNC | (unix.O_TMPFILE &^ unix.O_DIRECTORY)

// confine loads the hasher's filter. The process could read every file and change every other process, so it is kept from what would do the
// second: tracing, executing, connecting, and writing to anything but its answers and its errors.
func confine() error {
	kept, err := keep()
	if err != nil {
		return err
	}
	return cf.Load(filter(os.Getpid(), kept))
}

// keep has the Go runtime open what it waits with, which it writes to later, and returns it with the descriptors that the hasher began with.
func keep() ([]uint32, error) {
	// A pipe is what is waited for in that way.
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	if err := r.Close(); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return nil, fmt.Errorf("the hasher's descriptors: %w", err)
	}
	kept := []uint32{0, 1, 2, fdAnswers}
	for _, n := range names {
		fd, err := strconv.ParseUint(n.Name(), 10, 31)
		if err != nil {
			continue
		}
		if to, err := os.Readlink("/proc/self/fd/" + n.Name()); err == nil && strings.HasPrefix(to, "anon_inode:[event") {
			kept = append(kept, uint32(fd))
		}
	}
	return kept, nil
}

// filter is the hasher's. kept are the descriptors that it may write to, and cannot close: no other file gets their numbers. What openat2 is
// asked for is out of a filter's sight, and so what it may have opened to be written cannot be written.
func filter(pid int, kept []uint32) []unix.SockFilter {
	f := cf.Begin()
	f.OwnSignals(pid)
	f.Call(unix.SYS_OPENAT, cf.Arg(2), cf.AnyOf(writes, 0, 1), cf.Errno(unix.EPERM), cf.Allow)
	// Memory of its own, and no file's.
	f.Call(unix.SYS_MMAP, cf.Arg(3), cf.AnyOf(unix.MAP_ANONYMOUS, 0, 1), cf.Allow, cf.Errno(unix.EPERM))
	f.Call(unix.SYS_FCNTL, cf.Arg(1), cf.Equal(unix.F_GETFL, 1, 0), cf.Equal(unix.F_SETFL, 0, 1), cf.Allow, cf.Errno(unix.EPERM))
	f.Call(unix.SYS_WRITE, among(kept, cf.Allow, cf.Errno(unix.EBADF))...)
	f.Call(unix.SYS_CLOSE, among(kept, cf.Errno(unix.EPERM), cf.Allow)...)
	return f.Only(slices.Concat([]uint32{unix.SYS_OPENAT2, unix.SYS_READLINKAT, unix.SYS_STATX}, cf.Runtime)...)
}

// among is a rule on a call's descriptor: one verdict where it is one of these, and another where it is none.
func among(fds []uint32, one, none unix.SockFilter) []unix.SockFilter {
	out := []unix.SockFilter{cf.Arg(0)}
	for i, fd := range fds {
		out = append(out, cf.Equal(fd, uint8(len(fds)-i), 0))
	}
	return append(out, none, one)
}
