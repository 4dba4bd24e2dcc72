// Package privileges drops privileges, for every thread of the process and for good. It needs a
// program without cgo (syscall.AllThreadsSyscall).
package privileges

import (
	"fmt"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Keep drops every capability but these, and takes no_new_privs: no program that is executed gains
// any.
func Keep(capabilities ...int) error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var kept [2]unix.CapUserData
	for _, c := range capabilities {
		kept[c/32].Permitted |= 1 << (c % 32)
		kept[c/32].Effective |= 1 << (c % 32)
	}
	if _, _, errno := syscall.AllThreadsSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&kept)),
		0); errno != 0 {
		return fmt.Errorf("dropping capabilities: %w", errno)
	}
	if _, _, errno := syscall.AllThreadsSyscall6(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0); errno != 0 {
		return fmt.Errorf("no_new_privs: %w", errno)
	}
	return nil
}
