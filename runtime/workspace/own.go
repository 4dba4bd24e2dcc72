package workspace

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/openat"
	"agentjail.dev/runtime/kernel/trim"
)

// bytesOfInode is how much of an image there is for each file in it.
const bytesOfInode = 16 << 10

// Fill makes a file an image of a size, with all of its blocks. The files in it are those of the
// directory dir, and its top belongs to uid and gid.
func Fill(image *os.File, size int64, dir string, uid, gid uint32) error {
	noCopyOnWrite(image)
	if err := image.Truncate(size); err != nil {
		return err
	}
	if err := makeFS(image.Name(), size, size/bytesOfInode, fmt.Sprintf("%d:%d", uid, gid),
		append(journaled(size), "-d", dir)...); err != nil {
		return err
	}
	// Afterwards: mkfs.ext4 zeroes what it needs empty by holes.
	return os.NewSyscallError("fallocate", fallocate(image, size))
}

// AllocateHome allocates what RestHome has freed of an image.
func (b Bounds) AllocateHome(image *os.File) error {
	fi, err := image.Stat()
	if err != nil {
		return err
	}
	return b.refill(image, fi.Size(), aHome)
}

// RestHome frees the blocks of an image, which no jail has anymore, that hold no files.
func (s Store) RestHome(image *os.File) error {
	mnt, err := s.MountHome(image, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC)
	if err != nil {
		return err
	}
	defer mnt.Close()
	top, err := openat.File(int(mnt.Fd()), ".", openat.NoLinks, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer top.Close()
	return trim.All(top)
}

// MountHome mounts the image in an open file, detached. No other call mounts the image until that
// mount has ended: the loop device keeps the open file, and so a lock of it (flock(2)).
func (s Store) MountHome(image *os.File, attr int) (*os.File, error) {
	lock, err := s.Bounds.device(aHome)
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	return mountOwn(image, loopName, attr)
}

func mountOwn(image *os.File, name string, attr int, flags ...string) (*os.File, error) {
	device, err := bind(image, name)
	if err != nil {
		return nil, err
	}
	defer device.Close()
	return mountDevice(device, attr, flags...)
}
