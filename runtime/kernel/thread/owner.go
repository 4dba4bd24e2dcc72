package thread

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// AsOwner runs f with a user's ids on files (setfsuid(2)), and with that user's rights: the kernel
// takes CAP_DAC_OVERRIDE and its like from a thread whose fsuid is not 0 (capabilities(7)). Files
// that f makes belong to the user from their first moment: no file has to change its owner
// afterwards, when another process could have exchanged it. f must stay on its thread.
//
// In a user namespace that lacks an id, the thread keeps its own.
func AsOwner(uid, gid uint32, f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	// Both calls return the id before.
	hadGID, _, _ := unix.RawSyscall(unix.SYS_SETFSGID, uintptr(gid), 0, 0)
	hadUID, _, _ := unix.RawSyscall(unix.SYS_SETFSUID, uintptr(uid), 0, 0)
	defer func() {
		unix.RawSyscall(unix.SYS_SETFSGID, hadGID, 0, 0)
		unix.RawSyscall(unix.SYS_SETFSUID, hadUID, 0, 0)
	}()
	return f()
}

// Owner is the user who owns the files that this thread makes.
func Owner() uint32 {
	uid, _, _ := unix.RawSyscall(unix.SYS_SETFSUID, ^uintptr(0), 0, 0) // no id: it only returns the present one
	return uint32(uid)
}

// AnyMode runs f with CAP_DAC_OVERRIDE, where this process has it: within AsOwner,
// for what a directory's mode keeps from its owner, who may change the mode.
func AnyMode(f func() error) error {
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var had [2]unix.CapUserData
	if err := unix.Capget(&head, &had[0]); err != nil {
		return err
	}
	raised := had
	raised[0].Effective |= 1 << unix.CAP_DAC_OVERRIDE & had[0].Permitted
	if err := unix.Capset(&head, &raised[0]); err != nil {
		return err
	}
	defer func() { _ = unix.Capset(&head, &had[0]) }()
	return f()
}
