package bindsource

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/openat"
	"agentjail.dev/runtime/kernel/pathname"
)

// maxLinks is the kernel's own limit (path_resolution(7)).
const maxLinks = 40

// systemLinkDirs are directories whose symbolic links are the system's layout (/bin, /var/run).
// Only root makes these links, and no jail shares the directories.
var systemLinkDirs = map[string]bool{"/": true, "/var": true}

// walk opens path (O_PATH), following symbolic links by hand, and returns the first link that
// leads out of the directory that holds it: an agent with a writable directory can make such a
// link and wait for it to be mounted. Every step starts from the directory opened before, so that
// links that change meanwhile do not change the result. walk calls look for every step, the first
// of which is /.
func walk(path string, look func(fd int, at string, st *unix.Stat_t)) (fd int, leaving string, err error) {
	const flags = unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC
	var st unix.Stat_t
	dir, err := unix.Open("/", flags, 0)
	if err == nil {
		err = unix.Fstat(dir, &st)
	}
	if err != nil {
		return -1, "", &os.PathError{Op: "open", Path: "/", Err: err}
	}
	look(dir, "/", &st)
	fail := func(err error) (int, string, error) {
		unix.Close(dir)
		return -1, "", &os.PathError{Op: "bind source", Path: path, Err: err}
	}
	todo, at, links := pathname.Components(path), "/", 0
	for len(todo) > 0 {
		name := todo[0]
		todo = todo[1:]
		next, err := unix.Openat(dir, name, flags, 0)
		if err != nil {
			return fail(err)
		}
		if err := unix.Fstat(next, &st); err != nil {
			unix.Close(next)
			return fail(err)
		}
		look(next, filepath.Join(at, name), &st)
		if st.Mode&unix.S_IFMT != unix.S_IFLNK {
			unix.Close(dir)
			dir, at = next, filepath.Join(at, name) // at holds no links, so that .. is its parent
			continue
		}
		target, err := openat.Readlink(next, "")
		unix.Close(next)
		if err != nil {
			return fail(err)
		}
		if links++; links > maxLinks {
			return fail(unix.ELOOP)
		}
		to := target
		if !filepath.IsAbs(to) {
			to = filepath.Join(at, to)
		}
		if leaving == "" && !systemLinkDirs[at] && !pathname.Within(filepath.Clean(to), at) {
			leaving = filepath.Join(at, name)
		}
		if filepath.IsAbs(target) {
			root, err := unix.Open("/", flags, 0)
			if err != nil {
				return fail(err)
			}
			unix.Close(dir)
			dir, at = root, "/"
		}
		todo = append(pathname.Components(target), todo...)
	}
	return dir, leaving, nil
}
