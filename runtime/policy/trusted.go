package policy

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/rootless"
)

// maxFile bounds the policy file, so that a wrong path (a device, a log)
// cannot fill memory.
const maxFile = 1 << 20

// maxLinks is the kernel's own limit (path_resolution(7)).
const maxLinks = 40

// readTrusted reads a file that only root can have written: every folder and
// symbolic link on the way and the file itself belong to root, and nobody else
// can write them. A folder check makes the file's own check hold: who can write
// a folder can replace what is in it. The file itself is no link.
func readTrusted(path string) ([]byte, error) {
	if !filepath.IsAbs(path) {
		return nil, fmt.Errorf("policy path %q must be absolute", path)
	}
	f, err := openTrusted(path)
	if err != nil {
		return nil, fmt.Errorf("policy %s: %w", path, err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("reading policy %s: %w", path, err)
	}
	if len(data) > maxFile {
		return nil, fmt.Errorf("policy %s is larger than %d bytes", path, maxFile)
	}
	return data, nil
}

// Trusted says whether only root can have written the regular file at an absolute
// path, and whether only root can replace it.
func Trusted(path string) error {
	f, err := openTrusted(path)
	if err != nil {
		return err
	}
	return f.Close()
}

// openTrusted walks the path, each component opened relative to the one before
// and looked at through its descriptor.
func openTrusted(path string) (*os.File, error) {
	const flags = unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC
	dir, at, err := openDirTrusted(unix.AT_FDCWD, "/", "/")
	if err != nil {
		return nil, err
	}
	defer func() { unix.Close(dir) }()
	todo := strings.Split(filepath.Clean(path), "/")[1:]
	for links := 0; len(todo) > 1; {
		name := todo[0]
		todo = todo[1:]
		if name == "" || name == "." {
			continue
		}
		full := filepath.Join(at, name)
		fd, err := unix.Openat(dir, name, flags, 0)
		if err != nil {
			return nil, &os.PathError{Op: "open", Path: full, Err: err}
		}
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			unix.Close(fd)
			return nil, &os.PathError{Op: "stat", Path: full, Err: err}
		}
		if st.Mode&unix.S_IFMT != unix.S_IFLNK {
			unix.Close(fd)
			next, _, err := openDirTrusted(dir, name, full)
			if err != nil {
				return nil, err
			}
			unix.Close(dir)
			dir, at = next, full
			continue
		}
		buf := make([]byte, unix.PathMax)
		n, err := unix.Readlinkat(fd, "", buf)
		unix.Close(fd)
		switch {
		case err != nil:
			return nil, &os.PathError{Op: "readlink", Path: full, Err: err}
		case rootless.Inside():
			st.Mode &^= 0o777 // a link's mode means nothing (symlink(7))
			if err := rootless.Foreign(full, &st); err != nil {
				return nil, err
			}
		case st.Uid != 0: // a link's mode means nothing (symlink(7))
			return nil, fmt.Errorf("%s belongs to uid %d, not to root: run `chown -h root %s`", full, st.Uid, full)
		}
		if links++; links > maxLinks {
			return nil, &os.PathError{Op: "open", Path: path, Err: unix.ELOOP}
		}
		target := string(buf[:n])
		todo = append(strings.Split(target, "/"), todo...)
		if filepath.IsAbs(target) {
			root, _, err := openDirTrusted(unix.AT_FDCWD, "/", "/")
			if err != nil {
				return nil, err
			}
			unix.Close(dir)
			dir, at = root, "/"
		}
	}
	full := filepath.Join(at, todo[0])
	fd, err := unix.Openat(dir, todo[0], unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: full, Err: err}
	}
	f := os.NewFile(uintptr(fd), full)
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil {
		if st.Mode&unix.S_IFMT != unix.S_IFREG {
			err = fmt.Errorf("%s is not a regular file", full)
		} else {
			err = OpenOwnedByRoot(fd, full, &st)
		}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// openDirTrusted opens a folder that only root can change. In a sticky one such
// as /tmp nobody can replace root's files (unlink(2)).
func openDirTrusted(dir int, name, full string) (int, string, error) {
	fd, err := unix.Openat(dir, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, "", &os.PathError{Op: "open", Path: full, Err: err}
	}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil && (st.Mode&unix.S_ISVTX == 0 || st.Uid != 0) {
		err = OpenOwnedByRoot(fd, full, &st)
	}
	if err != nil {
		unix.Close(fd)
		return -1, "", err
	}
	return fd, full, nil
}

// OwnedByRoot refuses what others than root can change. In a user's own user
// namespace, where host root is nobody, it refuses what this user could have
// written (rootless.Foreign).
func OwnedByRoot(path string, st *unix.Stat_t) error {
	if rootless.Inside() {
		return rootless.Foreign(path, st)
	}
	if st.Uid != 0 {
		return fmt.Errorf("%s belongs to uid %d, not to root: run `chown root %s`", path, st.Uid, path)
	}
	if st.Mode&0o022 != 0 {
		return fmt.Errorf("%s can be written by others than root: run `chmod go-w %s`", path, path)
	}
	return nil
}

// OpenOwnedByRoot is OwnedByRoot for an open file, whose path is for messages.
func OpenOwnedByRoot(fd int, path string, st *unix.Stat_t) error {
	if !rootless.Inside() {
		return OwnedByRoot(path, st)
	}
	const link = "/proc/self/fd/"
	err := rootless.Foreign(link+strconv.Itoa(fd), st)
	if err != nil {
		return errors.New(strings.ReplaceAll(err.Error(), link+strconv.Itoa(fd), path))
	}
	return nil
}
