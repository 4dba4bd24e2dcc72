// Package landlock makes the system calls of Landlock (landlock(7)), of which golang.org/x/sys has
// the structures alone. Its users decide which rights a domain handles.
package landlock

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ABI is the version of the kernel's interface, 1 or more (landlock_create_ruleset(2),
// LANDLOCK_CREATE_RULESET_VERSION). The error is ENOSYS where the kernel has none (before Linux
// 5.13, or not built in), EOPNOTSUPP where it is not switched on.
func ABI() (int, error) {
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0, errno
	}
	return int(abi), nil
}

// Create makes a ruleset and returns its descriptor, which is closed on exec. A right that the
// kernel's version does not know is EINVAL.
func Create(attr *unix.LandlockRulesetAttr) (int, error) {
	// An older kernel takes the longer structure, as long as what it does not know is zero.
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(attr)), unsafe.Sizeof(*attr), 0)
	if errno != 0 {
		return -1, errno
	}
	return int(fd), nil
}

// AllowBeneath adds a rule for a file, or a directory and all below it, to a ruleset.
func AllowBeneath(ruleset int, attr *unix.LandlockPathBeneathAttr) error {
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset), unix.LANDLOCK_RULE_PATH_BENEATH,
		uintptr(unsafe.Pointer(attr)), 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// Restrict has the calling thread enter the domain of a ruleset, for good; what it starts is in it
// too. It takes no_new_privs.
func Restrict(ruleset int) error {
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(ruleset), 0, 0); errno != 0 {
		return errno
	}
	return nil
}

// RestrictAll is Restrict for every thread of the process. It needs a program without cgo
// (syscall.AllThreadsSyscall).
func RestrictAll(ruleset int) error {
	if _, _, errno := syscall.AllThreadsSyscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(ruleset), 0, 0); errno != 0 {
		return errno
	}
	return nil
}
