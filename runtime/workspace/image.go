package workspace

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/internal/crash"
	"agentjail.dev/runtime/kernel/atomicfile"
	"agentjail.dev/runtime/kernel/openat"
	"agentjail.dev/runtime/refusal"
)

// MinSize is the smallest layer, in bytes: ext4 with a journal.
const MinSize = 16 << 20

// features are those of the image's ext4, whatever the host's mke2fs.conf(5) has: each kernel that
// idmaps mounts has them.
const features = "none,ext_attr,dir_index,filetype,extent,flex_bg,sparse_super,large_file,huge_file,dir_nlink,extra_isize,metadata_csum"

// mkfs is where mkfs.ext4 is if PATH does not have it, and loopControl the device that finds free
// loop devices; variables for tests.
var mkfs, loopControl = "/usr/sbin/mkfs.ext4", "/dev/loop-control"

// mkfsOptions are those of each file system.
var mkfsOptions = []string{"-q", "-F", "-b", "4096", "-I", "256", "-m", "0"}

// journaled are the options of a file system that outlives its mounts.
func journaled(size int64) []string {
	journal := "size=4"
	if size >= 1<<30 {
		journal = "size=16"
	}
	return []string{"-O", features + ",has_journal", "-J", journal}
}

// makeFS makes an ext4 file system in a file, whose top belongs to owner (UID:GID).
func makeFS(path string, size, files int64, owner string, more ...string) error {
	program, err := findMkfs()
	if err != nil {
		return err
	}
	args := slices.Concat(mkfsOptions, []string{
		"-N", strconv.FormatInt(files, 10),
		"-E", "nodiscard,lazy_itable_init=1,root_owner=" + owner,
	}, more, []string{path, strconv.FormatInt(size>>10, 10) + "k"})
	if out, err := exec.Command(program, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("mkfs.ext4: %w: %s", err, bytes.TrimSpace(out))
	}
	return nil
}

// findMkfs returns the path of mkfs.ext4, or refuses a host without it.
func findMkfs() (string, error) {
	if program, err := exec.LookPath("mkfs.ext4"); err == nil {
		return program, nil
	}
	if err := unix.Access(mkfs, unix.X_OK); err != nil {
		return "", refusal.New(refusal.Workspace, "mkfs.ext4, which makes its file system, is not installed").
			WithRemedy("apt-get install e2fsprogs, or that package of the system's")
	}
	return mkfs, nil
}

// template returns an image with these directories, which only root enters. It is made once: its
// name has the size, and a hash of the options and directories, which may change with a release.
func (s Store) template(kind string, size, files int64, options, dirs []string) (*os.File, error) {
	of := sha256.Sum256(fmt.Append(nil, mkfsOptions, options, dirs))
	base := filepath.Join(s.Dir, fmt.Sprintf(".template-%s%d-%d", kind, size, files))
	path := fmt.Sprintf("%s-%x", base, of[:4])
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err == nil {
		if isTemplate(f, size) {
			return f, nil
		}
		f.Close() // another program has changed it
		err = os.ErrNotExist
	}
	if !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	tmp := atomicfile.Unique(filepath.Join(s.Dir, newPrefix+"template-"))
	defer os.Remove(tmp)
	made, err := os.OpenFile(tmp, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := fillTemplate(made, size, files, options, dirs); err != nil {
		made.Close()
		return nil, err
	}
	crash.Point("workspace.template")
	// Another call may have made it meanwhile, which is the same.
	if err := os.Rename(tmp, path); err != nil {
		made.Close()
		return nil, err
	}
	others, _ := filepath.Glob(base + "-*")
	for _, other := range others {
		if other != path {
			_ = os.Remove(other)
		}
	}
	return made, nil
}

// isTemplate reports whether a file has the size and the magic number of a template (ext4's
// s_magic).
func isTemplate(f *os.File, size int64) bool {
	var magic [2]byte
	_, err := f.ReadAt(magic[:], 1024+56)
	fi, serr := f.Stat()
	return err == nil && serr == nil && fi.Mode().IsRegular() && fi.Size() == size &&
		binary.LittleEndian.Uint16(magic[:]) == unix.EXT4_SUPER_MAGIC
}

// fillTemplate makes the file system of a template, and writes it to the disk.
func fillTemplate(made *os.File, size, files int64, options, dirs []string) error {
	if len(dirs) > 0 {
		content := made.Name() + "-content"
		defer os.RemoveAll(content)
		for _, d := range dirs {
			if err := os.MkdirAll(filepath.Join(content, d), 0o700); err != nil {
				return err
			}
		}
		options = append(slices.Clip(options), "-d", content)
	}
	return errors.Join(made.Truncate(size), makeFS(made.Name(), size, files, "0:0", options...), made.Sync())
}

// allocate makes an image of a view at a path, with all of its blocks: with a sparse image, a full
// disk of the host's would lose writes that have succeeded. It has the directories of an overlay.
func (s Store) allocate(path string, size, files int64) error {
	from, err := s.template("view-", size, files, journaled(size), []string{upperDir, workDir})
	if err != nil {
		return fmt.Errorf("making the template of a layer: %w", err)
	}
	defer from.Close()
	image, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(aView.allocate(image, from, size), image.Close())
}

// allocate makes a new file an image with the files of a template.
func (u purpose) allocate(image, template *os.File, size int64) error {
	noCopyOnWrite(image)
	if err := u.allocateAll(image, size); err != nil {
		return err
	}
	return copyData(image, template, size)
}

// reallocate is refill for the image at a path, which is not mounted.
func (s Store) reallocate(path string, size int64) error {
	image, err := os.OpenFile(path, os.O_WRONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer image.Close()
	return s.Bounds.refill(image, size, aView)
}

// refill allocates what was trimmed of an open image. A disk without room for it is refused before
// anything is allocated.
func (b Bounds) refill(image *os.File, size int64, u purpose) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(image.Fd()), &st); err != nil {
		return err
	}
	if lacks := size - st.Blocks*512; lacks > 0 {
		if err := b.room(filepath.Dir(image.Name()), lacks, u); err != nil {
			return err
		}
	}
	return u.allocateAll(image, size)
}

