package seal

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"
)

// TestLoopbackWorks: a jail's own servers are reached over lo.
func TestLoopbackWorks(t *testing.T) {
	s := newSpace(t)
	mustSeal(t, s)
	for _, tt := range []struct{ network, listen, dial string }{
		{"tcp", "127.0.0.1:0", ""},
		{"tcp", "[::1]:0", ""},
		{"tcp", "0.0.0.0:0", "127.0.0.1"},
		{"tcp", "0.0.0.0:0", "127.9.8.7"},
		{"tcp", "0.0.0.0:0", "0.0.0.0"},
		{"tcp", "[::]:0", "::1"},
		{"tcp", "[::]:0", "127.0.0.1"},
		{"udp", "127.0.0.1:0", ""},
		{"udp", "[::1]:0", ""},
	} {
		s.do(func() { // the net package makes its sockets on the calling thread
			if err := echo(tt.network, tt.listen, tt.dial); err != nil {
				t.Errorf("%s %s from %s: %v", tt.network, tt.listen, tt.dial, err)
			}
		})
	}
	s.do(func() {
		for _, a := range []string{"127.0.0.1:9", "[::1]:9"} {
			if _, err := net.Dial("tcp", a); !errors.Is(err, unix.ECONNREFUSED) {
				t.Errorf("%s: %v, want connection refused", a, err)
			}
		}
		for _, a := range []string{"192.0.2.1:9", "[2001:db8::1]:9", "10.0.0.1:9"} {
			if _, err := net.Dial("tcp", a); !errors.Is(err, unix.ENETUNREACH) {
				t.Errorf("%s: %v, want network unreachable, as in an empty namespace", a, err)
			}
		}
		if err := loMulticast(); err != nil {
			t.Errorf("multicast on lo: %v", err)
		}
	})
}

// echo sends a message larger than most buffers to a server of its own.
func echo(network, listen, to string) error {
	if network == "udp" {
		server, err := net.ListenPacket(network, listen)
		if err != nil {
			return err
		}
		defer server.Close()
		client, err := net.Dial(network, server.LocalAddr().String())
		if err != nil {
			return err
		}
		defer client.Close()
		if _, err := client.Write(make([]byte, 60000)); err != nil {
			return err
		}
		n, _, err := server.ReadFrom(make([]byte, 1<<16))
		if err == nil && n != 60000 {
			err = fmt.Errorf("%d bytes received", n)
		}
		return err
	}
	server, err := net.Listen(network, listen)
	if err != nil {
		return err
	}
	defer server.Close()
	addr := server.Addr().String()
	if to != "" {
		_, port, _ := net.SplitHostPort(addr)
		addr = net.JoinHostPort(to, port)
	}
	client, err := net.Dial(network, addr)
	if err != nil {
		return err
	}
	defer client.Close()
	peer, err := server.Accept()
	if err != nil {
		return err
	}
	defer peer.Close()
	if _, err := client.Write([]byte("hello")); err != nil {
		return err
	}
	b := make([]byte, 16)
	n, err := peer.Read(b)
	if err == nil && string(b[:n]) != "hello" {
		err = fmt.Errorf("%q received", b[:n])
	}
	return err
}

// loMulticast sends to a group that the program itself has joined on lo. (IPv6 has no multicast on lo, sealed or not.)
func loMulticast() error {
	group := netip.MustParseAddr("239.9.9.9")
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	_ = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 10})
	if err := errors.Join(unix.Bind(fd, sockaddr(netip.IPv4Unspecified(), probePort, 0)),
		unix.SetsockoptIPMreqn(fd, unix.IPPROTO_IP, unix.IP_MULTICAST_IF, &unix.IPMreqn{Ifindex: loopback}),
		unix.SetsockoptIPMreqn(fd, unix.IPPROTO_IP, unix.IP_ADD_MEMBERSHIP, &unix.IPMreqn{Multiaddr: group.As4(), Ifindex: loopback})); err != nil {
		return fmt.Errorf("join: %w", err)
	}
	if err := unix.Sendto(fd, []byte(payload), 0, sockaddr(group, probePort, 0)); err != nil {
		return fmt.Errorf("send: %w", err)
	}
	if _, _, err := unix.Recvfrom(fd, make([]byte, 64), 0); err != nil {
		return fmt.Errorf("receive: %w", err)
	}
	return nil
}

// TestResolverIsDead starts a server on Docker's resolver address before the seal, as Docker does, and tries to reach it afterwards.
func TestResolverIsDead(t *testing.T) {
	address := resolver.Addr()
	for _, sealed := range []bool{false, true} {
		t.Run(fmt.Sprintf("sealed=%v", sealed), func(t *testing.T) {
			s := newSpace(t)
			s.mustIP(t, "link", "set", "lo", "up")
			var udp, tcp int
			var err error
			s.do(func() {
				udp, err = socket(unix.AF_INET, unix.SOCK_DGRAM)
				tcp, _ = socket(unix.AF_INET, unix.SOCK_STREAM)
				err = errors.Join(err, unix.Bind(udp, sockaddr(address, 53, 0)), unix.Bind(tcp, sockaddr(address, 53, 0)), unix.Listen(tcp, 8))
			})
			if err != nil {
				t.Fatal(err)
			}
			defer unix.Close(udp)
			defer unix.Close(tcp)
			if sealed {
				mustSeal(t, s)
			}
			for name, steps := range map[string][]func(fd int) error{
				"plain":                nil,
				"bound to lo":          {func(fd int) error { return unix.BindToDevice(fd, "lo") }},
				"from another address": {func(fd int) error { return unix.Bind(fd, sockaddr(netip.MustParseAddr("127.0.0.5"), 0, 0)) }},
				"with IP_UNICAST_IF": {func(fd int) error {
					return unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_UNICAST_IF, int(htonl(loopback)))
				}},
			} {
				var tcpErr error
				got, accepted := false, false
				s.do(func() {
					u, _ := socket(unix.AF_INET, unix.SOCK_DGRAM)
					defer unix.Close(u)
					c, _ := socket(unix.AF_INET, unix.SOCK_STREAM)
					defer unix.Close(c)
					for _, step := range steps {
						tcpErr = errors.Join(tcpErr, step(u), step(c))
					}
					_ = unix.Sendto(u, []byte(payload), 0, sockaddr(address, 53, 0))
					_, _, err := unix.Recvfrom(udp, make([]byte, 64), 0)
					got = err == nil
					if e := unix.Connect(c, sockaddr(address, 53, 0)); e != unix.EINPROGRESS {
						tcpErr = errors.Join(tcpErr, e)
					}
					p, _, err := unix.Accept(tcp)
					if accepted = err == nil; accepted {
						unix.Close(p)
					}
				})
				if got == sealed || accepted == sealed {
					t.Errorf("%s: udp received %v, tcp accepted %v (%v)", name, got, accepted, tcpErr)
				}
			}
			s.do(func() {
				fd, _ := socket(unix.AF_INET, unix.SOCK_DGRAM)
				defer unix.Close(fd)
				err = unix.Bind(fd, sockaddr(address, 54, 0))
			})
			if (err != nil) != sealed {
				t.Errorf("bind to %s: %v", address, err)
			}
		})
	}
}
