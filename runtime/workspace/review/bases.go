package review

import (
	"context"
	"io/fs"
	"os"
	"path"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/overlayfs"
)

// A Base is the file of the directory that a file of a view's layer was made of, or is shown in
// place of.
type Base struct {
	// Path is where the directory had it.
	Path string `json:"path"`
	// Ctime is its time of change then, in nanoseconds since 1970; 0 for a directory.
	Ctime int64 `json:"ctime,omitempty"`
}

// Bases returns what the files of a layer are based on, by path. had is what an earlier call
// returned, and stays for what is still in the layer. A copy of a file that the owner has moved or
// removed since is based on a path where there is nothing. After an apply (applied), a copied file
// without an origin is none of these: that has replaced it.
func Bases(ctx context.Context, upper, directory *os.File, had map[string]Base, applied bool) (map[string]Base, error) {
	handles, err := unix.Openat(int(directory.Fd()), ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: directory.Name(), Err: err}
	}
	defer unix.Close(handles)
	b := &baseFinder{
		walker: walker{ctx: ctx, upper: int(upper.Fd()), lower: int(directory.Fd())}, handles: handles,
		had: had, out: map[string]Base{}, covered: map[fileID]Base{}, moved: map[string]bool{}, applied: applied,
	}
	if err := b.walk(node{at: ".", upper: true, low: ".", merged: true}); err != nil {
		return nil, err
	}
	return b.out, b.findOrigins()
}

type fileID struct{ dev, ino uint64 }

type baseFinder struct {
	walker
	handles  int // the directory, readable: files are opened by their handles with it
	had, out map[string]Base
	applied  bool
	covered  map[fileID]Base   // files of the directory that the view does not show at their path
	trees    []string          // directories of the directory, likewise
	moved    map[string]bool   // those that it shows at another path
	copied   map[string]origin // files of the layer that were copied of one that is not at their path
}

// origin is the file that another was copied of.
type origin struct {
	fileID
	gone bool
}

func (b *baseFinder) walk(d node) error {
	if err := b.ctx.Err(); err != nil {
		return err
	}
	list, closeAll, err := b.entries(node{at: d.at, upper: true})
	defer closeAll()
	if err != nil || len(list) == 0 {
		return err
	}
	var lower *os.File
	if d.merged {
		if lower, err = b.openDir(b.lower, d.low); err != nil {
			return err
		}
		defer lower.Close()
	}
	// The kernel marks each directory into which it moved a copied file.
	impure := overlayfs.Attr(list[0].dir, "impure") != ""
	var dirs []node
	for _, e := range list {
		name := path.Base(e.at)
		if len(e.at) >= unix.PathMax || isDotGit(name) || b.leftOut(e.at) {
			continue
		}
		e.low, e.merged = path.Join(d.low, name), d.merged
		sub, err := b.entry(&e, lower, impure)
		if err != nil {
			return err
		}
		if sub != nil {
			dirs = append(dirs, *sub)
		}
	}
	closeAll()
	lower.Close()
	for _, sub := range dirs {
		if err := b.walk(sub); err != nil {
			return err
		}
	}
	return nil
}

// entry notes the base of a name in a directory of the layer. It returns a directory to walk.
func (b *baseFinder) entry(e *entry, lower *os.File, impure bool) (*node, error) {
	at, low, name := e.at, e.low, path.Base(e.at)
	var st unix.Stat_t
	there := lower != nil && unix.Fstatat(int(lower.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil
	isDir := typeOf(st.Mode) == Dir
	if typeOf(e.st.Mode) == Dir {
		n, err := b.below(e)
		if err != nil {
			return nil, err
		}
		if n.merged && n.low != low {
			b.moved[n.low] = true
		}
		switch {
		case there && isDir && (!n.merged || n.low != low):
			b.trees = append(b.trees, low)
		case there && isDir && n.merged:
			b.out[at] = Base{Path: low}
		case !there && n.merged && n.low == low && b.had[at].Path != "":
			b.out[at] = b.had[at]
		}
		if there && !isDir {
			b.cover(at, low, &st)
		}
		return n, nil
	}
	switch {
	case there && isDir:
		b.trees = append(b.trees, low)
		b.out[at] = Base{Path: low}
	case there:
		b.cover(at, low, &st)
	case e.st.Mode&unix.S_IFMT == unix.S_IFCHR: // a whiteout: both have removed it
	case b.had[at].Path != "":
		b.out[at] = b.had[at]
	case impure:
		from, gone, ok := overlayfs.Origin(e.dir, name, b.handles)
		if ok && !(gone && b.applied) {
			if b.copied == nil {
				b.copied = map[string]origin{}
			}
			b.copied[at] = origin{fileID{from.Dev, from.Ino}, gone}
		}
	}
	return nil, nil
}

func (b *baseFinder) cover(at, low string, st *unix.Stat_t) {
	base := Base{Path: low, Ctime: unix.TimespecToNsec(st.Ctim)}
	b.covered[fileID{st.Dev, st.Ino}] = base
	if had, ok := b.had[at]; ok && had.Path == low {
		base = had
	}
	b.out[at] = base
}

// findOrigins notes the bases of copied files that the jail has moved: each is at a path that the
// view does not show, else the owner has moved or removed it.
func (b *baseFinder) findOrigins() error {
	if len(b.copied) == 0 {
		return nil
	}
	missing := false
	for _, from := range b.copied {
		_, ok := b.covered[from.fileID]
		missing = missing || !ok && !from.gone
	}
	if missing {
		for _, at := range b.trees {
			if err := b.coverTree(at); err != nil {
				return err
			}
		}
	}
	for at, from := range b.copied {
		base, ok := b.covered[from.fileID]
		if !ok || from.gone {
			base = Base{Path: at} // where the directory has nothing
		}
		b.out[at] = base
	}
	return nil
}

// coverTree notes the files in a directory that the view does not show.
func (b *baseFinder) coverTree(at string) error {
	if b.moved[at] || len(at) >= unix.PathMax {
		return nil
	}
	return overlayfs.Walk(b.ctx, b.lower, at, func(e overlayfs.Entry, err error) error {
		switch {
		case isGone(err):
		case err != nil:
			return err
		case !e.IsDir():
			b.covered[fileID{e.Stat.Dev, e.Stat.Ino}] = Base{Path: e.Path, Ctime: unix.TimespecToNsec(e.Stat.Ctim)}
		case b.moved[e.Path] || len(e.Path) >= unix.PathMax:
			return fs.SkipDir
		}
		return nil
	})
}