func (u purpose) allocateAll(image *os.File, size int64) error {
	err := fallocate(image, size)
	if errors.Is(err, unix.ENOSPC) {
		return u.noRoom(filepath.Dir(image.Name()), size, 0)
	}
	if err != nil {
		return fmt.Errorf("allocating %s: %w", image.Name(), err)
	}
	return nil
}

// fallocate allocates the blocks of a file (fallocate(2)).
func fallocate(f *os.File, size int64) error {
	for {
		if err := unix.Fallocate(int(f.Fd()), 0, 0, size); err != unix.EINTR {
			return err
		}
	}
}

// noCopyOnWrite keeps btrfs from writing an allocated block to another place, for which there may
// be no room (FS_NOCOW_FL, ioctl_iflags(2)). Other file systems have no such flag.
func noCopyOnWrite(f *os.File) {
	const noCow = 0x00800000
	if flags, err := unix.IoctlGetInt(int(f.Fd()), unix.FS_IOC_GETFLAGS); err == nil {
		_ = unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, flags|noCow)
	}
}

// copyData copies the parts of a sparse file that are no holes.
func copyData(to, from *os.File, size int64) error {
	for at := int64(0); at < size; {
		data, err := unix.Seek(int(from.Fd()), at, unix.SEEK_DATA)
		if err == unix.ENXIO {
			return nil
		}
		if err != nil {
			return err
		}
		hole, err := unix.Seek(int(from.Fd()), data, unix.SEEK_HOLE)
		if err != nil {
			return err
		}
		if _, err := io.Copy(io.NewOffsetWriter(to, data), io.NewSectionReader(from, data, hole-data)); err != nil {
			return err
		}
		at = hole
	}
	return nil
}

// loopMajor is the number of loop devices (Documentation/admin-guide/devices.txt).
const loopMajor = 7

// openLoop opens a loop device. Where /dev is not the kernel's own, its node may be missing.
func openLoop(n int) (*os.File, error) {
	path := "/dev/loop" + strconv.Itoa(n)
	f, err := os.OpenFile(path, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if !errors.Is(err, os.ErrNotExist) {
		return f, err
	}
	err = unix.Mknod(path, unix.S_IFBLK|0o600, int(unix.Mkdev(loopMajor, uint32(n))))
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return nil, &os.PathError{Op: "mknod", Path: path, Err: err}
	}
	return os.OpenFile(path, unix.O_RDWR|unix.O_CLOEXEC, 0)
}

// loopName and rootName are the names by which loop devices of agentjail's are known (loop(4),
// lo_file_name): the latter of roots, the former of others.
const loopName, rootName = "agentjail", "agentjail root"

// boundTo returns the loop device of an image, nil if none is bound to it.
func boundTo(image *os.File) (found *os.File, err error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(image.Fd()), &st); err != nil {
		return nil, err
	}
	err = eachBound(func(device *os.File, info *unix.LoopInfo64) bool {
		if info.Device != st.Dev || info.Inode != st.Ino {
			return false
		}
		found = device
		return true
	})
	return found, err
}

