// Package overlayfs reads the layers of an overlay (Documentation/filesystems/overlayfs.rst),
// which jails write meanwhile: names are opened relative to descriptors, without following links.
package overlayfs

import (
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
