package rootfs

import (
	"errors"
	"fmt"
	"os"
	"path"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/idmap"
	"agentjail.dev/runtime/kernel/openat"
	"agentjail.dev/runtime/protect"
	"agentjail.dev/runtime/spec/bindsource"
	"agentjail.dev/runtime/spec/plan"
)

// cloneOthers returns a clone with other owners' ids in its mapping, where the directory has files
// of theirs, so that its owner may remove and rename them. The jail could then write to those that
// every user may write to: these are mounted over themselves, with the mapping as it was. Without
// others, or where not all is found, it returns the clone that there is.
func (s *stager) cloneOthers(b plan.Bind, src *bindsource.Source, attr unix.MountAttr, tree *os.File, own idmap.Map) *os.File {
	others, err := protect.FindOthers(src.File, own)
	if !others.Any {
		return tree
	}
	if err == nil {
		err = s.coverOthers(b.Index, src, attr, others.Open)
	}
	var all *os.File
	if err == nil {
		jail := s.Plan.IDs
		all, err = s.cloneWithIDs(src, attr, idmap.WithOthers(own.UIDs, jail.UIDs), idmap.WithOthers(own.GIDs, jail.GIDs))
	}
	if err != nil {
		s.notes = append(s.notes, fmt.Sprintf("files of other owners in %s can be neither removed nor renamed: %v", b.Source, err))
		return tree
	}
	tree.Close()
	return all
}

// cloneWithIDs clones a directory with a mapping. Nothing is mounted below it.
func (s *stager) cloneWithIDs(src *bindsource.Source, attr unix.MountAttr, uids, gids []specs.LinuxIDMapping) (*os.File, error) {
	ns, err := s.namespace(uids, gids)
	if err != nil {
		return nil, err
	}
	attr.Userns_fd = uint64(ns.Fd())
	return cloneTree(int(src.File.Fd()), "", false, &attr)
}

// coverOthers clones files of a mount with its attributes, to be attached over themselves.
func (s *stager) coverOthers(mount int, src *bindsource.Source, attr unix.MountAttr, files []protect.OpenFile) error {
	for _, f := range files {
		tree, err := cloneFile(src.File, f, &attr)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("%s: %w", f.Rel, err)
		}
		s.covers = append(s.covers, cover{mount, attachment{path: f.Rel, tree: tree, dev: f.Dev, ino: f.Ino, other: true}})
	}
	return nil
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
