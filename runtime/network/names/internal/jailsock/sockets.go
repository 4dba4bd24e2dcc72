// Package jailsock makes a helper's sockets in a jail's network namespace: those of its services,
// and those at which the jail's connections arrive. agentjail makes them at start, after the
// namespace is sealed, and sends them to the helper, which needs no privilege.
package jailsock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/network/names/internal/helperproto"
	"agentjail.dev/runtime/network/seal"
)

// Sockets are a helper's sockets in a jail's network namespace. They stay in that namespace,
// regardless of the thread that uses them.
type Sockets struct {
	// UDP and DNS are the name service's.
	UDP *net.UDPConn
	DNS *net.TCPListener
	// Connect and SOCKS are the proxies, for programs that require one.
	Connect, SOCKS *net.TCPListener
	// In accept the connections to the range of addresses.
	In []*net.TCPListener
	// Arrival is the way by which the connections arrive.
	Arrival helperproto.Arrival
	link    int // the link of the sk_lookup program, or -1
	raw     int // what answers questions from a port that is taken, or -1
	moved   []movedSocket
}

// movedSocket is a socket that is not at its usual port of 127.0.0.1, since a program of the jail
// took the port before a new helper started.
type movedSocket struct {
	seal.Service
	socket syscall.Conn
}

// Open makes the sockets in a network namespace, by the first way that works. It needs the
// privileges of that way. ports returns the ports of the rules, for ways that need them.
func Open(netns *os.File, ports func() ([]uint16, error)) (*Sockets, error) {
	s := newSockets()
	err := seal.Join(netns, func() error {
		if err := s.listen(); err != nil {
			return err
		}
		return s.accept(netns, ports)
	})
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func newSockets() *Sockets { return &Sockets{link: -1, raw: -1} }

// Close closes this process's descriptors of the sockets.
func (s *Sockets) Close() {
	s.closeWay()
	if s.UDP != nil {
		s.UDP.Close()
	}
	for _, l := range []*net.TCPListener{s.DNS, s.Connect, s.SOCKS} {
		if l != nil {
			l.Close()
		}
	}
}

// ListenTCP listens with plain TCP: a map of sockets cannot hold a Multipath TCP socket, which is
// Go's default.
func ListenTCP(address string) (*net.TCPListener, error) {
	var c net.ListenConfig
	c.SetMultipathTCP(false)
	l, err := c.Listen(context.Background(), "tcp4", address)
	if err != nil {
		return nil, err
	}
	return l.(*net.TCPListener), nil
}

var localhost = netip.AddrFrom4([4]byte{127, 0, 0, 1})

// The services' ports.
const (
	dnsPort     = 53
	connectPort = 3128
	socksPort   = 1080
)

func (s *Sockets) listen() (err error) {
	if s.UDP, err = s.listenUDP(); err != nil {
		return fmt.Errorf("name service in the jail: %w", err)
	}
	if s.DNS, err = s.listenTCP(dnsPort); err != nil {
		return fmt.Errorf("name service in the jail: %w", err)
	}
	if s.Connect, err = s.listenTCP(connectPort); err != nil {
		return fmt.Errorf("a proxy in the jail: %w", err)
	}
	if s.SOCKS, err = s.listenTCP(socksPort); err != nil {
		return fmt.Errorf("a proxy in the jail: %w", err)
	}
	return nil
}

// listenUDP returns the socket of the name service, at its usual port unless that is taken.
func (s *Sockets) listenUDP() (c *net.UDPConn, err error) {
	bind := func(port uint16) (err error) {
		c, err = net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(localhost, port)))
		return err
	}
	if err := bind(dnsPort); !errors.Is(err, unix.EADDRINUSE) {
		return c, err
	}
	if err := bindAnywhere(bind); err != nil {
		return nil, err
	}
	s.move(unix.IPPROTO_UDP, dnsPort, c.LocalAddr().(*net.UDPAddr).AddrPort().Port(), c)
	return c, nil
}

// listenTCP returns a listener at its usual port unless that is taken.
func (s *Sockets) listenTCP(port uint16) (l *net.TCPListener, err error) {
	bind := func(port uint16) (err error) {
		l, err = ListenTCP(netip.AddrPortFrom(localhost, port).String())
		return err
	}
	if err := bind(port); !errors.Is(err, unix.EADDRINUSE) {
		return l, err
	}
	if err := bindAnywhere(bind); err != nil {
		return nil, err
	}
	s.move(unix.IPPROTO_TCP, port, portOf(l), l)
	return l, nil
}

func (s *Sockets) move(protocol uint8, port, at uint16, socket syscall.Conn) {
	s.moved = append(s.moved, movedSocket{seal.Service{Protocol: protocol, Port: port, At: at}, socket})
}

// services returns the services that have moved.
func (s *Sockets) services() (out []seal.Service) {
	for _, m := range s.moved {
		out = append(out, m.Service)
	}
	return out
}

// tries is how many ports are tried besides the kernel's choice, all of which a jail may have
// taken.
const tries = 256

// bindAnywhere binds a socket to any port.
func bindAnywhere(bind func(port uint16) error) error {
	err := bind(0)
	for range tries {
		if !errors.Is(err, unix.EADDRINUSE) {
			return err
		}
		err = bind(uint16(1024 + rand.IntN(1<<16-1024)))
	}
	return err
}

func portOf(l *net.TCPListener) uint16 { return l.Addr().(*net.TCPAddr).AddrPort().Port() }
