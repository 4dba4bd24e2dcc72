package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// What these take is memory of the kernel that is charged to no process, or that the whole host has one budget for. Each takes a
// number, and stops there: the principle shows with little.

// taken reports how many of something an attempt got, and what ended it.
type taken struct {
	Got   int    `json:"got"`
	Errno string `json:"errno"` // "" where it got all
}

func howMany(args []string) (int, error) {
	if len(args) == 0 {
		return 0, errors.New("usage: NAME COUNT")
	}
	return strconv.Atoi(args[0])
}

// hold prints the answer and keeps what this process has until it is killed.
func hold(answer any) (any, error) {
	if err := json.NewEncoder(os.Stdout).Encode(answer); err != nil {
		return nil, err
	}
	for {
		_ = unix.Pause()
	}
}

// netlinkSockets opens netlink sockets, each with a dump of the interfaces requested and not read.
func netlinkSockets(args []string) (any, error) {
	n, err := howMany(args)
	if err != nil {
		return nil, err
	}
	// struct nlmsghdr and struct rtgenmsg (rtnetlink(7)): RTM_GETLINK.
	request := []byte{17, 0, 0, 0, unix.RTM_GETLINK, 0, unix.NLM_F_REQUEST | unix.NLM_F_DUMP&0xff, unix.NLM_F_DUMP >> 8, 1, 0, 0, 0, 0, 0, 0, 0, unix.AF_UNSPEC}
	got := taken{}
	for got.Got < n {
		fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE)
		if err == nil {
			err = unix.Sendto(fd, request, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
		}
		if err != nil {
			got.Errno = errnoName(err)
			break
		}
		got.Got++
	}
	return hold(got)
}

// descriptorsInFlight sends descriptors that no process takes (unix(7), SCM_RIGHTS).
func descriptorsInFlight(args []string) (any, error) {
	n, err := howMany(args)
	if err != nil {
		return nil, err
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return nil, err
	}
	const most = 253 // of one message (SCM_MAX_FD)
	rights := unix.UnixRights(slices.Repeat(pair[:1], most)...)
	got := taken{}
	for got.Got < n {
		if err := unix.Sendmsg(pair[0], []byte{0}, rights, nil, unix.MSG_DONTWAIT); err != nil {
			got.Errno = errnoName(err)
			break
		}
		got.Got += most
	}
	return hold(got)
}

// udpSockets opens UDP sockets and fills the receive queue of each.
func udpSockets(args []string) (any, error) {
	n, err := howMany(args)
	if err != nil {
		return nil, err
	}
	datagram := make([]byte, 32000)
	got := taken{}
	for got.Got < n {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			got.Errno = errnoName(err)
			break
		}
		if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
			return nil, fmt.Errorf("bind: %w", err)
		}
		at, err := unix.Getsockname(fd)
		if err != nil {
			return nil, fmt.Errorf("getsockname: %w", err)
		}
		for range 8 {
			// A full queue drops what comes, and states nothing; a full budget may report it.
			if err := unix.Sendto(fd, datagram, 0, at); err != nil {
				break
			}
		}
		got.Got++
	}
	return hold(got)
}

// recordLocks takes locks on every other byte of some files: the kernel looks through all of a file's for each.
func recordLocks(args []string) (any, error) {
	const each = 2000
	n, err := howMany(args)
	if err != nil {
		return nil, err
	}
	got := taken{}
	var f *os.File
	for got.Got < n && got.Errno == "" {
		at := got.Got % each
		if at == 0 {
			if f, err = os.CreateTemp("", "locks"); err != nil {
				return nil, err
			}
			defer f.Close()
		}
		l := unix.Flock_t{Type: unix.F_WRLCK, Start: int64(2 * at), Len: 1}
		if err := unix.FcntlFlock(f.Fd(), unix.F_SETLK, &l); err != nil {
			got.Errno = errnoName(err)
			break
		}
		got.Got++
	}
	return hold(got)
}

// lockedMemory locks pieces of memory of 64 KiB (mlock(2)), one after the other.
func lockedMemory(args []string) (any, error) {
	n, err := howMany(args)
	if err != nil {
		return nil, err
	}
	got := taken{}
	for got.Got < n {
		b, err := unix.Mmap(-1, 0, 64<<10, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
		if err == nil {
			err = unix.Mlock(b)
		}
		if err != nil {
			got.Errno = errnoName(err)
			break
		}
		got.Got++
	}
	return hold(got)
}
