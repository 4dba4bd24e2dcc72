package egress

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/localports"
	"agentjail.dev/runtime/network/names/helperproto"
)

// Bounds of one connection's buffers where there are many. A few have what the kernel gives, which
// a fast and far server takes: a window that is set does not grow. The kernel doubles what is
// requested (socket(7)).
const (
	fewConns    = 16
	smallBuffer = 32 << 10
)

// connPerSecondAny is the rate of new connections where the kernel cannot hold them to a share of
// ports (before Linux 6.3): each keeps a port of the host's for a minute.
const connPerSecondAny = 50

// ways are how sockets outside are made.
type ways struct {
	ports   helperproto.Ports
	crowded func() bool
}

// perSecond is the rate of new connections.
func perSecond() int {
	if localports.Can() != nil {
		return connPerSecondAny
	}
	return connPerSecond
}

// control makes a socket ready to be connected. One of UDP has no port after its end, and its port
// is to be guessed by no one.
func (w *ways) control(network, _ string, c syscall.RawConn) error {
	if !strings.HasPrefix(network, "tcp") {
		return nil
	}
	var err error
	cerr := c.Control(func(fd uintptr) {
		if err = localports.Hold(int(fd), w.ports.First, w.ports.Last); errors.Is(err, unix.ENOPROTOOPT) {
			err = nil // the rate bounds them
		}
		if err == nil && w.crowded() { // before it is connected: the window is offered then
			err = small(int(fd))
		}
	})
	return errors.Join(cerr, err)
}

// small gives a socket small buffers.
func small(fd int) error {
	return errors.Join(unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, smallBuffer), unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, smallBuffer))
}

// smallInside is small for a connection of the jail's.
func smallInside(c *net.TCPConn) {
	_ = c.SetReadBuffer(smallBuffer)
	_ = c.SetWriteBuffer(smallBuffer)
}

// used says of an error of connecting that all ports are in use.
func (w *ways) used(err error) error {
	if !errors.Is(err, unix.EADDRNOTAVAIL) {
		return err
	}
	return fmt.Errorf("all %d ports that this jail has connections from are in use, or were within the last minute: %w", int(w.ports.Last)-int(w.ports.First)+1, err)
}
