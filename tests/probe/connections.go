package main

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// listenersOf bounds how many listeners share the connections: a program with 64 files has as many.
const listenersOf = 50

// patience is how long a connection over lo may take, in milliseconds. One that takes longer does
// not come.
const patience = 2000

// listener listens at a port of lo.
func listener() (fd int, at unix.Sockaddr, err error) {
	if fd, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0); err != nil {
		return fd, nil, err
	}
	if err = unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return fd, nil, err
	}
	if err = unix.Listen(fd, 1<<16-1); err != nil {
		return fd, nil, err
	}
	at, err = unix.Getsockname(fd)
	return fd, at, err
}

// connected connects to a listener and writes what is taken of data.
func connected(at unix.Sockaddr, data []byte) (fd int, err error) {
	if fd, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0); err != nil {
		return fd, err
	}
	if err = unix.Connect(fd, at); err == unix.EINPROGRESS {
		var n int
		if n, err = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}, patience); n == 0 && err == nil {
			err = unix.ETIMEDOUT
		}
	}
	if err != nil {
		return fd, errors.Join(err, unix.Close(fd))
	}
	for len(data) > 0 {
		n, err := unix.Write(fd, data)
		if err == unix.EAGAIN {
			break
		}
		if err != nil {
			return fd, errors.Join(err, unix.Close(fd))
		}
		data = data[n:]
	}
	return fd, nil
}

var errUsage = errors.New("usage: unaccepted COUNT BYTES close|reset, or tcp-sockets COUNT BYTES")

func countAndSize(args []string) (count, size int, err error) {
	if len(args) < 2 {
		return 0, 0, errUsage
	}
	count, err1 := strconv.Atoi(args[0])
	size, err2 := strconv.Atoi(args[1])
	return count, size, errors.Join(err1, err2)
}

// unaccepted makes COUNT connections that it never accepts, writes at most BYTES to each, and ends
// its own side of it by "close" or "reset". It reports how many wait.
func unaccepted(args []string) (any, error) {
	many, size, err := countAndSize(args)
	if err != nil {
		return nil, err
	}
	if len(args) < 3 {
		return nil, errUsage
	}
	data := make([]byte, size)
	got := taken{}
	for made := 0; made < many && got.Errno == ""; {
		_, at, err := listener()
		if err != nil {
			return nil, err
		}
		for i := 0; i < (many+listenersOf-1)/listenersOf && made < many; i++ {
			fd, err := connected(at, data)
			if err == nil && args[2] == "reset" {
				err = unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
			}
			if err != nil {
				got.Errno = errnoName(err)
				break
			}
			made++
			if err := unix.Close(fd); err != nil {
				return nil, err
			}
		}
	}
	if got.Got, err = waiting(); err != nil {
		return nil, err
	}
	return hold(got)
}

// waiting is how many connections wait at the listeners of IPv4 (proc_net_tcp(5): rx_queue of
// those).
func waiting() (n int, err error) {
	text, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(text) {
		const listens = "0A"
		f := strings.Fields(string(line))
		if len(f) < 5 || f[3] != listens {
			continue
		}
		_, rx, _ := strings.Cut(f[4], ":")
		v, err := strconv.ParseUint(rx, 16, 32)
		if err != nil {
			return 0, err
		}
		n += int(v)
	}
	return n, nil
}

// tcpSockets makes COUNT connections that it accepts, and writes at most BYTES to each, which it
// does not read.
func tcpSockets(args []string) (any, error) {
	n, size, err := countAndSize(args)
	if err != nil {
		return nil, err
	}
	fd, at, err := listener()
	if err != nil {
		return nil, err
	}
	data := make([]byte, size)
	got := taken{}
	for got.Got < n {
		_, err := connected(at, data)
		if err == nil {
			_, _, err = unix.Accept(fd)
		}
		if err != nil {
			got.Errno = errnoName(err)
			break
		}
		got.Got++
	}
	return hold(got)
}
