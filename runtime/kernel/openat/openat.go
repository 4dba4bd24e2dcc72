// Package openat opens files at paths that another process may change meanwhile, with bounds on
// how the path is resolved (openat2(2), Linux 5.6).
//
// github.com/cyphar/filepath-securejoin resolves below a root, and follows links there. The callers
// here also forbid links and other mounts, and open host paths by the same bounds.
package openat

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// How bounds a path's resolution. Without links, the last component may be a symbolic link only for
// unix.O_PATH|unix.O_NOFOLLOW, which opens the link itself.
type How uint64

const (
	// Any follows every link.
	Any How = 0
	// Real follows symbolic links, and none of /proc's magic links.
	Real How = unix.RESOLVE_NO_MAGICLINKS
	// NoLinks follows no link.
	NoLinks How = Real | unix.RESOLVE_NO_SYMLINKS
	// Beneath follows no link and does not leave the directory.
	Beneath How = NoLinks | unix.RESOLVE_BENEATH
	// OneMount is Beneath, and stays in the directory's mount.
	OneMount How = Beneath | unix.RESOLVE_NO_XDEV
	// InRoot follows symbolic links as a process does that has the directory as its root.
	InRoot How = Real | unix.RESOLVE_IN_ROOT
	// InRootNoLinks is InRoot for a path without links.
	InRootNoLinks How = InRoot | NoLinks
)

// Open opens a path below a directory; the directory may be unix.AT_FDCWD.
func Open(dir int, path string, how How, flags int) (int, error) {
	return open(dir, path, how, flags, 0)
}

// Create makes a file that only its owner can read, and opens it for writing.
func Create(dir int, path string, how How) (int, error) {
	return CreateMode(dir, path, how, 0o600)
}

// CreateMode is Create of a file with a mode, less the process's umask. The file can be read, too,
// whatever the mode is.
func CreateMode(dir int, path string, how How, mode uint32) (int, error) {
	return open(dir, path, how, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL, uint64(mode))
}

func open(dir int, path string, how How, flags int, mode uint64) (int, error) {
	for {
		fd, err := unix.Openat2(dir, path, &unix.OpenHow{Flags: uint64(flags) | unix.O_CLOEXEC, Mode: mode, Resolve: uint64(how)})
		if err != unix.EINTR {
			return fd, err
		}
	}
}

// File is Open with a file as its result.
func File(dir int, path string, how How, flags int) (*os.File, error) {
	fd, err := Open(dir, path, how, flags)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), path), nil
}

// ErrIrregular is the error of Regular for what is not a regular file.
var ErrIrregular = errors.New("not a regular file")

// Regular opens a regular file for reading. Its type is known before it is opened: opening another
// file may block, or call a driver.
func Regular(dir int, path string, how How) (*os.File, error) {
	fd, err := Open(dir, path, how, unix.O_PATH)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, ErrIrregular
	}
	return Reopen(fd, unix.O_RDONLY)
}

// Head returns the first bytes of a regular file, at most max.
func Head(path string, max int64) ([]byte, error) {
	f, err := Regular(unix.AT_FDCWD, path, Real)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, max))
}

// Reopen opens the file of a descriptor again, with other flags. It waits for no other process.
func Reopen(fd, flags int) (*os.File, error) {
	return os.OpenFile(Proc(fd), flags|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
}

// Name returns the kernel's own path of a descriptor's file, which has no links.
func Name(fd int) (string, error) { return os.Readlink(Proc(fd)) }

// Readlink returns the target of a symbolic link in an open directory, or of the open link itself
// for the name "".
func Readlink(dir int, name string) (string, error) {
	var target [unix.PathMax]byte
	n, err := unix.Readlinkat(dir, name, target[:])
	return string(target[:max(n, 0)]), err
}

// Resolve returns the kernel's own name of the file that a path leads to, as far as it exists.
func Resolve(path string, how How) string {
	rest := ""
	for at := filepath.Clean(path); ; at = filepath.Dir(at) {
		// Most paths have no links: reading the name costs more than the whole walk.
		if filepath.IsAbs(at) {
			if fd, err := Open(unix.AT_FDCWD, at, NoLinks, unix.O_PATH); err == nil {
				unix.Close(fd)
				return filepath.Join(at, rest)
			}
		}
		if fd, err := Open(unix.AT_FDCWD, at, how, unix.O_PATH); err == nil {
			name, err := Name(fd)
			unix.Close(fd)
			if err == nil && filepath.IsAbs(name) { // a namespace has another kind of name
				return filepath.Join(name, rest)
			}
		}
		if at == "/" || at == "." {
			return filepath.Join(at, rest)
		}
		rest = filepath.Join(filepath.Base(at), rest)
	}
}

// Proc returns the path in /proc that leads to a descriptor's file.
func Proc(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }
