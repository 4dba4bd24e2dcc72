// Package keeper is the process that outlives `agentjail sandbox`: it waits for that one's end,
// however that comes, and then becomes the program that reclaims what it left. It is the program of
// the init step, started outside of every jail, since it waits for as long as a jail runs and is to
// take little.
//
// It imports next to nothing, as that program.
package keeper

import (
	"os"

	"golang.org/x/sys/unix"
)

// Name is the program's first argument where it is to be this; the path and the arguments of the
// program that reclaims follow.
const Name = "agentjail-keeper"

// Standard input is a descriptor of the process that is waited for (pidfd_open(2)).
const ofFD = 0

// Main waits and reclaims. It does not return.
func Main() {
	if len(os.Args) < 2 {
		os.Exit(2)
	}
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: ofFD, Events: unix.POLLIN}}, -1)
		if err != nil && err != unix.EINTR {
			os.Exit(1)
		}
		if n > 0 {
			break
		}
	}
	_ = unix.Exec(os.Args[1], os.Args[1:], os.Environ())
	os.Exit(1)
}
