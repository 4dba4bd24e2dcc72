// Package trusted decides whether only root can have chosen what a path leads to, and what is
// written there: policy, programs that agentjail runs as root or registers to be run as root, and
// its own state must be out of every other user's reach.
//
// A path is walked from the root directory, each component opened relative to the
// one before and looked at through its descriptor. Every directory and symbolic
// link on the way counts: who can write a directory can replace what is in it.
// Access control lists cannot add a writer, since their mask shows as the group
// bits (acl(5)).
//
// A result is of the moment. It is good for as long as only root can change it, which is what the
// result states.
package trusted

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/openat"
	"agentjail.dev/runtime/kernel/pathname"
	"agentjail.dev/runtime/kernel/rootless"
)

// errUntrusted is wrapped by refusals that are about ownership or permissions.
var errUntrusted = errors.New("not only root can change it")

// maxLinks is the kernel's own limit (path_resolution(7)).
const maxLinks = 40

// refusal is an error whose text names the path, the reason and the remedy.
type refusal struct{ text string }

func (r *refusal) Error() string { return r.text }
func (r *refusal) Unwrap() error { return errUntrusted }

func refuse(format string, args ...any) error {
	return &refusal{fmt.Sprintf(format, args...)}
}

// Open opens a regular file for reading that only root can have written and that only root can
// replace. The last component is no symbolic link. Directories with the sticky bit, such as /tmp,
// may be on the way if they are root's: no other user can replace root's files in them (unlink(2)).
func Open(path string) (*os.File, error) {
	w, err := walk(path, rules{sticky: true})
	if err != nil {
		return nil, err
	}
	defer w.close()
	if w.st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, fmt.Errorf("%s is not a regular file", w.at)
	}
	fd, err := unix.Open(openat.Proc(w.fd), unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: w.at, Err: err}
	}
	return os.NewFile(uintptr(fd), w.at), nil
}

// Read reads a file as Open opens it, of at most max bytes.
func Read(path string, max int64) ([]byte, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := openat.Whole(f, max)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	return data, nil
}

// Check is Open for those who need the answer only.
func Check(path string) error {
	f, err := Open(path)
	if err != nil {
		return err
	}
	return f.Close()
}

// Executable checks that a path leads to an executable regular file that only
// root can have chosen, through symbolic links of root's as well. No directory on
// the way may be open to others, sticky or not: a hard link of theirs to another
// program of root's would be their choice. The result is the path without symbolic
// links.
func Executable(path string) (string, error) {
	w, err := walk(path, rules{followLast: true})
	if err != nil {
		return "", fmt.Errorf("check %s: %w", path, err)
	}
	defer w.close()
	switch {
	case w.st.Mode&unix.S_IFMT != unix.S_IFREG:
		return "", fmt.Errorf("check %s: not a regular file", path)
	case w.st.Mode&0o111 == 0:
		return "", fmt.Errorf("check %s: not executable", path)
	}
	return w.at, nil
}

// Owner refuses what others than root can change. In a user's own user namespace, where host root
// has no id, it refuses what this user could have written (rootless.Foreign).
func Owner(path string, st *unix.Stat_t) error {
	switch {
	case rootless.Inside():
		return rootless.Foreign(path, st)
	case st.Uid != 0:
		return refuse("%s belongs to uid %d, not to root: %s", path, st.Uid, rootless.Remedy("", "chown root", path, st))
	case st.Mode&0o022 != 0:
		return refuse("%s can be written by others than root: %s", path, rootless.Remedy("", "chmod go-w", path, st))
	}
	return nil
}

// OwnerOf is Owner for an open file, whose path is for messages.
func OwnerOf(fd int, path string, st *unix.Stat_t) error {
	if !rootless.Inside() {
		return Owner(path, st)
	}
	if err := rootless.Foreign(openat.Proc(fd), st); err != nil {
		return refuse("%s", strings.ReplaceAll(err.Error(), openat.Proc(fd), path))
	}
	return nil
}

// rules are the checks that differ between callers.
type rules struct {
	sticky     bool // directories of root's with the sticky bit may be on the way
	followLast bool // the last component may be a symbolic link
}

// A walker stands at one component of a path.
type walker struct {
	rules
	fd int         // O_PATH
	at string      // without symbolic links
	st unix.Stat_t // of fd
}

func (w *walker) close() { unix.Close(w.fd) }

// walk goes to the end of an absolute path. The caller closes the walker.
func walk(path string, r rules) (*walker, error) {
	if !filepath.IsAbs(path) || strings.ContainsRune(path, 0) {
		return nil, fmt.Errorf("%q is not an absolute path", path)
	}
	w := &walker{rules: r, fd: -1}
	if err := w.toRoot(); err != nil {
		return nil, err
	}
	todo := pathname.Components(path)
	for links := 0; len(todo) > 0; {
		target, err := w.step(todo[0])
		if err == nil && target != "" {
			if links++; links > maxLinks || len(todo) == 1 && !r.followLast {
				err = &os.PathError{Op: "open", Path: path, Err: unix.ELOOP}
			}
		}
		if err == nil && filepath.IsAbs(target) {
			err = w.toRoot()
		}
		if err != nil {
			w.close()
			return nil, err
		}
		todo = append(pathname.Components(target), todo[1:]...)
	}
	return w, nil
}

// toRoot goes to the root directory.
func (w *walker) toRoot() error {
	fd, st, err := openPath(unix.AT_FDCWD, "/", "/")
	if err != nil {
		return err
	}
	return w.enter(fd, "/", &st)
}

// step goes to one component, or, where that is a symbolic link, stays and returns
// what it points to.
func (w *walker) step(name string) (target string, err error) {
	if w.st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return "", &os.PathError{Op: "open", Path: w.at, Err: unix.ENOTDIR}
	}
	next := filepath.Join(w.at, name) // "..": the parent, since at has no links
	fd, st, err := openPath(w.fd, name, next)
	if err != nil {
		return "", err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFLNK {
		return "", w.enter(fd, next, &st)
	}
	defer unix.Close(fd)
	if err := linkOwner(next, st); err != nil {
		return "", err
	}
	if target, err = openat.Readlink(fd, ""); err != nil {
		return "", &os.PathError{Op: "readlink", Path: next, Err: err}
	}
	return target, nil
}

// enter judges a file that was opened, and stands there.
func (w *walker) enter(fd int, at string, st *unix.Stat_t) error {
	shared := w.sticky && st.Uid == 0 && st.Mode&(unix.S_IFMT|unix.S_ISVTX) == unix.S_IFDIR|unix.S_ISVTX
	if !shared {
		if err := OwnerOf(fd, at, st); err != nil {
			unix.Close(fd)
			return err
		}
	}
	if w.fd >= 0 {
		unix.Close(w.fd)
	}
	w.fd, w.at, w.st = fd, at, *st
	return nil
}

// linkOwner judges a symbolic link, whose own mode means nothing (symlink(7)).
func linkOwner(path string, st unix.Stat_t) error {
	if rootless.Inside() {
		st.Mode &^= 0o777
		return rootless.Foreign(path, &st)
	}
	if st.Uid != 0 {
		return refuse("%s belongs to uid %d, not to root: run `chown -h root %s`", path, st.Uid, path)
	}
	return nil
}

func openPath(dir int, name, full string) (int, unix.Stat_t, error) {
	var st unix.Stat_t
	fd, err := unix.Openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, st, &os.PathError{Op: "open", Path: full, Err: err}
	}
	if err := unix.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		return -1, st, &os.PathError{Op: "stat", Path: full, Err: err}
	}
	return fd, st, nil
}
