// Package rootowned decides whether only root can have chosen what a path leads to: programs that agentjail runs as root, or registers
// to be run as root, must be out of everybody else's reach.
package rootowned

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrUntrusted is wrapped by every refusal that is about ownership or permissions.
var ErrUntrusted = errors.New("not only root can change it")

// maxSymlinks is the kernel's own limit (path_resolution(7)).
const maxSymlinks = 40

// Executable checks that path is absolute and leads to an executable regular file that is owned by root and writable for nobody else,
// through folders and symbolic links of which the same holds. Access control lists cannot add a writer: their mask shows as the group
// bits (acl(5)). The result is the path without symbolic links.
//
// The check is of the moment: it is good for as long as only root can change the answer, which is what it checks.
func Executable(path string) (string, error) {
	resolved, st, err := resolve(path)
	if err != nil {
		return "", fmt.Errorf("check %s: %w", path, err)
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return "", fmt.Errorf("check %s: not a regular file", path)
	case st.Mode&0o111 == 0:
		return "", fmt.Errorf("check %s: not executable", path)
	}
	return resolved, nil
}

// resolve walks the path from the root folder, each component opened relative to the one before and looked at through its descriptor.
func resolve(path string) (string, unix.Stat_t, error) {
	var st unix.Stat_t
	if !filepath.IsAbs(path) {
		return "", st, errors.New("not an absolute path")
	}
	if strings.ContainsRune(path, 0) {
		return "", st, errors.New("not a path")
	}
	const flags = unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC
	todo := components(path)
	at := "/"
	dir, err := openChecked(unix.AT_FDCWD, "/", "/", flags, &st)
	if err != nil {
		return "", st, err
	}
	defer func() { unix.Close(dir) }()
	for links := 0; len(todo) > 0; {
		name := todo[0]
		todo = todo[1:]
		if st.Mode&unix.S_IFMT != unix.S_IFDIR {
			return "", st, &os.PathError{Op: "open", Path: at, Err: unix.ENOTDIR}
		}
		next := filepath.Join(at, name) // ".." of a link's target: the parent, since at has no links
		fd, err := openChecked(dir, name, next, flags, &st)
		if err != nil {
			return "", st, err
		}
		if st.Mode&unix.S_IFMT == unix.S_IFLNK {
			if links++; links > maxSymlinks {
				unix.Close(fd)
				return "", st, &os.PathError{Op: "open", Path: path, Err: unix.ELOOP}
			}
			target := make([]byte, unix.PathMax)
			n, err := unix.Readlinkat(fd, "", target)
			unix.Close(fd)
			if err != nil {
				return "", st, &os.PathError{Op: "readlink", Path: next, Err: err}
			}
			t := string(target[:n])
			todo = append(components(t), todo...)
			if filepath.IsAbs(t) {
				fd, err := openChecked(unix.AT_FDCWD, "/", "/", flags, &st)
				if err != nil {
					return "", st, err
				}
				unix.Close(dir)
				dir, at = fd, "/"
			} else if err := unix.Fstat(dir, &st); err != nil {
				return "", st, &os.PathError{Op: "stat", Path: at, Err: err}
			}
			continue
		}
		unix.Close(dir)
		dir, at = fd, next
	}
	return at, st, nil
}

// components splits a path and keeps "..".
func components(path string) []string {
	var out []string
	for _, c := range strings.Split(path, "/") {
		if c != "" && c != "." {
			out = append(out, c)
		}
	}
	return out
}

// openChecked opens one component and refuses it if somebody else than root owns or can write it. shown is its whole path.
func openChecked(dir int, name, shown string, flags int, st *unix.Stat_t) (int, error) {
	fd, err := unix.Openat(dir, name, flags, 0)
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: shown, Err: err}
	}
	if err := unix.Fstat(fd, st); err != nil {
		unix.Close(fd)
		return -1, &os.PathError{Op: "stat", Path: shown, Err: err}
	}
	var why string
	switch link := st.Mode&unix.S_IFMT == unix.S_IFLNK; {
	case st.Uid != 0:
		why = fmt.Sprintf("%s belongs to uid %d", shown, st.Uid)
	case !link && st.Mode&0o022 != 0: // a link's own mode means nothing (symlink(7))
		why = fmt.Sprintf("%s is writable for its group or for all (mode %04o)", shown, st.Mode&0o7777)
	}
	if why != "" {
		unix.Close(fd)
		return -1, fmt.Errorf("%w: %s", ErrUntrusted, why)
	}
	return fd, nil
}
