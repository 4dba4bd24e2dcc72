package rootfs

import (
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/flock"
	"agentjail.dev/runtime/kernel/openat"
	"agentjail.dev/runtime/spec/bindsource"
	"agentjail.dev/runtime/spec/plan"
)

// handOver makes the first process's user the owner of the top of an engine's new volume. On the
// disk the volume then is as if the image had that directory with that owner, so that every later
// container finds the ids that it has written.
//
// Container root made the volume and keeps its access: a jail's root has no capability to
// override modes, so an access control list names it (acl(5)). For another container's root
// nothing changes.
//
// Two jails may start with a new volume at once, as two users. The lock on the parent directory,
// which no container has, makes one of them the first.
func (s *stager) handOver(owner plan.Owner, src *bindsource.Source) error {
	user := s.Spec.Process.User
	disk := func(id uint32, host func(uint32) (uint32, bool)) int {
		if owner == plan.OwnerHost {
			id, _ = host(id)
		}
		return int(id)
	}
	root := disk(0, s.Plan.IDs.HostUID)
	uid, gid := disk(user.UID, s.Plan.IDs.HostUID), disk(user.GID, s.Plan.IDs.HostGID)
	fd := int(src.File.Fd())
	around, err := unix.Openat(fd, "..", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open the directory around it: %w", err)
	}
	defer unix.Close(around)
	if err := flock.Wait(around, unix.LOCK_EX); err != nil {
		return fmt.Errorf("flock: %w", err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("stat: %w", err)
	}
	if int(st.Uid) != root || int(st.Gid) != disk(0, s.Plan.IDs.HostGID) || !bindsource.NewVolume(fd, &st) {
		return errors.New("it is in use since it was looked at")
	}
	// Through /proc, since fsetxattr(2) refuses an O_PATH descriptor. The list comes first: it
	// alone grants no user more than before.
	name := openat.Proc(fd)
	if err := unix.Setxattr(name, aclName, keepsRoot(uint32(root)), 0); err != nil {
		return fmt.Errorf("access control list: %w", err)
	}
	if err := unix.Fchownat(fd, "", uid, gid, unix.AT_EMPTY_PATH); err != nil {
		_ = unix.Removexattr(name, aclName)
		return fmt.Errorf("chown: %w", err)
	}
	return nil
}

// aclName is the attribute of a file's access control list (xattr(7)).
const aclName = "system.posix_acl_access"

// keepsRoot is the list of mode 0755 in which root may write besides, in the kernel's
// form (include/uapi/linux/posix_acl_xattr.h).
func keepsRoot(root uint32) []byte {
	const none = ^uint32(0)
	b := binary.LittleEndian.AppendUint32(nil, 2) // POSIX_ACL_XATTR_VERSION
	for _, e := range []struct {
		tag, perm uint16
		id        uint32
	}{
		{0x01, 7, none}, // ACL_USER_OBJ
		{0x02, 7, root}, // ACL_USER
		{0x04, 5, none}, // ACL_GROUP_OBJ
		{0x10, 7, none}, // ACL_MASK
		{0x20, 5, none}, // ACL_OTHER
	} {
		b = binary.LittleEndian.AppendUint16(b, e.tag)
		b = binary.LittleEndian.AppendUint16(b, e.perm)
		b = binary.LittleEndian.AppendUint32(b, e.id)
	}
	return b
}
