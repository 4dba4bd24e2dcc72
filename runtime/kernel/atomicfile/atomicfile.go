// Package atomicfile reads and writes whole files: writes replace a file in one
// step, and reads are bounded and follow no symbolic link in the last component.
//
// renameio and moby's atomicwriter flush each file to disk, which costs milliseconds at every
// start. Most records here are void after a reboot.
package atomicfile

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// kernelFile is how much is read at once of a file that reports no size, as the kernel's own do
// not, in bytes. It writes most of them anew for each read.
const kernelFile = 4 << 10

// Read reads a regular file of at most max bytes, not following a symbolic
// link in the last component.
func Read(path string, max int64) ([]byte, error) {
	fd, err := open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	if st.Size > max {
		return nil, fmt.Errorf("%s has %d bytes, more than the %d that are read", path, st.Size, max)
	}
	size := st.Size + 1
	if st.Size == 0 {
		size = kernelFile
	}
	data, err := ReadFD(fd, make([]byte, 0, size), max)
	switch {
	case errors.Is(err, ErrTooLong):
		return nil, fmt.Errorf("%s has more than the %d bytes that are read", path, max)
	case err != nil:
		return nil, &os.PathError{Op: "read", Path: path, Err: err}
	}
	return data, nil
}

// ReadFD appends to data until the end of a file, or until there are more than max bytes: then the
// error is ErrTooLong. Any other error is the kernel's. Each error comes with the bytes that were
// read.
func ReadFD(fd int, data []byte, max int64) ([]byte, error) {
	for int64(len(data)) <= max {
		data = slices.Grow(data, 1)
		n, err := unix.Read(fd, data[len(data):cap(data)])
		switch {
		case err == unix.EINTR:
			continue
		case err != nil || n == 0:
			return data, err
		}
		data = data[:len(data)+n]
	}
	return data, ErrTooLong
}

// ErrTooLong is the error, which others wrap, for more bytes than the limit.
var ErrTooLong = errors.New("too long")

// ReadAll reads to the end of r, at most max bytes.
func ReadAll(r io.Reader, max int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, max+1))
	if err == nil && int64(len(data)) > max {
		return nil, fmt.Errorf("%w: more than %d bytes", ErrTooLong, max)
	}
	return data, err
}

// Unique returns a file's name that no other call makes meanwhile, of prefix, the process id and a
// number.
func Unique(prefix string) string {
	return fmt.Sprintf("%s%d.%d", prefix, os.Getpid(), names.Add(1))
}

var names atomic.Uint64

// Write replaces the regular file path, or makes it, with data in one step; readers see the old or
// the new content. A symbolic link is replaced. Anything else at path is an error. There is no
// fsync: what is written here is void after a reboot.
func Write(path string, data []byte, mode os.FileMode) error {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err == nil {
		if kind := st.Mode & unix.S_IFMT; kind != unix.S_IFREG && kind != unix.S_IFLNK {
			return fmt.Errorf("writing %s: it is no regular file", path)
		}
	}
	// Others may write to the directory: the name cannot be guessed, and is no file of theirs.
	var random [16]byte
	if _, err := unix.Getrandom(random[:], 0); err != nil {
		return fmt.Errorf("writing %s: getrandom: %w", path, err)
	}
	tmp := fmt.Sprintf("%s.%x.tmp", path, random)
	if err := create(tmp, data, mode); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	if err := unix.Rename(tmp, path); err != nil {
		_ = unix.Unlink(tmp)
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}

// WriteInto writes data into the character device or the pipe that path leads to, and is Write for
// anything else. A pipe that no process reads is an error (ENXIO).
func WriteInto(path string, data []byte, mode os.FileMode) error {
	if !IsStream(path) {
		return Write(path, data, mode)
	}
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err == nil {
		if err = unix.SetNonblock(fd, false); err == nil {
			err = writeAll(fd, data)
		}
		err = errors.Join(err, unix.Close(fd))
	}
	if err != nil {
		return fmt.Errorf("writing into %s: %w", path, err)
	}
	return nil
}

// IsStream reports that path leads to a character device or a pipe.
func IsStream(path string) bool {
	var st unix.Stat_t
	err := unix.Stat(path, &st)
	kind := st.Mode & unix.S_IFMT
	return err == nil && (kind == unix.S_IFCHR || kind == unix.S_IFIFO)
}

// WriteNew writes a file that no process has written or looks for yet: an error wraps os.ErrExist
// where there is something.
func WriteNew(path string, data []byte, mode os.FileMode) error {
	if err := create(path, data, mode); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}

// create makes a file, whole or not at all. It uses system calls: os.File would also try to
// register each file with epoll.
func create(path string, data []byte, mode os.FileMode) error {
	fd, err := open(path, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, mode)
	if err != nil {
		return err
	}
	if err = errors.Join(writeAll(fd, data), unix.Close(fd)); err != nil {
		_ = unix.Unlink(path)
	}
	return err
}

func writeAll(fd int, data []byte) error {
	for len(data) > 0 {
		n, err := unix.Write(fd, data)
		if err != nil && err != unix.EINTR {
			return err
		}
		data = data[max(n, 0):]
	}
	return nil
}

func open(path string, flags int, mode os.FileMode) (fd int, err error) {
	for {
		fd, err = unix.Open(path, flags|unix.O_CLOEXEC|unix.O_NOFOLLOW, uint32(mode.Perm()))
		if err != unix.EINTR {
			return fd, err
		}
	}
}

// A Head keeps the first Max bytes that are written, and discards the rest. A write never fails, so
// that a program whose output is too long is not ended by it.
type Head struct {
	Max  int
	Text []byte
}

// Write implements io.Writer.
func (h *Head) Write(b []byte) (int, error) {
	h.Text = append(h.Text, b[:min(len(b), h.Max-len(h.Text))]...)
	return len(b), nil
}
