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

// retries is how often the kernel repeats a first packet that is not answered, after one second. It
// takes the connection for failed after two more (tcp(7), TCP_SYNCNT). No clock of this program's
// decides: the answer to a packet over lo comes before the timer of the next.
const retries = 1

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
	if err = connectLo(fd, at); err != nil {
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

// connectLo connects a socket that does not block, and waits until the kernel has an answer or none.
func connectLo(fd int, at unix.Sockaddr) error {
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_SYNCNT, retries); err != nil {
		return err
	}
	if err := unix.Connect(fd, at); err != unix.EINPROGRESS {
		return err
	}
	poll := func() error {
		_, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}, -1)
		return err
	}
	err := poll()
	for errors.Is(err, unix.EINTR) {
		err = poll()
	}
	if err != nil {
		return err
	}
	errno, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
	if errno != 0 {
		return unix.Errno(errno)
	}
	return err
}

var errUsage = errors.New("usage: unaccepted COUNT BYTES close|reset..., tcp-sockets COUNT BYTES, or orphans COUNT BYTES")

func countAndSize(args []string) (count, size int, err error) {
	if len(args) < 2 {
		return 0, 0, errUsage
	}
	count, err1 := strconv.Atoi(args[0])
	size, err2 := strconv.Atoi(args[1])
	return count, size, errors.Join(err1, err2)
}

// unaccepted makes COUNT connections that it never accepts, writes at most BYTES to each, and ends
// its own side of it by "close" or "reset", in turn where several are named. It reports how many
// wait.
func unaccepted(args []string) (any, error) {
	many, size, err := countAndSize(args)
	if err != nil {
		return nil, err
	}
	if len(args) < 3 {
		return nil, errUsage
	}
	data, ends := make([]byte, size), args[2:]
	got := taken{}
	for made := 0; made < many && got.Errno == ""; {
		_, at, err := listener()
		if err != nil {
			return nil, err
		}
		for i := 0; i < (many+listenersOf-1)/listenersOf && made < many; i++ {
			fd, err := connected(at, data)
			if err == nil && ends[made%len(ends)] == "reset" {
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
	const listens = "0A"
	err = eachTCP(func(f []string) error {
		if f[3] != listens {
			return nil
		}
		_, rx, _ := strings.Cut(f[4], ":")
		v, err := strconv.ParseUint(rx, 16, 32)
		n += int(v)
		return err
	})
	return n, err
}

// eachTCP calls f with the fields of each TCP socket of IPv4 (proc_net_tcp(5)).
func eachTCP(f func(fields []string) error) error {
	text, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		return err
	}
	for line := range bytes.Lines(text) {
		if fields := strings.Fields(string(line)); len(fields) > 9 {
			if err := f(fields); err != nil {
				return err
			}
		}
	}
	return nil
}

// orphans makes COUNT connections, writes at most BYTES to each, and closes the client's end, which
// waits for the server's (TCP_LINGER2). It reports how many of those ends the kernel keeps.
func orphans(args []string) (any, error) {
	got, err := accepted(args, func(client int) error {
		const seconds = 120 // the most (TCP_FIN_TIMEOUT_MAX)
		if err := unix.SetsockoptInt(client, unix.IPPROTO_TCP, unix.TCP_LINGER2, seconds); err != nil {
			return err
		}
		return unix.Close(client)
	})
	if err != nil {
		return nil, err
	}
	got.Got = 0
	err = eachTCP(func(f []string) error {
		const finWait1, finWait2 = "04", "05"
		if (f[3] == finWait1 || f[3] == finWait2) && f[9] == "0" {
			got.Got++
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return hold(got)
}

// tcpSockets makes COUNT connections that it accepts, and writes at most BYTES to each, which it
// does not read.
func tcpSockets(args []string) (any, error) {
	got, err := accepted(args, func(int) error { return nil })
	if err != nil {
		return nil, err
	}
	return hold(got)
}

// accepted makes connections that it accepts, writes to each, and calls then with the client's end.
// It counts those until one fails.
func accepted(args []string, then func(client int) error) (got taken, err error) {
	n, size, err := countAndSize(args)
	if err != nil {
		return got, err
	}
	fd, at, err := listener()
	if err != nil {
		return got, err
	}
	data := make([]byte, size)
	for got.Got < n {
		client, err := connected(at, data)
		if err == nil {
			_, _, err = unix.Accept(fd)
		}
		if err == nil {
			err = then(client)
		}
		if err != nil {
			got.Errno = errnoName(err)
			break
		}
		got.Got++
	}
	return got, nil
}
