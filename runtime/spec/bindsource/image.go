package bindsource

import (
	"os"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/openat"
)

// An Image is a file with a file system that agentjail made for a jail, which the jail gets as a
// directory. No bundle names one.
type Image struct {
	// At is the destination of the mount whose source it is.
	At string
	// File is open for reading and writing. Its owner locks it (flock(2)): the lock lasts until the
	// file system is unmounted, since the kernel's loop device keeps this open file.
	File *os.File
	// UID and GID own what is in it.
	UID, GID uint32
}

// Source returns the image as the source of its mount. It has a descriptor of its own for the
// same open file.
func (i *Image) Source() (*Source, error) {
	fd, err := unix.FcntlInt(i.File.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	path, err := openat.Name(fd)
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	return &Source{
		File: os.NewFile(uintptr(fd), path),
		Fact: Fact{Path: path, Kind: Dir, Role: OwnImage, UID: i.UID, GID: i.GID},
	}, nil
}
