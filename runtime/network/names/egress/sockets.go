package egress

import (
	"context"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/linux/thread"
)

// sockets are those that the helper has in the jail's network namespace. They stay there, whatever the namespace of the thread that
// uses them.
type sockets struct {
	udp  *net.UDPConn
	dns  *net.TCPListener
	in   *net.TCPListener // connections to 127.64.0.0/10
	link int              // what gives them to in
	// For programs that insist on a proxy.
	connect, socks *net.TCPListener
}

// open makes the sockets in the jail's namespace, by a thread that ends with it.
func open(netns *os.File) (*sockets, error) {
	s := &sockets{link: -1}
	err := thread.Own(func() error {
		if err := unix.Setns(int(netns.Fd()), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("joining the jail's network namespace: %w", err)
		}
		return s.listen(int(netns.Fd()))
	})
	return s, err
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

func (s *sockets) listen(netns int) (err error) {
	if s.udp, err = net.ListenUDP("udp4", &net.UDPAddr{IP: localhost, Port: 53}); err != nil {
		return fmt.Errorf("name service in the jail: %w", err)
	}
	if s.dns, err = listenTCP("127.0.0.1:53"); err != nil {
		return fmt.Errorf("name service in the jail: %w", err)
	}
	if s.in, err = listenTCP("127.0.0.1:0"); err != nil {
		return fmt.Errorf("taking the jail's connections: %w", err)
	}
	if s.connect, err = listenTCP(connectAt); err != nil {
		return fmt.Errorf("a proxy in the jail: %w", err)
	}
	if s.socks, err = listenTCP(socksAt); err != nil {
		return fmt.Errorf("a proxy in the jail: %w", err)
	}
	s.link, err = take(netns, s.in)
	return err
}

// take has a listener take the connections to the range.
func take(netns int, l *net.TCPListener) (link int, err error) {
	raw, err := l.SyscallConn()
	if err != nil {
		return -1, err
	}
	if cerr := raw.Control(func(fd uintptr) { link, err = divert(netns, int(fd)) }); cerr != nil {
		return -1, cerr
	}
	if err != nil {
		err = fmt.Errorf("%w (remedy: Linux 5.9 or later with CONFIG_BPF_SYSCALL, as root of the machine; or network.mode = \"none\")", err)
	}
	return link, err
}

// probe tries it in a network namespace of its own, which ends with its thread.
func probe() error {
	return thread.Own(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("making a network namespace: %w", err)
		}
		netns, err := os.Open("/proc/thread-self/ns/net")
		if err != nil {
			return err
		}
		defer netns.Close()
		l, err := listenTCP("0.0.0.0:0")
		if err != nil {
			return fmt.Errorf("listening in it: %w", err)
		}
		defer l.Close()
		link, err := take(int(netns.Fd()), l)
		if err == nil {
			unix.Close(link)
		}
		return err
	})
}
