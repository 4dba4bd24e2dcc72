// Package trim frees the blocks of a file system's device that hold no files (fstrim(8)).
package trim

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// fitrim is FITRIM (linux/fs.h), which golang.org/x/sys/unix has not.
const fitrim = 0xc0185879

// All trims the file system that an open file is on. The error is EOPNOTSUPP where its device has
// no way to.
func All(f *os.File) error {
	all := struct{ start, length, least uint64 }{length: 1<<64 - 1}
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), fitrim, uintptr(unsafe.Pointer(&all))); errno != 0 {
		return os.NewSyscallError("FITRIM", errno)
	}
	return nil
}
