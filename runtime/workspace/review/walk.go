package review

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/openat"
	"agentjail.dev/runtime/kernel/overlayfs"
	"agentjail.dev/runtime/kernel/printable"
	"agentjail.dev/runtime/kernel/users"
	"agentjail.dev/runtime/protect"
)

type walker struct {
	ctx          context.Context
	upper, lower int
	directory    *os.File // lower
	o            Options
	out          *Review
	bufs         [2][]byte
	owner, group uint32          // the directory's
	private      map[uint32]bool // groups of the owner alone
	users        func() []users.User
}

// A node is a directory of the view.
type node struct {
	at     string // in the view, and in the upper layer
	upper  bool   // the upper layer has it
	low    string // the directory of the lower layer that is merged into it
	merged bool   // there is such a directory
	moved  bool   // it is a part of a renamed directory
}

// An entry is a name in a directory of the view.
type entry struct {
	node
	src Source
	dir int // open, with the name path.Base(src.Path)
	st  unix.Stat_t
}

// dir compares a directory of the view with that of the same path.
func (w *walker) dir(d node) error {
	if err := w.ctx.Err(); err != nil {
		return err
	}
	list, closeAll, err := w.entries(d)
	defer closeAll()
	if err != nil {
		return err
	}
	actual, err := w.openDir(w.lower, d.at)
	if err != nil {
		return err
	}
	if actual != nil {
		defer actual.Close()
	}
	var dirs []node
	for _, e := range list {
		sub, err := w.entry(e, actual)
		if err != nil {
			return err
		}
		if sub != nil {
			dirs = append(dirs, *sub)
		}
	}
	if actual != nil && (!d.merged || d.low != d.at) {
		if err := w.gone(d, list, actual); err != nil {
			return err
		}
	}
	closeAll() // however deep the jail has made its directories, few are open
	if actual != nil {
		actual.Close()
	}
	for _, sub := range dirs {
		if err := w.dir(sub); err != nil {
			return err
		}
	}
	return nil
}

// openDir opens a directory; nil where there is none.
func (w *walker) openDir(root int, at string) (*os.File, error) {
	fd, err := overlayfs.Beneath(root, at, unix.O_RDONLY|unix.O_DIRECTORY)
	switch {
	case err == nil:
		return os.NewFile(uintptr(fd), at), nil
	case isGone(err):
		return nil, nil
	}
	return nil, &os.PathError{Op: "open", Path: at, Err: err}
}

// isGone reports that there is no file, or another one than a directory.
func isGone(err error) bool {
	return slices.ContainsFunc([]error{unix.ENOENT, unix.ENOTDIR, unix.ELOOP, unix.EXDEV},
		func(e error) bool { return errors.Is(err, e) })
}

// entries lists a directory of the view: the upper layer's names, and where they are not the same
// as those of the directory at this path, the lower layer's.
func (w *walker) entries(d node) (list []entry, closeAll func(), err error) {
	var open []*os.File
	closeAll = func() {
		for _, f := range open {
			f.Close()
		}
	}
	known := map[string]bool{}
	add := func(root int, at string, upper bool) error {
		f, err := w.openDir(root, at)
		if err != nil || f == nil {
			return err
		}
		open = append(open, f)
		names, err := f.Readdirnames(-1)
		if err != nil && !errors.Is(err, unix.ENOENT) {
			return err
		}
		marked := upper && overlayfs.Attr(int(f.Fd()), "opaque") == "x"
		for _, name := range names {
			if known[name] {
				continue
			}
			known[name] = true
			e := entry{node: node{at: path.Join(d.at, name), moved: d.moved}, src: Source{upper, path.Join(at, name)}, dir: int(f.Fd())}
			if d.merged {
				e.low, e.merged = path.Join(d.low, name), true
			}
			if unix.Fstatat(e.dir, name, &e.st, unix.AT_SYMLINK_NOFOLLOW) != nil {
				continue // gone meanwhile
			}
			if marked && e.st.Mode&unix.S_IFMT == unix.S_IFREG && e.st.Size == 0 && overlayfs.IsMarkedWhiteout(e.dir, name) {
				e.st.Mode, e.st.Rdev = unix.S_IFCHR, 0
			}
			list = append(list, e)
		}
		return nil
	}
	if d.upper {
		err = add(w.upper, d.at, true)
	}
	if err == nil && d.merged && d.low != d.at {
		err = add(w.lower, d.low, false)
	}
	slices.SortFunc(list, func(a, b entry) int { return strings.Compare(a.at, b.at) })
	return list, closeAll, err
}

