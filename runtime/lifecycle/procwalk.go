package lifecycle

import (
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/openat"
)

// throughProc walks name below root by hand and reports whether a symbolic link on
// the way leads into /proc.
func throughProc(root int, name string) (bool, error) {
	rest := strings.Split(strings.Trim(path.Clean("/"+name), "/"), "/")
	cur := "/"
	for hops := 0; len(rest) > 0; {
		elem := rest[0]
		rest = rest[1:]
		switch elem {
		case "", ".":
			continue
		case "..":
			cur = path.Dir(cur)
			continue
		}
		next := path.Join(cur, elem)
		if next == "/proc" {
			return true, nil
		}
		fd, err := openat.Open(root, next, openat.InRoot, unix.O_PATH|unix.O_NOFOLLOW)
		if err != nil {
			return false, err
		}
		buf := make([]byte, 4096)
		n, err := unix.Readlinkat(fd, "", buf)
		unix.Close(fd)
		if err != nil {
			cur = next // not a link
			continue
		}
		if hops++; hops > 40 {
			return false, unix.ELOOP
		}
		target := string(buf[:n])
		if path.IsAbs(target) {
			cur = "/"
		}
		rest = append(strings.Split(strings.Trim(target, "/"), "/"), rest...)
	}
	return false, nil
}
