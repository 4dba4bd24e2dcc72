// Package pidfd ends processes by descriptors of theirs (pidfd_open(2)), which stay with a process
// whose number may be another's by now.
package pidfd

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// Kill kills the process that fd refers to and waits for its end, for as long as patience at most.
// A process that has ended is no error.
func Kill(fd int, patience time.Duration) error {
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && err != unix.ESRCH {
		return fmt.Errorf("killing it: %w", err)
	}
	return Wait(fd, patience)
}

// Wait waits for the end of the process that fd refers to, for as long as patience at most. A
// signal to this process does not end the wait.
func Wait(fd int, patience time.Duration) error {
	deadline := time.Now().Add(patience)
	for {
		left := time.Until(deadline)
		if left <= 0 {
			return fmt.Errorf("it has not ended within %v", patience)
		}
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(left.Milliseconds())+1)
		if err != nil && err != unix.EINTR {
			return fmt.Errorf("waiting for its end: %w", err)
		}
		if n > 0 {
			return nil
		}
	}
}
