package main

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// address connects a TCP socket to port 9 of the loopback, or binds one there, and states with which errno that failed.
func address(args []string) (any, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	call := unix.Connect
	if len(args) == 1 && args[0] == "bind" {
		call = unix.Bind
	} else if len(args) != 1 || args[0] != "connect" {
		return nil, fmt.Errorf("%q is neither connect nor bind", args)
	}
	var errno unix.Errno
	if err := call(fd, &unix.SockaddrInet4{Port: 9, Addr: [4]byte{127, 0, 0, 1}}); !errors.As(err, &errno) {
		return map[string]string{"errno": ""}, nil
	}
	return map[string]string{"errno": unix.ErrnoName(errno)}, nil
}
