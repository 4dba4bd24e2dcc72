package jailsock

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/network/names/internal/helperproto"
	"agentjail.dev/runtime/network/seal"
	"agentjail.dev/runtime/spec/publish"
)

// TestConnectionsArriveByEveryWay: by every way, TCP connections to the range arrive at the helper with their address, UDP to it is refused, and outside of the
// range all is as before.
func TestConnectionsArriveByEveryWay(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: makes network namespaces")
	}
	for _, w := range ways {
		if err := taken(t, w); err != nil {
			t.Errorf("%s: %v", w.name, err)
		}
	}
}

func taken(t *testing.T, w way) error {
	netns := freshNetns(t)
	var own *net.TCPListener // the jail's own server
	err := seal.Join(netns, func() (err error) {
		own, err = ListenTCP("0.0.0.0:8000")
		return err
	})
	if err != nil {
		return err
	}
	defer own.Close()
	s := newSockets()
	defer s.Close()
	s.Arrival.Way = w.name
	if err := seal.Join(netns, func() error { return w.accept(s, netns, func() ([]uint16, error) { return []uint16{22, 443}, nil }) }); err != nil {
		return err
	}
	to := []string{"127.64.0.1:22", "127.127.255.254:443"}
	if w.name != helperproto.Listeners {
		to = append(to, "127.64.0.1:8000")
	}
	return seal.Join(netns, func() error {
		for _, to := range to {
			l := s.In[0]
			if strings.HasSuffix(to, ":443") {
				l = s.In[len(s.In)-1]
			}
			if at, err := arrives(to, l, s.Destination); err != nil || at != to {
				t.Errorf("%s: %s: at %q, %v", w.name, to, at, err)
			}
		}
		if at, err := arrives("127.0.0.1:8000", own, Local); err != nil || at != "127.0.0.1:8000" {
			t.Errorf("%s: the jail's own server: at %q, %v", w.name, at, err)
		}
		for _, to := range []string{"127.63.255.254:25", "127.128.0.1:25"} {
			if c, err := net.DialTimeout("tcp4", to, 30*time.Second); !errors.Is(err, unix.ECONNREFUSED) {
				t.Errorf("%s: %s: %v, %v", w.name, to, c, err)
			}
		}
		if err := unanswered("127.64.0.1:443"); !errors.Is(err, unix.ECONNREFUSED) {
			t.Errorf("%s: UDP: %v", w.name, err)
		}
		if w.name == helperproto.Listeners {
			return nil
		}
		// Also where a server of the jail's listens.
		u, err := net.ListenPacket("udp4", "0.0.0.0:9000")
		if err != nil {
			return err
		}
		defer u.Close()
		if err := unanswered("127.64.0.1:9000"); !errors.Is(err, unix.ECONNREFUSED) {
			t.Errorf("%s: UDP to a server of the jail's: %v", w.name, err)
		}
		return nil
	})
}

// freshNetns makes a network namespace with lo up.
func freshNetns(t *testing.T) *os.File {
	t.Helper()
	netns, err := seal.Make()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { netns.Close() })
	if err := seal.Join(netns, seal.RaiseLoopback); err != nil {
		t.Fatal(err)
	}
	return netns
}

// unanswered sends something by UDP and returns what it learns of it.
func unanswered(to string) error {
	u, err := net.Dial("udp4", to)
	if err != nil {
		return err
	}
	defer u.Close()
	_ = u.SetDeadline(time.Now().Add(30 * time.Second))
	if _, err := u.Write([]byte("x")); err != nil {
		return err
	}
	_, err = u.Read(make([]byte, 1))
	return err
}

// arrives connects and reports what address the listener sees.
func arrives(to string, l *net.TCPListener, destination func(*net.TCPConn) (netip.AddrPort, error)) (string, error) {
	c, err := net.DialTimeout("tcp4", to, 30*time.Second)
	if err != nil {
		return "", err
	}
	defer c.Close()
	_ = l.SetDeadline(time.Now().Add(30 * time.Second))
	in, err := l.AcceptTCP()
	if err != nil {
		return "", err
	}
	defer in.Close()
	at, err := destination(in)
	return at.String(), err
}

// TestDivertPorts: connections to the ports arrive at the listener with their address, and those to others and to Docker's DNS server do
// not.
func TestDivertPorts(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: makes network namespaces")
	}
	netns := freshNetns(t)
	err := seal.Join(netns, func() error {
		l, err := ListenTCP("127.0.0.1:0")
		if err != nil {
			return err
		}
		defer l.Close()
		if err := DivertPorts(l, []publish.Range{{First: 7000, Last: 7999}, {First: 1, Last: 1}, {First: 65535, Last: 65535}}); err != nil {
			return err
		}
		for _, to := range []string{"127.0.0.1:7000", "127.0.0.9:7999", "127.0.0.1:1", "127.0.0.1:65535"} {
			if at, err := arrives(to, l, Local); err != nil || at != to {
				t.Errorf("%s: at %q, %v", to, at, err)
			}
		}
		for _, to := range []string{"127.0.0.1:6999", "127.0.0.1:8000", "127.0.0.1:65534", "127.0.0.11:7000"} {
			if _, err := net.Dial("tcp4", to); !errors.Is(err, unix.ECONNREFUSED) {
				t.Errorf("%s: %v", to, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
