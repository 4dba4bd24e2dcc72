package rootfs

import (
	"errors"
	"fmt"
	"os"
	"path"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/idmap"
	"agentjail.dev/runtime/kernel/openat"
	"agentjail.dev/runtime/protect"
	"agentjail.dev/runtime/spec/bindsource"
	"agentjail.dev/runtime/spec/plan"
)

// others are the files of other owners in a directory that is mounted with its owner mapped.
type others struct {
	b     plan.Bind
	src   *bindsource.Source
	attr  unix.MountAttr
	own   idmap.Map // of the mount, from ids on the disk
	ready chan struct{}
	found protect.Others
	err   error
}

// findOthers looks for files of other owners while other steps go on.
func (s *stager) findOthers(o *others) {
	s.others = append(s.others, o)
	go func() {
		defer close(o.ready)
		o.found, o.err = protect.FindOthers(o.src.File, o.own)
	}()
}

// mapOthers exchanges the clone of each directory with files of other owners for one that maps
// them, so that the directory's owner may remove and rename them. The jail could then write to
// those that every user may write to: they are mounted over themselves, with the mapping as it was.
func (s *stager) mapOthers() error {
	for _, o := range s.others {
		<-o.ready
		if !o.found.Any {
			continue
		}
		tree, err := s.cloneOthers(o)
		if err != nil {
			s.notes = append(s.notes, fmt.Sprintf("files of other owners in %s can be neither removed nor renamed: %v", o.b.Source, err))
			continue
		}
		s.binds[o.b.Index].Close()
		s.binds[o.b.Index] = tree
	}
	return nil
}

// cloneOthers clones a directory, below which nothing is mounted, and the files to cover.
func (s *stager) cloneOthers(o *others) (*os.File, error) {
	if o.err != nil {
		return nil, o.err
	}
	for _, f := range o.found.Open {
		tree, err := cloneFile(o.src.File, f, &o.attr)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Rel, err)
		}
		s.covers = append(s.covers, cover{o.b.Index, attachment{path: f.Rel, tree: tree, dev: f.Dev, ino: f.Ino, other: true}})
	}
	jail := s.Plan.IDs
	ns, err := s.namespace(idmap.WithOthers(o.own.UIDs, jail.UIDs), idmap.WithOthers(o.own.GIDs, jail.GIDs))
	if err != nil {
		return nil, err
	}
	attr := o.attr
	attr.Userns_fd = uint64(ns.Fd())
	return cloneTree(int(o.src.File.Fd()), "", false, &attr)
}

// A cover is the attachment of another owner's file, with a path below that of a mount.
type cover struct {
	mount int
	attachment
}

// attachCovers has the covers attached, below what protects paths.
func (s *stager) attachCovers() {
	for _, c := range s.covers {
		c.path = path.Join(s.places[c.mount], c.path)
		s.attach = append(s.attach, c.attachment)
	}
	s.covers = nil
}

// cloneFile clones a file of a directory, if it is still the same; else it fails with
// os.ErrNotExist.
func cloneFile(dir *os.File, f protect.OpenFile, attr *unix.MountAttr) (*os.File, error) {
	at, err := openat.File(int(dir.Fd()), f.Rel, openat.OneMount, unix.O_PATH|unix.O_NOFOLLOW)
	if err != nil {
		return nil, err
	}
	defer at.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(at.Fd()), &st); err != nil {
		return nil, err
	}
	if st.Dev != f.Dev || st.Ino != f.Ino {
		return nil, os.ErrNotExist
	}
	return cloneTree(int(at.Fd()), "", false, attr)
}
