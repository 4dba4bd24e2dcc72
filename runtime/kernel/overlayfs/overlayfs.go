// Package overlayfs reads the layers of an overlay (Documentation/filesystems/overlayfs.rst),
// which jails write meanwhile: names are opened relative to descriptors, without following links.
package overlayfs

import (
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/openat"
)

// Beneath opens a file below a directory, without following links.
func Beneath(dir int, name string, flags int) (int, error) {
	if flags&unix.O_PATH == 0 {
		flags |= unix.O_NONBLOCK | unix.O_NOCTTY // opening a jail's pipe must not block
	}
	return openat.Open(dir, name, openat.OneMount, flags|unix.O_NOFOLLOW)
}

// Stat returns the attributes of a file below a directory, without following links.
func Stat(dir int, name string) (st unix.Stat_t, err error) {
	fd, err := Beneath(dir, name, unix.O_PATH)
	if err != nil {
		return st, err
	}
	defer unix.Close(fd)
	err = unix.Fstat(fd, &st)
	return st, err
}

// IsWhiteout reports whether a file is the mark for a removed file ("whiteouts and opaque
// directories").
func IsWhiteout(st *unix.Stat_t) bool { return st.Mode&unix.S_IFMT == unix.S_IFCHR && st.Rdev == 0 }

// Attr returns an attribute of overlayfs's own, which only the host's root sets; "" for none.
func Attr(fd int, name string) string {
	value := make([]byte, unix.PathMax)
	n, err := unix.Fgetxattr(fd, "trusted.overlay."+name, value)
	if err != nil {
		return ""
	}
	return string(value[:n])
}

// Redirect returns the name in its parent's place, or the path from the layer's root with a leading
// slash, of the lower directory that is merged into a directory of the upper layer; "" for that of
// the same name. A value that the kernel does not follow is an error (ovl_get_redirect_xattr,
// lookup_noperm).
func Redirect(fd int) (string, error) {
	to := Attr(fd, "redirect")
	parts := strings.Split(strings.TrimPrefix(to, "/"), "/")
	wrong := func(p string) bool { return p == "" || p == "." || p == ".." || strings.Contains(p, "\x00") }
	if to != "" && (to[0] != '/' && len(parts) > 1 || slices.ContainsFunc(parts, wrong)) {
		return "", fmt.Errorf("a directory is merged with %q, which the kernel does not follow", to)
	}
	return to, nil
}

// IsMarkedWhiteout reports whether a file without content is a whiteout by its attribute, which
// counts in a directory whose attribute "opaque" is "x" (Linux 6.7).
func IsMarkedWhiteout(dir int, name string) bool {
	fd, err := Beneath(dir, name, unix.O_RDONLY)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	_, err = unix.Fgetxattr(fd, "trusted.overlay.whiteout", nil)
	return err == nil
}

// Origin returns the file of the lower layer that a file of the upper one was copied of, and
// whether it exists no more. ok is false where that is not known: the file was not copied, or its
// origin forgotten. lower is any directory of the lower layer's file system, opened without O_PATH.
func Origin(upper int, name string, lower int) (st unix.Stat_t, gone, ok bool) {
	const (
		header  = 21 // struct ovl_fb (fs/overlayfs/overlayfs.h) before the handle
		magic   = 0xfb
		inUpper = 4 // OVL_FH_FLAG_PATH_UPPER
		most    = 128
	)
	value := make([]byte, header+most)
	n, err := unix.Lgetxattr(openat.Proc(upper)+"/"+name, "trusted.overlay.origin", value)
	if err != nil || n <= header || value[0] != 0 || value[1] != magic || int(value[2]) != n || value[3]&inUpper != 0 {
		return st, false, false
	}
	fd, err := unix.OpenByHandleAt(lower, unix.NewFileHandle(int32(value[4]), value[header:n]), unix.O_PATH)
	if err != nil {
		return st, true, err == unix.ESTALE
	}
	defer unix.Close(fd)
	err = unix.Fstat(fd, &st)
	return st, st.Nlink == 0, err == nil
}

// ForgetOrigins removes from an upper layer that is not mounted which files of the lower one its
// files were copied of. The kernel takes a file of the lower layer, and one of the upper that was
// copied of it, for one file: where the lower one has another name by now, either shows the
// other's content, or cannot be opened ("stale file handle").
func ForgetOrigins(upper int) error {
	dirs := []string{"."}
	for len(dirs) > 0 {
		at := dirs[len(dirs)-1]
		more, err := forgetIn(upper, at)
		if err != nil {
			return err
		}
		dirs = append(dirs[:len(dirs)-1], more...)
	}
	return nil
}

// forgetIn is ForgetOrigins in one directory, and returns those below it.
func forgetIn(upper int, at string) (dirs []string, err error) {
	fd, err := Beneath(upper, at, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: at, Err: err}
	}
	f := os.NewFile(uintptr(fd), at)
	defer f.Close()
	list, err := f.ReadDir(-1)
	if err != nil {
		return nil, err
	}
	for _, e := range list {
		if e.IsDir() {
			if sub := path.Join(at, e.Name()); len(sub) < unix.PathMax { // the others no call takes
				dirs = append(dirs, sub)
			}
			continue
		}
		err := unix.Lremovexattr(openat.Proc(fd)+"/"+e.Name(), "trusted.overlay.origin")
		if err != nil && err != unix.ENODATA && err != unix.EOPNOTSUPP {
			return nil, &os.PathError{Op: "removexattr", Path: path.Join(at, e.Name()), Err: err}
		}
	}
	return dirs, nil
}
