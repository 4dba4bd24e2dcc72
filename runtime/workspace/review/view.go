package review

import (
	"io"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/gitrepo"
	"agentjail.dev/runtime/kernel/openat"
	"agentjail.dev/runtime/kernel/overlayfs"
	"agentjail.dev/runtime/kernel/pathname"
)

// view are the files of a view as a jail has them: the upper layer over the directory. It is a
// gitrepo.Tree, whose paths are those of the view, or absolute ones of the host.
type view struct{ w *walker }

// find looks a path without links on its way up in the layers.
func (v view) find(at string) (e entry, err error) {
	e = entry{node: node{at: ".", upper: true, low: ".", merged: true}, src: Source{true, "."}, dir: v.w.upper}
	if at == "." {
		return e, unix.Fstat(v.w.upper, &e.st)
	}
	d := e.node
	for name := range strings.SplitSeq(at, "/") {
		if e, err = v.child(d, name); err != nil {
			return e, err
		}
		if e.st.Mode&unix.S_IFMT == unix.S_IFDIR {
			d = *v.w.below(&e)
		} else if e.at != at {
			return e, unix.ENOTDIR
		}
	}
	return e, nil
}

// child looks a name of a directory up. The entry's dir is the layer's top, and not open beyond it.
func (v view) child(d node, name string) (e entry, err error) {
	e = entry{node: node{at: path.Join(d.at, name)}}
	if d.merged {
		e.low, e.merged = path.Join(d.low, name), true
	}
	if d.upper {
		e.src, e.dir = Source{true, e.at}, v.w.upper
		if e.st, err = overlayfs.Stat(v.w.upper, e.at); err == nil {
			marked := e.st.Size == 0 && e.st.Mode&unix.S_IFMT == unix.S_IFREG && overlayfs.IsMarkedWhiteout(v.w.upper, e.at)
			if marked || overlayfs.IsWhiteout(&e.st) {
				return e, unix.ENOENT
			}
			return e, nil
		}
		if !isGone(err) {
			return e, err
		}
	}
	if !d.merged {
		return e, unix.ENOENT
	}
	e.src, e.dir = Source{false, e.low}, v.w.lower
	e.st, err = overlayfs.Stat(v.w.lower, e.low)
	return e, err
}

// top is the directory's path on the host.
func (v view) top() string { return path.Clean("/" + v.w.o.Path) }

// real returns a path of the host, or of the view, without its links: one of the view where inside
// is true.
func (v view) real(at string) (real string, inside bool, err error) {
	if !path.IsAbs(at) {
		at = v.top() + "/" + at
	}
	real, err = openat.Follow(at, func(at string) (string, error) {
		rel, in := v.inside(at)
		if !in {
			target, err := os.Readlink(at)
			if err != nil {
				return "", nil //nolint:nilerr // another file, or none
			}
			return target, nil
		}
		if e, err := v.find(rel); err == nil && e.st.Mode&unix.S_IFMT == unix.S_IFLNK {
			return v.readlink(&e)
		}
		return "", nil
	})
	if rel, in := v.inside(real); in {
		return rel, true, err
	}
	return real, false, err
}

// inside is the path in the view of one on the host.
func (v view) inside(at string) (rel string, in bool) {
	if at == v.top() {
		return ".", true
	}
	return pathname.Rel(at, v.top())
}

func (v view) readlink(e *entry) (string, error) {
	fd, err := overlayfs.Beneath(e.dir, e.src.Path, unix.O_PATH)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	return openat.Readlink(fd, "")
}

// Lstat is that of gitrepo.Tree.
func (v view) Lstat(at string) (uint32, error) {
	dir, inside, err := v.real(path.Dir(at))
	if err != nil {
		return 0, err
	}
	if at = path.Join(dir, path.Base(at)); !inside {
		return gitrepo.Host{}.Lstat(at)
	}
	e, err := v.find(at)
	return e.st.Mode, err
}

// Stat is that of gitrepo.Tree.
func (v view) Stat(at string) (string, uint32, error) {
	real, inside, err := v.real(at)
	if err != nil {
		return "", 0, err
	}
	if !inside {
		return gitrepo.Host{}.Stat(real)
	}
	e, err := v.find(real)
	return real, e.st.Mode, err
}

// Readlink is that of gitrepo.Tree.
func (v view) Readlink(at string) (string, error) {
	dir, inside, err := v.real(path.Dir(at))
	if err != nil {
		return "", err
	}
	if at = path.Join(dir, path.Base(at)); !inside {
		return gitrepo.Host{}.Readlink(at)
	}
	e, err := v.find(at)
	if err != nil {
		return "", err
	}
	return v.readlink(&e)
}

// Head is that of gitrepo.Tree.
func (v view) Head(at string, max int64) (string, error) {
	real, inside, err := v.real(at)
	if err != nil {
		return "", err
	}
	if !inside {
		return gitrepo.Host{}.Head(real, max)
	}
	e, err := v.find(real)
	if err != nil {
		return "", err
	}
	f, err := openat.Regular(e.dir, e.src.Path, openat.OneMount)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, max))
	return string(text), err
}