// gone reports the files of a directory that the view does not have.
func (w *walker) gone(d node, list []entry, actual *os.File) error {
	has := map[string]bool{}
	for _, e := range list {
		has[path.Base(e.at)] = true // a whiteout was reported
	}
	names, err := actual.Readdirnames(-1)
	if err != nil {
		return err
	}
	slices.Sort(names)
	for _, name := range names {
		if has[name] {
			continue
		}
		if err := w.removed(path.Join(d.at, name)); err != nil {
			return err
		}
	}
	return nil
}

// entry compares one name of the view. It returns a directory that is to be compared further.
func (w *walker) entry(e entry, actual *os.File) (*node, error) {
	name := path.Base(e.at)
	if w.leftOut(e.at) {
		if e.src.Upper {
			w.out.Skipped = append(w.out.Skipped, e.at)
		}
		return nil, nil
	}
	if isDotGit(e.at) {
		if e.src.Upper {
			w.out.Git = append(w.out.Git, e.at)
		}
		return nil, nil
	}
	// No call takes the one, and no search for protected paths goes into the other.
	deep := strings.Count(e.at, "/") >= protect.DefaultLimits.Depth
	if long := len(e.at) >= unix.PathMax; long || deep && typeOf(e.st.Mode) == Dir {
		if !overlayfs.IsWhiteout(&e.st) {
			why := "a path that is longer than 4095 bytes is never applied, nor what is below"
			if !long {
				why = fmt.Sprintf("a directory in %d others is never applied, nor what is below", protect.DefaultLimits.Depth)
			}
			w.out.Changes = append(w.out.Changes, &Change{
				Kind: Added, Path: e.at, Type: typeOf(e.st.Mode), Source: e.src, New: StateOf(&e.st),
				Marks: []Mark{{Never, why}},
			})
		}
		return nil, nil
	}
	var old unix.Stat_t
	there := actual != nil && unix.Fstatat(int(actual.Fd()), name, &old, unix.AT_SYMLINK_NOFOLLOW) == nil
	if overlayfs.IsWhiteout(&e.st) {
		if there {
			return nil, w.removed(e.at)
		}
		return nil, nil
	}
	c := &Change{Path: e.at, Type: typeOf(e.st.Mode), Source: e.src, New: StateOf(&e.st), Size: e.st.Size, Perm: perm(e.st.Mode)}
	if c.Type != File {
		c.Size = 0
	}
	if c.Type == Link {
		var err error
		if c.Target, err = openat.Readlink(e.dir, name); err != nil {
			return nil, nil // gone meanwhile
		}
	}
	var sub *node
	if c.Type == Dir {
		var err error
		if sub, err = w.below(&e); err != nil {
			return nil, err
		}
	}
	if there {
		c.Old, c.shared = StateOf(&old), old.Nlink > 1
		if typeOf(old.Mode) == c.Type && perm(old.Mode) != c.Perm {
			c.OldPerm = perm(old.Mode)
		}
	}
	return sub, w.compare(c, &e, sub, actual, old.Gid)
}

// below is the node of a directory, with what is merged into it.
func (w *walker) below(e *entry) (*node, error) {
	n := e.node
	n.upper = e.src.Upper
	if !n.upper {
		n.low, n.merged = e.src.Path, true
		return &n, nil
	}
	fd, err := overlayfs.Beneath(w.upper, e.src.Path, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		n.merged = false
		return &n, nil //nolint:nilerr // gone meanwhile
	}
	defer unix.Close(fd)
	if overlayfs.Attr(fd, "opaque") == "y" {
		n.merged = false
		return &n, nil
	}
	to, err := overlayfs.Redirect(fd)
	if err != nil {
		return nil, fmt.Errorf("reading the view's layer at %s: %w", printable.Line(e.src.Path, 0), err)
	}
	if to != "" {
		switch {
		case to[0] == '/':
			n.low, n.merged = to[1:], true
		case n.merged:
			n.low = path.Join(path.Dir(n.low), to)
		}
		n.moved = true
	}
	return &n, nil
}
