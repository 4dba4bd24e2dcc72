package review

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/filetime"
	"agentjail.dev/runtime/kernel/openat"
	"agentjail.dev/runtime/kernel/overlayfs"
	"agentjail.dev/runtime/kernel/printable"
)

// compare adds a change if a file of the view differs from that of the directory, which is in
// actual and has c.Old. sub is what a directory of the view is merged of, and gid the group of the
// directory's file.
func (w *walker) compare(c *Change, e *entry, sub *node, actual *os.File, gid uint32) error {
	there := c.Old.Ino != 0
	here := sub != nil && sub.merged && sub.low != e.low // it was renamed itself
	if here {
		w.out.Moved[sub.low] = c.Path
	}
	if sub != nil && sub.upper && there && (!sub.merged || sub.low != c.Path) {
		w.out.Units = append(w.out.Units, c.Path)
	}
	switch {
	case !there && here:
		c.Kind, c.From = Renamed, sub.low
		if !w.isDir(sub.low) {
			c.Conflict = "the view shows here what was renamed or removed in the directory meanwhile: " + printable.Line(sub.low, 0)
		}
	case !there:
		c.Kind, c.Implied = Added, e.moved && w.unchanged(e, sub)
		if b, ok := w.o.Bases[c.Path]; ok && e.src.Upper && !w.exists(b.Path) {
			c.Conflict = "what the jail changed was moved or removed in the directory meanwhile"
		}
	case typeOf(c.Old.Mode) != c.Type || c.Type == Special && c.Old.Mode&unix.S_IFMT != c.New.Mode&unix.S_IFMT:
		c.Kind = Type
	default:
		same, err := w.same(c, e, actual)
		if err != nil {
			return err
		}
		switch {
		case !same:
			c.Kind = Modified
		case c.Type != Link && c.Old.Mode&0o777 != c.New.Mode&0o777:
			c.Kind = Mode
		default:
			return nil
		}
	}
	if there && w.later(c.Path, c.Old.Ctime) {
		c.Conflict = w.changedSince()
	}
	w.mark(c)
	if c.Kind != Mode { // another file takes its place
		gid = w.group
	}
	if why := w.writers(c, gid); why != "" && !c.Implied {
		c.Marks = append(c.Marks, Mark{Writable, why})
	}
	// A change that an apply leaves out is shown.
	c.Implied = c.Implied && !c.Has(Protected) && !c.Has(Out) && !c.Has(Never)
	if c.Kind == Type && typeOf(c.Old.Mode) == Dir {
		t, err := w.tree(c.Path)
		if err != nil {
			return err
		}
		c.Tree = t.digest
		switch {
		case t.left || len(t.gits) > 0:
			c.Conflict = "the directory in its place has what no apply removes (a repository, or hidden files)"
		case t.later:
			c.Conflict = w.changedSince()
		}
	}
	w.out.Changes = append(w.out.Changes, c)
	return nil
}

// isDir reports whether the directory has a directory at a path.
func (w *walker) isDir(at string) bool {
	st, err := overlayfs.Stat(w.lower, at)
	return err == nil && typeOf(st.Mode) == Dir
}

// exists reports whether the directory has a file at a path.
func (w *walker) exists(at string) bool {
	_, err := overlayfs.Stat(w.lower, at)
	return !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENOTDIR)
}

func (w *walker) changedSince() string {
	if w.o.Back > 0 {
		return fmt.Sprintf("it may have been changed in the directory since the view began: the clock was set back by %v", w.o.Back.Round(time.Millisecond))
	}
	return "it was changed in the directory since the view began"
}

// unchanged reports whether a part of a renamed directory is as it was.
func (w *walker) unchanged(e *entry, sub *node) bool {
	if !e.src.Upper || sub == nil || !sub.merged {
		return !e.src.Upper
	}
	st, err := overlayfs.Stat(w.lower, sub.low)
	return err == nil && typeOf(st.Mode) == Dir && st.Mode&0o777 == e.st.Mode&0o777
}

// same compares two files of one type by content.
func (w *walker) same(c *Change, e *entry, actual *os.File) (bool, error) {
	name := path.Base(c.Path)
	switch c.Type {
	case Link:
		old, err := openat.Readlink(int(actual.Fd()), name)
		return err == nil && old == c.Target, nil
	case File:
		if c.Old.Size != c.New.Size {
			return false, nil
		}
		return w.sameContent(e.dir, int(actual.Fd()), name, c.Size)
	}
	return true, nil
}

// sameContent compares two files of one size; holes in both are not read.
func (w *walker) sameContent(a, b int, name string, size int64) (bool, error) {
	var files [2]*os.File
	for i, dir := range []int{a, b} {
		fd, err := overlayfs.Beneath(dir, name, unix.O_RDONLY)
		if err != nil {
			return false, nil //nolint:nilerr // gone, or without a right to read it: shown as changed
		}
		files[i] = os.NewFile(uintptr(fd), name)
		defer files[i].Close()
		var st unix.Stat_t
		if unix.Fstat(fd, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
			return false, nil
		}
	}
	for at := int64(0); at < size; {
		if err := w.ctx.Err(); err != nil {
			return false, err
		}
		start := min(nextData(files[0], at, size), nextData(files[1], at, size))
		n := min(size-start, int64(len(w.bufs[0])))
		if n <= 0 {
			return true, nil
		}
		for i, f := range files {
			if got, err := f.ReadAt(w.bufs[i][:n], start); int64(got) != n || err != nil && !errors.Is(err, io.EOF) {
				return false, nil
			}
		}
		if !bytes.Equal(w.bufs[0][:n], w.bufs[1][:n]) {
			return false, nil
		}
		at = start + n
	}
	return true, nil
}

