// Package jailsock is what a helper has in a jail's network namespace: the sockets of its services,
// and what has the jail's connections arrive at it. agentjail makes them at start, once the
// namespace is sealed, and hands them on: the helper needs no right to do it.
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

	"agentjail.dev/runtime/network/names/helperproto"
)

// Sockets are those that a helper has in a jail's network namespace. They stay there, whatever the
// namespace of the thread that uses them.
type Sockets struct {
	// UDP and DNS are the name service's.
	UDP *net.UDPConn
	DNS *net.TCPListener
	// Connect and SOCKS are for programs that insist on a proxy.
	Connect, SOCKS *net.TCPListener
	// In take the connections to the range of addresses.
	In []*net.TCPListener
	// Taken is by which way they come.
	Taken helperproto.Arrival
	link  int // what gives them to In, by sk_lookup, or -1
	raw   int // what answers questions from a port that is taken, or -1
	moved []movedSocket
}

// movedSocket is one that is not at its port of 127.0.0.1: a program of the jail is, which came
// before a new helper.
type movedSocket struct {
	helperproto.Moved
	socket syscall.Conn
}

// Open makes the sockets in a network namespace, by the first way that can be had. It needs the
// rights that the way takes. Ports tells those of the rules, for a way that has to know.
func Open(netns *os.File, ports func() ([]uint16, error)) (*Sockets, error) {
	s := none()
	err := join(netns, func() error {
		if err := s.listen(); err != nil {
			return err
		}
		return s.take(netns, ports)
	})
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func none() *Sockets { return &Sockets{link: -1, raw: -1} }

// Close closes those of this process.
func (s *Sockets) Close() {
	s.drop()
	if s.UDP != nil {
		s.UDP.Close()
	}
	for _, l := range []*net.TCPListener{s.DNS, s.Connect, s.SOCKS} {
		if l != nil {
			l.Close()
		}
	}
}

// ListenTCP listens with plain TCP: a socket of Multipath TCP, which Go takes by default, is none
// that a map of sockets holds.
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
	if s.UDP, err = s.questions(); err != nil {
		return fmt.Errorf("name service in the jail: %w", err)
	}
	if s.DNS, err = s.service(dnsPort); err != nil {
		return fmt.Errorf("name service in the jail: %w", err)
	}
	if s.Connect, err = s.service(connectPort); err != nil {
		return fmt.Errorf("a proxy in the jail: %w", err)
	}
	if s.SOCKS, err = s.service(socksPort); err != nil {
		return fmt.Errorf("a proxy in the jail: %w", err)
	}
	return nil
}

// questions is the socket of the name service, at its port unless that is taken.
func (s *Sockets) questions() (c *net.UDPConn, err error) {
	bind := func(port uint16) (err error) {
		c, err = net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(localhost, port)))
		return err
	}
	if err := bind(dnsPort); !errors.Is(err, unix.EADDRINUSE) {
		return c, err
	}
	if err := elsewhere(bind); err != nil {
		return nil, err
	}
	s.move(unix.IPPROTO_UDP, dnsPort, c.LocalAddr().(*net.UDPAddr).AddrPort().Port(), c)
	return c, nil
}

// service is a listener at its port unless that is taken.
func (s *Sockets) service(port uint16) (l *net.TCPListener, err error) {
	bind := func(port uint16) (err error) {
		l, err = ListenTCP(netip.AddrPortFrom(localhost, port).String())
		return err
	}
	if err := bind(port); !errors.Is(err, unix.EADDRINUSE) {
		return l, err
	}
	if err := elsewhere(bind); err != nil {
		return nil, err
	}
	s.move(unix.IPPROTO_TCP, port, portOf(l), l)
	return l, nil
}

func (s *Sockets) move(protocol uint8, port, at uint16, socket syscall.Conn) {
	s.moved = append(s.moved, movedSocket{helperproto.Moved{Protocol: protocol, Port: port, At: at}, socket})
}

// tries are how many ports are tried besides the kernel's choice, which a jail can have taken all
// of.
const tries = 256

// elsewhere binds a socket to any port.
func elsewhere(bind func(port uint16) error) error {
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
