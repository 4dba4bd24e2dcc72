package firstproc

import (
	"errors"
	"path"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/openat"
)

var errProc = errors.New("the path leads through /proc")

// throughProc walks name below root and reports whether a symbolic link on the way leads into
// /proc.
func throughProc(root int, name string) (bool, error) {
	_, err := openat.Follow(path.Clean("/"+name), func(at string) (string, error) {
		if at == "/proc" {
			return "", errProc
		}
		fd, err := openat.Open(root, at, openat.InRoot, unix.O_PATH|unix.O_NOFOLLOW)
		if err != nil {
			return "", err
		}
		defer unix.Close(fd)
		target, _ := openat.Readlink(fd, "") // "" for what is no link
		return target, nil
	})
	if errors.Is(err, errProc) {
		return true, nil
	}
	return false, err
}
