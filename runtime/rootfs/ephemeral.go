package rootfs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/hostfacts"
)

// makeDisk makes the file system of a layer on disk.
func (m *rootMaker) makeDisk() (err error) {
	if root := m.Plan.Root; root.OnDisk() {
		m.disk, err = m.Workspaces.ThrowAway(int64(root.Disk), root.DiskFiles(), unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC)
	}
	return err
}

// makeLayer mounts the file system that all of the jail's own files are in.
func (m *rootMaker) makeLayer() error {
	mount := m.mountMemory
	if m.disk != nil {
		mount = m.mountDisk
	}
	if err := mount(); err != nil {
		return err
	}
	for _, d := range []string{"upper", "work", "low", "m"} {
		if err := os.Mkdir(filepath.Join(m.layer, d), 0o711); err != nil {
			return err
		}
	}
	return nil
}

// mountDisk attaches what makeDisk has made.
func (m *rootMaker) mountDisk() error {
	if err := unix.MoveMount(int(m.disk.Fd()), "", unix.AT_FDCWD, m.layer, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("attaching the layer: %w", err)
	}
	return os.Chmod(m.layer, 0o711)
}

// mountMemory mounts a tmpfs.
func (m *rootMaker) mountMemory() error {
	opts := "mode=0711,size=" + strconv.FormatInt(int64(m.Plan.Root.Size), 10) + ",nr_inodes=" +
		strconv.FormatInt(m.Plan.Root.Inodes, 10)
	mount := func(opts string) error {
		return unix.Mount(mountSource, m.layer, "tmpfs", unix.MS_NOSUID|unix.MS_NOEXEC, opts)
	}
	err := error(unix.EINVAL)
	if largePages(hostfacts.KernelRelease()) {
		err = mount(opts + ",huge=within_size") // a tenth of the time for large writes
	}
	if errors.Is(err, unix.EINVAL) { // a kernel without such pages does not know the option
		err = mount(opts)
	}
	if err != nil {
		return fmt.Errorf("mounting a tmpfs with %s: %w", opts, err)
	}
	return nil
}

// largePages reports whether tmpfs limits large pages to the written length (Linux 6.14). Earlier
// kernels use whole huge pages within a file's size, so that a byte in each hole of a sparse file
// would fill the layer.
func largePages(release string) bool {
	var major, minor int
	n, err := fmt.Sscanf(release, "%d.%d", &major, &minor)
	return err == nil && n == 2 && (major > 6 || major == 6 && minor >= 14)
}
