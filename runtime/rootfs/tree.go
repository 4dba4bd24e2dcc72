package rootfs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/openat"
)

// cloneTree returns a detached clone of the tree at a name below an open directory, or with the
// name "" of the open file itself, so that the judged and the mounted tree are the same
// (open_tree(2)). It sets attributes on the clone, unless attr is nil (mount_setattr(2)).
func cloneTree(dir int, name string, recursive bool, attr *unix.MountAttr) (*os.File, error) {
	flags := uint(unix.AT_EMPTY_PATH)
	if recursive {
		flags |= unix.AT_RECURSIVE
	}
	fd, err := unix.OpenTree(dir, name, flags|unix.AT_SYMLINK_NOFOLLOW|unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("cloning the mount: %w", err)
	}
	if attr != nil {
		if err := unix.MountSetattr(fd, "", flags, attr); err != nil {
			unix.Close(fd)
			return nil, fmt.Errorf("setting mount attributes: %w", err)
		}
	}
	return os.NewFile(uintptr(fd), name), nil
}

// closeAll closes files, of which some may be nil.
func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// fsNames are the file systems that users meet, by statfs(2)'s magic number.
var fsNames = map[int64]string{
	unix.EXT4_SUPER_MAGIC: "ext4", unix.XFS_SUPER_MAGIC: "xfs", unix.BTRFS_SUPER_MAGIC: "btrfs", unix.TMPFS_MAGIC: "tmpfs",
	unix.OVERLAYFS_SUPER_MAGIC: "overlay", unix.NFS_SUPER_MAGIC: "NFS", 0xff534d42: "CIFS", 0xfe534d42: "SMB2",
	unix.V9FS_MAGIC: "9p", unix.FUSE_SUPER_MAGIC: "FUSE", unix.SQUASHFS_MAGIC: "squashfs", 0x2fc12fc1: "zfs",
	unix.ECRYPTFS_SUPER_MAGIC: "ecryptfs", 0x786f4256: "vboxsf", unix.F2FS_SUPER_MAGIC: "f2fs", unix.PROC_SUPER_MAGIC: "proc",
	unix.SYSFS_MAGIC: "sysfs", unix.EROFS_SUPER_MAGIC_V1: "erofs",
}

// FSName names the file system of an open file.
func FSName(f *os.File) string {
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &st); err != nil {
		return "unknown"
	}
	if n, ok := fsNames[int64(st.Type)]; ok {
		return n
	}
	return fmt.Sprintf("unknown (0x%x)", st.Type)
}

// Attach mounts the detached tree over the directory target, in the mount
// namespace of the calling thread. The directory must be the one that was opened
// as over.
func Attach(tree, over *os.File) error {
	err := unix.MoveMount(int(tree.Fd()), "", int(over.Fd()), "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
	if err != nil {
		return fmt.Errorf("mounting the jail's root for the engine: %w", err)
	}
	return nil
}

// Detach takes the jail's root, known by its device number, from the engine's
// directory. It leaves anything else alone.
func Detach(path string, dev uint64) error {
	for {
		var st unix.Stat_t
		err := unix.Lstat(path, &st)
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("unmounting the jail's root: %w", err)
		}
		if st.Dev != dev || st.Mode&unix.S_IFMT != unix.S_IFDIR {
			return nil
		}
		if err := unix.Unmount(path, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err == unix.EINVAL {
			return nil // not a mount point
		} else if err != nil {
			return fmt.Errorf("unmounting the jail's root at %s: %w", path, err)
		}
	}
}

// OpenAttached opens the jail's root, known by its device number, at the engine's directory: the
// overlay, without what is mounted in the jail.
func OpenAttached(path string, dev uint64) (*os.File, error) {
	root, err := OpenRoot(path)
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(root.Fd()), &st); err != nil || st.Dev != dev {
		root.Close()
		return nil, fmt.Errorf("the jail's root is not mounted at %s", path)
	}
	return root, nil
}

// OpenDir opens a directory by a path that holds no symbolic link in its last
// component.
func OpenDir(path string) (*os.File, error) {
	fd, err := openat.Open(unix.AT_FDCWD, filepath.Clean(path), openat.Real, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// OpenRoot opens a root file system. Like runc, it refuses a path with a symbolic link in it: the
// link's target can change.
func OpenRoot(path string) (*os.File, error) {
	fd, err := openat.Open(unix.AT_FDCWD, path, openat.NoLinks, unix.O_PATH|unix.O_DIRECTORY)
	if errors.Is(err, unix.ELOOP) {
		return nil, fmt.Errorf("invalid rootfs %s: a symbolic link is on the way", path)
	}
	if err != nil {
		return nil, &os.PathError{Op: "open rootfs", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}
