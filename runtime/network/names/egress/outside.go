package egress

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/localports"
	"agentjail.dev/runtime/network/names/internal/helperproto"
)

// Bounds of one connection's buffers if there are many connections. A few connections keep the
// kernel's defaults, which a fast and distant server needs: a buffer of a set size does not grow.
// The kernel doubles the requested size (socket(7)).
const (
	fewConns    = 16
	smallBuffer = 32 << 10
)

// connPerSecondAny is the rate of new connections if the kernel cannot restrict them to a range of
// ports (before Linux 6.3). Each occupies a port of the host for a minute.
const connPerSecondAny = 50

// outbound configures sockets outside.
type outbound struct {
	ports   helperproto.Ports
	crowded func() bool
}

// perSecond returns the rate of new connections.
func perSecond() int {
	if localports.Can() != nil {
		return connPerSecondAny
	}
	return connPerSecond
}

// control prepares a socket for connect(2). A UDP socket is left as it is: it occupies no port
// after its end, and its port must not be predictable.
func (w *outbound) control(network, _ string, c syscall.RawConn) error {
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

// small sets small buffers.
func small(fd int) error {
	return errors.Join(unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, smallBuffer),
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, smallBuffer))
}

// smallInside sets small buffers for a connection of the jail.
func smallInside(c *net.TCPConn) {
	_ = c.SetReadBuffer(smallBuffer)
	_ = c.SetWriteBuffer(smallBuffer)
}

// used turns EADDRNOTAVAIL into an error which explains that all ports are in use.
func (w *outbound) used(err error) error {
	if !errors.Is(err, unix.EADDRNOTAVAIL) {
		return err
	}
	return fmt.Errorf("all %d ports that this jail has connections from are in use, or were within the last minute: %w",
		int(w.ports.Last)-int(w.ports.First)+1, err)
}
