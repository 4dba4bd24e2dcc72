package jailsock

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/network/names/internal/helperproto"
	"agentjail.dev/runtime/network/seal"
)

// TestTakenPortsReachTheHelper: if a program of the jail has taken a service's port, requests to the service still
// arrive at the helper, over UDP and TCP, by each way that supports it. The answer comes from the
// port of the request. The program gets all other traffic.
func TestTakenPortsReachTheHelper(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: makes network namespaces")
	}
	for _, w := range ways {
		for _, at := range []string{"127.0.0.1", "0.0.0.0"} {
			t.Run(w.name+" "+at, func(t *testing.T) { movedBy(t, w, at) })
		}
	}
}

func movedBy(t *testing.T, w way, at string) {
	netns := freshNetns(t)
	taken, err := takenPorts(netns, at)
	for _, c := range taken {
		defer c.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	made := newSockets()
	defer made.Close()
	made.Arrival.Way = w.name
	err = seal.Join(netns, func() error {
		if err := made.listen(); err != nil {
			return err
		}
		return w.accept(made, netns, func() ([]uint16, error) { return []uint16{443}, nil })
	})
	if w.name == helperproto.Listeners {
		if !errors.Is(err, unix.EADDRINUSE) {
			t.Errorf("%v", err)
		}
		// As the only way, the cause is still in the error.
		only = w.name
		defer func() { only = "" }()
		if err := seal.Join(netns, func() error { return made.accept(netns, func() ([]uint16, error) { return []uint16{443}, nil }) }); !errors.Is(err, unix.EADDRINUSE) {
			t.Errorf("by this way alone: %v", err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if len(made.moved) != 4 {
		t.Fatalf("moved: %+v", made.moved)
	}
	made.Arrival.Moved = made.services()
	s := handed(t, made)
	made.Close() // the helper's are its own
	defer s.Close()
	go func() {
		buf := make([]byte, 100)
		for {
			n, from, err := s.UDP.ReadFromUDPAddrPort(buf)
			if err != nil {
				return
			}
			if err := s.Reply(append([]byte("answer to "), buf[:n]...), from); err != nil {
				t.Error(err)
			}
		}
	}()
	for _, l := range []*net.TCPListener{s.DNS, s.Connect, s.SOCKS, s.In[0]} {
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				_, _ = io.WriteString(c, "the helper")
				c.Close()
			}
		}()
	}
	err = seal.Join(netns, func() error {
		for address, want := range map[string]string{
			"127.0.0.1:53": "the helper", "127.0.0.1:1080": "the helper", "127.0.0.1:3128": "the helper", "127.64.0.1:53": "the helper",
			"127.0.0.1:8000": "the program",
		} {
			if got, err := heard("tcp4", address); got != want {
				t.Errorf("%s: %q, %v; want %q", address, got, err, want)
			}
		}
		for range 3 {
			if got, err := heard("udp4", "127.0.0.1:53"); got != "answer to question" {
				t.Errorf("over UDP: %q, %v", got, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// handed are the sockets as a helper has them: by descriptors of its own.
func handed(t *testing.T, made *Sockets) *Sockets {
	t.Helper()
	fds, what, err := made.Descriptors()
	if err != nil {
		t.Fatal(err)
	}
	for i, fd := range fds {
		if fds[i], err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0); err != nil {
			t.Fatal(err)
		}
	}
	s, err := FromDescriptors(fds, what)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// heard returns the answer from an address. A connected UDP socket receives only from that address.
func heard(network, address string) (string, error) {
	c, err := net.DialTimeout(network, address, 30*time.Second)
	if err != nil {
		return "", err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(30 * time.Second))
	if network == "udp4" {
		if _, err := io.WriteString(c, "question"); err != nil {
			return "", err
		}
		buf := make([]byte, 100)
		n, err := c.Read(buf)
		return string(buf[:n]), err
	}
	got, err := io.ReadAll(c)
	return string(got), err
}

// takenPorts are sockets of a program in a network namespace, at the services' ports and another
// one.
func takenPorts(netns *os.File, at string) (taken []io.Closer, err error) {
	err = seal.Join(netns, func() error {
		c, err := net.ListenPacket("udp4", net.JoinHostPort(at, "53"))
		if err != nil {
			return err
		}
		taken = append(taken, c)
		for _, port := range []string{"53", "1080", "3128", "8000"} {
			l, err := ListenTCP(net.JoinHostPort(at, port))
			if err != nil {
				return err
			}
			taken = append(taken, l)
			go func() {
				for {
					c, err := l.Accept()
					if err != nil {
						return
					}
					_, _ = io.WriteString(c, "the program")
					c.Close()
				}
			}()
		}
		return nil
	})
	return taken, err
}

// TestPacket: a datagram's header has what the kernel does not fill in.
func TestPacket(t *testing.T) {
	from, to := netip.MustParseAddrPort("127.0.0.1:53"), netip.MustParseAddrPort("127.1.2.3:4660")
	got, err := packet(from, to, []byte("abc"))
	want := "E\x00\x00\x1f\x00\x00\x40\x00\x40\x11\x00\x00\x7f\x00\x00\x01\x7f\x01\x02\x03\x00\x35\x12\x34\x00\x0b\x00\x00abc"
	if err != nil || string(got) != want {
		t.Errorf("%q, %v", got, err)
	}
	for _, c := range []struct {
		to   string
		data int
	}{{"[::1]:53", 1}, {"127.0.0.1:53", 1 << 16}} {
		if _, err := packet(from, netip.MustParseAddrPort(c.to), make([]byte, c.data)); err == nil {
			t.Errorf("%s, %d bytes: a datagram", c.to, c.data)
		}
	}
}
