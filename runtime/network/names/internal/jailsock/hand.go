package jailsock

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/network/names/internal/helperproto"
)

// Descriptors returns the descriptors to send and their description. They stay open in this
// process.
func (s *Sockets) Descriptors() (fds []int, what helperproto.Sockets, err error) {
	all := []syscall.Conn{s.UDP, s.DNS, s.Connect, s.SOCKS}
	for _, l := range s.In {
		all = append(all, l)
	}
	for _, c := range all {
		raw, err := c.SyscallConn()
		if err == nil {
			err = raw.Control(func(fd uintptr) { fds = append(fds, int(fd)) })
		}
		if err != nil {
			return nil, what, fmt.Errorf("a socket in the jail: %w", err)
		}
	}
	what = helperproto.Sockets{In: len(s.In), Link: s.link >= 0, Raw: s.raw >= 0, Arrival: s.Arrival}
	for _, fd := range []int{s.link, s.raw} {
		if fd >= 0 {
			fds = append(fds, fd)
		}
	}
	return fds, what, nil
}

// CountDescriptors returns how many descriptors Descriptors returns.
func CountDescriptors(what helperproto.Sockets) int {
	n := services + what.In
	for _, has := range []bool{what.Link, what.Raw} {
		if has {
			n++
		}
	}
	return n
}

const services = 4 // sockets of services

// FromDescriptors is the inverse of Descriptors. It takes ownership of the descriptors.
func FromDescriptors(fds []int, what helperproto.Sockets) (_ *Sockets, err error) {
	s := newSockets()
	defer func() {
		if err == nil {
			return
		}
		s.Close()
		for _, fd := range fds {
			unix.Close(fd)
		}
	}()
	if what.In < 0 || what.In > MaxListeners || len(fds) != CountDescriptors(what) {
		return nil, fmt.Errorf("%d descriptors with the work do not match its description", len(fds))
	}
	s.Arrival = what.Arrival
	next := func() int {
		fd := fds[0]
		fds = fds[1:]
		return fd
	}
	udp, err := socket(next(), net.FilePacketConn)
	if err != nil {
		return nil, err
	}
	var is bool
	if s.UDP, is = udp.(*net.UDPConn); !is {
		return nil, errors.New("the name service's socket is not a UDP socket")
	}
	s.In = make([]*net.TCPListener, what.In)
	all := []**net.TCPListener{&s.DNS, &s.Connect, &s.SOCKS}
	for i := range s.In {
		all = append(all, &s.In[i])
	}
	for _, l := range all {
		c, err := socket(next(), net.FileListener)
		if err != nil {
			return nil, err
		}
		if *l, is = c.(*net.TCPListener); !is {
			return nil, errors.New("a socket in the jail is not a TCP listener")
		}
	}
	if what.Link {
		s.link = next()
	}
	if what.Raw {
		s.raw = next()
	}
	for _, m := range what.Arrival.Moved {
		s.moved = append(s.moved, movedSocket{Service: m})
	}
	return s, nil
}

// socket converts a descriptor into a type of package net.
func socket[T any](fd int, of func(*os.File) (T, error)) (T, error) {
	unix.CloseOnExec(fd)
	f := os.NewFile(uintptr(fd), "socket in the jail")
	defer f.Close()
	return of(f)
}
