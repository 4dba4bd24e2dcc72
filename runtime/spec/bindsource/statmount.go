package bindsource

import (
	"bytes"
	"encoding/binary"
	"errors"
	"unsafe"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/mountinfo"
)

// The interface of statmount(2) (include/uapi/linux/mount.h).
const (
	statmountMountOptions = 0x80  // Linux 6.11
	statmountSource       = 0x200 // Linux 6.13
	// Offsets in the result: the used fields, and the beginning of the strings.
	statmountMask     = 8
	statmountOptsAt   = 4
	statmountSourceAt = 124
	statmountStrings  = 512
)

// errStatmount reports that the kernel does not answer the question.
var errStatmount = errors.New("this kernel's statmount(2) does not report a mount's source and options")

// statmount queries the kernel for the source and the file system options of the
// mount that an open file is on, options escaped as overlayfs takes them.
func statmount(fd int) (source, options string, err error) {
	var stx unix.Statx_t
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_MNT_ID_UNIQUE, &stx); err != nil {
		return "", "", err
	}
	if stx.Mask&unix.STATX_MNT_ID_UNIQUE == 0 {
		return "", "", errStatmount
	}
	request := struct {
		size, _  uint32
		id, what uint64
	}{size: 24, id: stx.Mnt_id, what: statmountMountOptions | statmountSource}
	answer := make([]byte, 64<<10) // an overlay's layers fit into a page
	_, _, errno := unix.Syscall6(unix.SYS_STATMOUNT, uintptr(unsafe.Pointer(&request)), uintptr(unsafe.Pointer(&answer[0])),
		uintptr(len(answer)), 0, 0, 0)
	if errno != 0 {
		return "", "", errno
	}
	if got := binary.NativeEndian.Uint64(answer[statmountMask:]); got&request.what != request.what {
		return "", "", errStatmount
	}
	text := func(at int) (string, bool) {
		from := statmountStrings + int(binary.NativeEndian.Uint32(answer[at:]))
		if from > len(answer) {
			return "", false
		}
		s, _, ok := bytes.Cut(answer[from:], []byte{0})
		return string(s), ok
	}
	source, ok := text(statmountSourceAt)
	options, ok2 := text(statmountOptsAt)
	if !ok || !ok2 {
		return "", "", errStatmount
	}
	return mountinfo.Unescape(source), mountinfo.Unescape(options), nil
}