// nextData is where a file has data next, size for nowhere.
func nextData(f *os.File, at, size int64) int64 {
	next, err := unix.Seek(int(f.Fd()), at, unix.SEEK_DATA)
	switch {
	case err == nil:
		return next
	case err == unix.ENXIO:
		return size
	}
	return at
}

// later reports whether a file has changed since the view began, but by an apply: by the clock, and
// by the time of change that it had when its base was noted, whatever was done to the clock since.
func (w *walker) later(at string, ctime int64) bool {
	ts, base := unix.NsecToTimespec(ctime), w.o.Bases[at]
	same := base.Path != at || base.Ctime == 0 || base.Ctime == ctime
	if same && !filetime.After(unix.StatxTimestamp{Sec: ts.Sec, Nsec: uint32(ts.Nsec)}, w.o.Since) {
		return false
	}
	if w.o.Applied[at] == ctime {
		return false
	}
	for dir := at; len(w.o.Applied) > 0 && dir != "."; dir = path.Dir(dir) {
		if ctime <= w.o.Applied[dir+"/"]-int64(w.o.Back) {
			return false
		}
	}
	return true
}

// removed reports that the view does not have a file of the directory. A directory with files that
// no apply touches stays, and what else is in it is removed. A repository goes as a whole where the
// project ignores it: git runs nothing of what is not there.
func (w *walker) removed(at string) error {
	if w.leftOut(at) || isDotGit(at) {
		return nil
	}
	st, err := overlayfs.Stat(w.lower, at)
	if err != nil {
		return nil //nolint:nilerr // gone, or a mount, which the view does not have
	}
	c := &Change{Kind: Deleted, Path: at, Type: typeOf(st.Mode), Old: StateOf(&st)}
	late := w.later(at, c.Old.Ctime)
	if c.Type == Dir {
		t, err := w.tree(at)
		if err != nil {
			return err
		}
		if t.left || slices.ContainsFunc(t.gits, func(p string) bool { return !w.ignored(p) }) {
			return w.removedContent(at)
		}
		c.Tree, c.git, late = t.digest, len(t.gits) > 0, late || t.later
	}
	if late {
		c.Conflict = w.changedSince()
	}
	w.mark(c)
	w.out.Changes = append(w.out.Changes, c)
	return nil
}

func (w *walker) removedContent(at string) error {
	f, err := w.openDir(w.lower, at)
	if err != nil || f == nil {
		return err
	}
	names, err := f.Readdirnames(-1)
	f.Close()
	if err != nil {
		return err
	}
	slices.Sort(names)
	for _, name := range names {
		if err := w.removed(path.Join(at, name)); err != nil {
			return err
		}
	}
	return nil
}

// tree describes a directory that is to be removed.
type tree struct {
	digest string
	later  bool     // something in it has changed
	left   bool     // it has what no apply touches
	gits   []string // what git finds repositories by
}

func (w *walker) tree(at string) (t tree, err error) {
	t.digest, err = Digest(w.lower, at, func(p string, st *unix.Stat_t) {
		t.left = t.left || w.leftOut(p)
		if isDotGit(p) {
			t.gits = append(t.gits, p)
		}
		t.later = t.later || w.later(p, unix.TimespecToNsec(st.Ctim))
	})
	return t, err
}

// Digest identifies what is in a directory: two calls with one result have found the same files,
// none of which was changed between. The directory's own state is not in it: a rename changes
// that. A directory that its owner cannot list by its mode counts by its own state: none can change
// it without changing that.
func Digest(root int, at string, see func(at string, st *unix.Stat_t)) (string, error) {
	h := sha256.New()
	shut := map[string]bool{} // directories whose content does not count
	err := overlayfs.Walk(context.Background(), root, at, func(e overlayfs.Entry, err error) error {
		if err != nil {
			return err
		}
		counts := !shut[path.Dir(e.Path)]
		if counts {
			h.Write([]byte(strings.TrimPrefix(e.Path, at+"/") + "\x00"))
			var b [16]byte
			binary.LittleEndian.PutUint64(b[:], e.Stat.Ino)
			binary.LittleEndian.PutUint64(b[8:], uint64(unix.TimespecToNsec(e.Stat.Ctim)))
			h.Write(b[:])
		}
		if see != nil {
			see(e.Path, &e.Stat)
		}
		if !e.IsDir() || counts && e.Stat.Mode&0o500 == 0o500 {
			return nil
		}
		if see == nil {
			return fs.SkipDir
		}
		shut[e.Path] = true
		return nil
	})
	return hex.EncodeToString(h.Sum(nil)), err
}
