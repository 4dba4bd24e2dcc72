// Package status reports whether the eBPF programs (package ebpf) act, and which. Agentjail looks
// at that for each bundle. The package loads no program.
package status

import (
	"errors"

	"golang.org/x/sys/unix"
)

// Answer is the errno that the programs return, outside jails, for a socket that no program
// requests: AF_UNIX with a protocol of these, which the kernel itself refuses with EPROTONOSUPPORT.
// Protocol is the pinned programs', TrialProtocol that of a program that is loaded to see whether
// any can be.
const (
	Answer        = unix.ENOANO
	Protocol      = 0x616a61
	TrialProtocol = 0x616a62
)

// Acting reports whether the pinned programs act, by requesting what they refuse.
func Acting() bool { return Acts(Protocol) }

// Acts reports whether a program acts, by requesting a socket that only a program refuses in this
// way.
func Acts(protocol int) bool {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, protocol)
	if err == nil {
		unix.Close(fd)
	}
	return errors.Is(err, Answer)
}
