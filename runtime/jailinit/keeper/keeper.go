// Package keeper is the process that outlives `agentjail sandbox`: it waits for that process's end,
// for whatever reason, and then becomes the program that reclaims the jail. It is part of the init
// step's program, but runs outside of every jail. It waits for as long as a jail runs, and is to
// take little memory: it imports next to nothing.
package keeper

import (
	"os"

	"golang.org/x/sys/unix"
)

// Name is the program's first argument that selects the keeper. The arguments of the program that
// reclaims follow, its own name among them.
const Name = "agentjail-keeper"

// Standard input is a descriptor of the process that is waited for (pidfd_open(2)). The next
// descriptor is of the program that reclaims.
const (
	ofFD    = 0
	program = "/proc/self/fd/3"
)

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
	_ = unix.Exec(program, os.Args[1:], os.Environ())
	os.Exit(1)
}