// eachBound calls f for each loop device that is bound, until f returns true, which keeps that
// device open.
func eachBound(f func(*os.File, *unix.LoopInfo64) bool) error {
	bound, err := filepath.Glob("/sys/block/loop*/loop")
	if err != nil {
		return err
	}
	for _, dir := range bound {
		n, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(filepath.Dir(dir)), "loop"))
		if err != nil {
			continue
		}
		device, err := openLoop(n)
		if err != nil {
			return err
		}
		info, err := unix.IoctlLoopGetStatus64(int(device.Fd()))
		if err == nil && f(device, info) {
			return nil
		}
		device.Close()
		if err != nil && !errors.Is(err, unix.ENXIO) { // ENXIO: unbound meanwhile
			return fmt.Errorf("loop device %d: %w", n, err)
		}
	}
	return nil
}

// checkLoop refuses a host without loop devices.
func checkLoop() error {
	if _, err := os.Lstat(loopControl); err != nil {
		return refusal.New(refusal.Workspace, "this machine has no loop devices: %v", err).WithRemedy("modprobe loop")
	}
	return nil
}

// CheckHost refuses a host on which no image can be made and mounted.
func CheckHost() error {
	if err := checkLoop(); err != nil {
		return err
	}
	_, err := findMkfs()
	return err
}

// bind binds an image to a free loop device, which has a name and is released with its last user.
func bind(image *os.File, name string) (*os.File, error) {
	if err := checkLoop(); err != nil {
		return nil, err
	}
	control, err := os.OpenFile(loopControl, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer control.Close()
	for range 64 {
		n, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return nil, fmt.Errorf("finding a free loop device: %w", err)
		}
		device, err := openLoop(n)
		if err != nil {
			return nil, err
		}
		c := unix.LoopConfig{Fd: uint32(image.Fd()), Size: 4096, Info: unix.LoopInfo64{Flags: unix.LO_FLAGS_AUTOCLEAR}}
		copy(c.Info.File_name[:], name)
		if err = unix.IoctlLoopConfigure(int(device.Fd()), &c); err == nil {
			return device, nil
		}
		device.Close()
		if !errors.Is(err, unix.EBUSY) { // EBUSY: another process was faster
			return nil, fmt.Errorf("binding a loop device: %w", err)
		}
	}
	return nil, errors.New("binding a loop device: others were faster 64 times")
}

// mountImage mounts an image, detached. Further mounts of an image are of the same file system,
// with the same content at any time.
func mountImage(path string, attr int) (*os.File, error) {
	image, err := os.OpenFile(path, unix.O_RDWR|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer image.Close()
	// Two devices of one image would be two file systems. This lock ends with the call: the device
	// keeps another opening of the image (flock(2)).
	lock, err := lockPath(path, unix.LOCK_EX, patience)
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	device, err := boundTo(image)
	if err == nil && device == nil {
		device, err = bind(image, loopName)
	}
	if err != nil {
		return nil, err
	}
	defer device.Close()
	tree, err := mountDevice(device, attr)
	if err != nil {
		return nil, fmt.Errorf("mounting %s: %w", path, err)
	}
	return tree, nil
}

// kept are the mounts that this process keeps until it ends.
var kept struct {
	sync.Mutex
	on    bool
	trees []int
}

// KeepMounted has this process, which ends soon, keep each file system of a view that it reads or
// ends: the kernel writes all of one to the disk with its last mount, and would do so with the
// next again.
func KeepMounted() {
	kept.Lock()
	defer kept.Unlock()
	kept.on = true
}

// keep keeps a mount if KeepMounted was called.
func keep(tree *os.File) error {
	kept.Lock()
	defer kept.Unlock()
	if !kept.on {
		return nil
	}
	fd, err := unix.FcntlInt(tree.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err == nil {
		kept.trees = append(kept.trees, fd)
	}
	return err
}

// mountDevice mounts a loop device's file system, with further flags of ext4(5).
func mountDevice(device *os.File, attr int, flags ...string) (*os.File, error) {
	fs, err := unix.Fsopen("ext4", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("ext4: %w", err)
	}
	defer unix.Close(fs)
	if err := unix.FsconfigSetString(fs, "source", openat.Proc(int(device.Fd()))); err != nil {
		return nil, err
	}
	// The kernel would zero the tables of inodes by holes (Documentation/admin-guide/ext4.rst).
	for _, flag := range append(flags, "noinit_itable") {
		if err := unix.FsconfigSetFlag(fs, flag); err != nil {
			return nil, err
		}
	}
	if err := unix.FsconfigSetString(fs, "errors", "remount-ro"); err != nil {
		return nil, err
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		return nil, err
	}
	mnt, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, attr)
	if err != nil {
		return nil, err
	}
	// ext4 would zero short unwritten extents by holes in the image
	// (Documentation/ABI/testing/sysfs-fs-ext4, extent_max_zeroout_kb).
	_ = os.WriteFile("/sys/fs/ext4/"+filepath.Base(device.Name())+"/extent_max_zeroout_kb", []byte("0"), 0)
	return os.NewFile(uintptr(mnt), device.Name()), nil
}
