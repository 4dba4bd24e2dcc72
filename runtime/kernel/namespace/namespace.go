// Package namespace opens namespaces by path (namespaces(7)).
package namespace

import (
	"errors"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// ErrNone means that a path leads to a file that is no namespace.
var ErrNone = errors.New("not a namespace")

// Open opens the namespace at a path, which may be a file of /proc/PID/ns or a file over which a
// namespace is mounted (ip-netns(8)). Any other file is ErrNone; Open does not wait for a pipe.
func Open(path string) (*os.File, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), path)
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil {
		f.Close()
		return nil, err
	}
	if fs.Type != unix.NSFS_MAGIC {
		f.Close()
		return nil, ErrNone
	}
	return f, nil
}

// Inode is the number of the namespace that a process is in, by its name in /proc/PID/ns.
func Inode(pid int, kind string) (uint64, error) {
	var st unix.Stat_t
	err := unix.Stat("/proc/"+strconv.Itoa(pid)+"/ns/"+kind, &st)
	return st.Ino, err
}
