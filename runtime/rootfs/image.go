package rootfs

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/spec/bindsource"
	"agentjail.dev/runtime/spec/plan"
)

// mountImage mounts the file system in the source's file, with its owners mapped
// (plan.StorageImage).
func (s *stager) mountImage(b plan.Bind, src *bindsource.Source) (_ *os.File, err error) {
	const attr = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV
	tree, err := s.Workspaces.MountHome(src.File, attr)
	if err != nil {
		return nil, fmt.Errorf("mounting the image: %w", err)
	}
	defer func() {
		if err != nil {
			tree.Close()
		}
	}()
	// mkfs.ext4(8) made it for e2fsck(8). It is root's: below, no file of root's can be removed.
	_ = unix.Unlinkat(int(tree.Fd()), "lost+found", unix.AT_REMOVEDIR)
	uids, gids, ok := s.ownerMaps(b.Owner, src.Fact)
	if !ok {
		return nil, errors.New("its owner cannot be mapped")
	}
	ns, err := s.namespace(uids, gids)
	if err != nil {
		return nil, err
	}
	mapped := unix.MountAttr{Attr_set: attr | unix.MOUNT_ATTR_IDMAP, Propagation: unix.MS_PRIVATE, Userns_fd: uint64(ns.Fd())}
	if err := unix.MountSetattr(int(tree.Fd()), "", unix.AT_EMPTY_PATH, &mapped); err != nil {
		return nil, fmt.Errorf("mapping its owners: %w", err)
	}
	return tree, s.showTree(src, tree)
}

// showTree makes the source the mounted tree, in which mount points are looked for and made. There
// the owner is the jail's user.
func (s *stager) showTree(src *bindsource.Source, tree *os.File) error {
	uid, ok1 := s.Plan.IDs.HostUID(s.Plan.User.UID)
	gid, ok2 := s.Plan.IDs.HostGID(s.Plan.User.GID)
	if !ok1 || !ok2 {
		return errors.New("the jail's user is not mapped")
	}
	fd, err := unix.FcntlInt(tree.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("fcntl", err)
	}
	src.File.Close()
	src.File, src.UID, src.GID = os.NewFile(uintptr(fd), src.Path), uid, gid
	return nil
}
