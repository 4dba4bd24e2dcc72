package egress

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

	"agentjail.dev/runtime/network/names/work"
)

// sockets are those that the helper has in the jail's network namespace. They stay there, whatever the namespace of the thread that
// uses them.
type sockets struct {
	udp *net.UDPConn
	dns *net.TCPListener
	in  []*net.TCPListener // connections to 127.64.0.0/10
	// destination is where one of those was made to.
	destination func(*net.TCPConn) (netip.AddrPort, error)
	taken       work.Arrival // by which way they come
	link        int          // what gives them to in, by sk_lookup
	// For programs that insist on a proxy.
	connect, socks *net.TCPListener
	moved          []movedSocket
	// reply answers a question of udp's.
	reply func(out []byte, to netip.AddrPort) error
}

// movedSocket is one that is not at its port of 127.0.0.1: a program of the jail is, which came before a new helper.
type movedSocket struct {
	work.Moved
	socket syscall.Conn
}

// open makes the sockets in the jail's namespace.
func open(netns *os.File, named ports) (*sockets, error) {
	s := &sockets{link: -1}
	if err := join(netns, s.listen); err != nil {
		return nil, err
	}
	return s, s.take(netns, named)
}

// listenTCP listens with plain TCP: a socket of Multipath TCP, which Go takes by default, is none that a map of sockets holds.
func listenTCP(address string) (*net.TCPListener, error) {
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

func (s *sockets) listen() (err error) {
	if s.udp, err = s.questions(); err != nil {
		return fmt.Errorf("name service in the jail: %w", err)
	}
	s.reply = func(out []byte, to netip.AddrPort) error {
		_, err := s.udp.WriteToUDPAddrPort(out, to)
		return err
	}
	if s.dns, err = s.service(dnsPort); err != nil {
		return fmt.Errorf("name service in the jail: %w", err)
	}
	if s.connect, err = s.service(connectPort); err != nil {
		return fmt.Errorf("a proxy in the jail: %w", err)
	}
	if s.socks, err = s.service(socksPort); err != nil {
		return fmt.Errorf("a proxy in the jail: %w", err)
	}
	return nil
}

// questions is the socket of the name service, at its port unless that is taken.
func (s *sockets) questions() (c *net.UDPConn, err error) {
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
func (s *sockets) service(port uint16) (l *net.TCPListener, err error) {
	bind := func(port uint16) (err error) {
		l, err = listenTCP(netip.AddrPortFrom(localhost, port).String())
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

func (s *sockets) move(protocol uint8, port, at uint16, socket syscall.Conn) {
	s.moved = append(s.moved, movedSocket{work.Moved{Protocol: protocol, Port: port, At: at}, socket})
}

// tries are how many ports are tried besides the kernel's choice, which a jail can have taken all of.
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
