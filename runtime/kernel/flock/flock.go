// Package flock locks open files and directories (flock(2)).
package flock

import "golang.org/x/sys/unix"

// Wait locks an open file, with LOCK_EX or LOCK_SH in how, and waits for it as long as that takes:
// a signal does not end the wait. It returns the kernel's errno. The lock ends with the last
// descriptor of this opening, or with the process.
func Wait(fd, how int) error {
	for {
		if err := unix.Flock(fd, how); err != unix.EINTR {
			return err
		}
	}
}
