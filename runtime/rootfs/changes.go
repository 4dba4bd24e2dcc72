package rootfs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// A jail's changes are the content of its ephemeral layer: the upper directory of its root's
// overlay. An overlay shows the image with it, and lists a hundred thousand files where a jail
// has changed three. So the layer is attached once more, where only root can reach it.

// changesDir is that place, below the jail's state directory: a directory that
// only root may enter, and the mount point in it. The layer's own mode lets
// everybody in.
const changesDir, changesPoint = "changes", "changes/upper"

// cloneChanges clones the ephemeral layer's upper directory.
func (m *rootMaker) cloneChanges() (*os.File, error) {
	dir, err := OpenDir(filepath.Join(m.layer, "upper"))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return cloneTree(int(dir.Fd()), "", false, &unix.MountAttr{
		Attr_set:    unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_NOEXEC,
		Propagation: unix.MS_PRIVATE,
	})
}

// AttachChanges attaches a jail's changes below its state directory, in the mount
// namespace of the calling thread.
func AttachChanges(changes *os.File, dir string) error {
	for _, d := range []string{changesDir, changesPoint} {
		if err := unix.Mkdir(filepath.Join(dir, d), 0o700); err != nil {
			return &os.PathError{Op: "mkdir", Path: filepath.Join(dir, d), Err: err}
		}
	}
	err := unix.MoveMount(int(changes.Fd()), "", unix.AT_FDCWD, filepath.Join(dir, changesPoint), unix.MOVE_MOUNT_F_EMPTY_PATH)
	if err != nil {
		return fmt.Errorf("attaching the jail's changes: %w", err)
	}
	return nil
}

// DetachChanges undoes AttachChanges. It is idempotent.
func DetachChanges(dir string) error {
	point := filepath.Join(dir, changesPoint)
	err := unix.Unmount(point, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil && !errors.Is(err, unix.EINVAL) { // no mount point
		return fmt.Errorf("unmounting the jail's changes at %s: %w", point, err)
	}
	for _, d := range []string{changesPoint, changesDir} {
		if err := unix.Rmdir(filepath.Join(dir, d)); err != nil && !errors.Is(err, unix.ENOENT) {
			return &os.PathError{Op: "rmdir", Path: filepath.Join(dir, d), Err: err}
		}
	}
	return nil
}

// ErrNoChanges means that a jail's changes are not attached: an older version made
// it, or no engine sees its root.
var ErrNoChanges = errors.New("the jail's changes are not attached")

// OpenChanges opens the jail's changes, which AttachChanges has attached.
func OpenChanges(dir string) (*os.File, error) {
	f, err := OpenDir(filepath.Join(dir, changesPoint))
	if errors.Is(err, unix.ENOENT) {
		return nil, ErrNoChanges
	}
	if err != nil {
		return nil, err
	}
	if !IsMount(f) {
		f.Close()
		return nil, ErrNoChanges
	}
	return f, nil
}

// nextInode is the number of the next file that would be made in the changes. A tmpfs numbers its
// files in the order in which they are made (shmem_reserve_inode in mm/shmem.c). So the number is
// the same again only if no file was made since, in the layer or in overlayfs's work directory.
// The call uses up one number. Other file systems use numbers again: a layer on disk has no such
// number.
func nextInode(changes *os.File) (uint64, error) {
	var fs unix.Statfs_t
	if err := unix.Fstatfs(int(changes.Fd()), &fs); err != nil {
		return 0, err
	}
	if int64(fs.Type) != unix.TMPFS_MAGIC {
		return 0, errors.New("this file system uses numbers of files again")
	}
	fd, err := unix.Openat(int(changes.Fd()), ".", unix.O_TMPFILE|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return 0, err
	}
	return st.Ino, nil
}
