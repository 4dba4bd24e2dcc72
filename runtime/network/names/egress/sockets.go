package egress

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"

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

var localhost = net.IPv4(127, 0, 0, 1)

func (s *sockets) listen() (err error) {
	if s.udp, err = net.ListenUDP("udp4", &net.UDPAddr{IP: localhost, Port: 53}); err != nil {
		return fmt.Errorf("name service in the jail: %w", err)
	}
	if s.dns, err = listenTCP("127.0.0.1:53"); err != nil {
		return fmt.Errorf("name service in the jail: %w", err)
	}
	if s.connect, err = listenTCP(connectAt); err != nil {
		return fmt.Errorf("a proxy in the jail: %w", err)
	}
	if s.socks, err = listenTCP(socksAt); err != nil {
		return fmt.Errorf("a proxy in the jail: %w", err)
	}
	return nil
}
