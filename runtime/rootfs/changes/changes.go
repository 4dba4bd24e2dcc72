// Package changes reports what a running jail has changed, and exports its whole file tree, with
// owners as the jail has them. An engine sees a jail's root with the host's ids (overlayfs cannot
// be idmapped): `docker diff` lists every file of the image, and `docker export` has ids of 2
// billion.
//
// The jail writes all of these files, also meanwhile: names are opened one directory at a time,
// relative to descriptors, without following links.
package changes

import (
	"context"
	"errors"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/openat"
	"agentjail.dev/runtime/kernel/overlayfs"
	"agentjail.dev/runtime/kernel/printable"
)

// Kinds of changes, by the letters of `docker diff`.
const (
	Added   = "A"
	Changed = "C"
	Deleted = "D"
)

// A Change is a path that a jail has made, changed or removed.
type Change struct {
	Kind string `json:"kind"`
	Path string `json:"path"` // below the jail's root, beginning with a slash
}

// String is the change on one line, whatever the jail has put into the name.
func (c Change) String() string { return c.Kind + " " + printable.Line(c.Path, 0) }

// Below reports whether the image has a file of this path, which is relative and names a file of
// the jail's layer.
type Below func(path string) bool

// list lists the content of a jail's ephemeral layer, in order. below distinguishes changed files
// from new ones. Files that were last changed before since are left out: agentjail made them
// (package rootfs).
func list(ctx context.Context, layer *os.File, below Below, since time.Time) ([]Change, error) {
	out := []Change{}
	err := walk(ctx, int(layer.Fd()), func(e entry) error {
		if later(&e, since) {
			out = append(out, changeOf(&e, below))
		}
		return nil
	})
	return out, err
}

type entry = overlayfs.Entry

// later reports whether a file was changed after a time. The time of a change (ctime, inode(7)) is
// the kernel's, and no process sets it.
func later(e *entry, since time.Time) bool {
	return time.Unix(e.Stat.Ctim.Unix()).After(since)
}

// changeOf returns what a file in the layer does to the image.
func changeOf(e *entry, below Below) Change {
	kind := Added
	switch {
	case overlayfs.IsWhiteout(&e.Stat):
		kind = Deleted
	case below(e.Path):
		kind = Changed
	}
	return Change{kind, "/" + e.Path}
}

// isOpaque reports whether a directory hides the content of the layers below.
func isOpaque(fd int) bool {
	var value [1]byte
	return slices.ContainsFunc([]string{"trusted.overlay.opaque", "user.overlay.opaque"}, func(name string) bool {
		n, err := unix.Fgetxattr(fd, name, value[:])
		return err == nil && n == 1 && value[0] == 'y'
	})
}

// layersBelow reports by an overlay's lower layers, the topmost first, whether the image has a
// path.
func layersBelow(layers []*os.File) Below {
	return func(name string) bool {
		for _, l := range layers {
			found, hidden := lookup(int(l.Fd()), name)
			if found || hidden {
				return found
			}
		}
		return false
	}
}

// lookup looks for a path in one layer. hidden reports that this layer hides the path in the
// layers below.
func lookup(layer int, name string) (found, hidden bool) {
	for i := 0; i <= len(name); i++ {
		if i < len(name) && name[i] != '/' {
			continue
		}
		st, err := overlayfs.Stat(layer, name[:i])
		if err != nil {
			return false, hidden
		}
		if overlayfs.IsWhiteout(&st) {
			return false, true
		}
		if i == len(name) {
			return true, false
		}
		if st.Mode&unix.S_IFMT != unix.S_IFDIR {
			return false, true
		}
		if dir, err := overlayfs.Beneath(layer, name[:i], unix.O_RDONLY|unix.O_DIRECTORY); err == nil {
			hidden = hidden || isOpaque(dir)
			unix.Close(dir)
		}
	}
	return false, hidden
}

// walk calls do for each file below a directory (overlayfs.Walk). Files that are removed meanwhile
// are left out.
func walk(ctx context.Context, root int, do func(entry) error) error {
	return overlayfs.Walk(ctx, root, ".", func(e entry, err error) error {
		switch {
		case err == nil:
			return do(e)
		case slices.ContainsFunc(gone, func(e error) bool { return errors.Is(err, e) }):
			return nil
		}
		return err
	})
}

// gone are the errors of what is removed, or is something else by now.
var gone = []error{unix.ENOENT, unix.ENOTDIR, unix.ELOOP, unix.EXDEV, unix.ESTALE, unix.EACCES, unix.EPERM}

// ByOrigin reports by the attribute that overlayfs sets on a file copied from the image. It
// reports fewer files than Layers: a file that was rewritten and renamed has no such attribute.
func ByOrigin(layer *os.File) Below {
	return func(name string) bool {
		fd, err := overlayfs.Beneath(int(layer.Fd()), name, unix.O_PATH)
		if err != nil {
			return false
		}
		defer unix.Close(fd)
		n, err := unix.Getxattr(openat.Proc(fd), "trusted.overlay.origin", nil)
		return err == nil && n > 0
	}
}
