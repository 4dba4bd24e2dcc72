package egress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/network/names/decisions"
	"agentjail.dev/runtime/network/names/internal/helperproto"
	"agentjail.dev/runtime/network/names/internal/jailsock"
	"agentjail.dev/runtime/network/seal"
	"agentjail.dev/runtime/spec/publish"
)

// inbound listens for connections from outside.
type inbound struct {
	entries   []publish.Entry
	listeners []*net.TCPListener
	// engine are the published ports of the engine's network, and arriving the listeners there.
	engine   []publish.Range
	arriving []*net.TCPListener
	inside   chan<- socketRequest
}

// socketRequest is a request for a socket of a family in the jail's network namespace.
type socketRequest struct {
	family int
	got    chan<- socketReply
}

type socketReply struct {
	fd  int
	err error
}

// openInbound listens in the helper's network namespace. It is called before the confinement, which
// removes that right.
func openInbound(w *helperproto.Work, netns *os.File) (*inbound, error) {
	in := &inbound{entries: w.Publish, engine: w.Engine}
	if len(in.entries)+len(in.engine) == 0 {
		return in, nil
	}
	var c net.ListenConfig
	c.SetMultipathTCP(false)
	for _, e := range in.entries {
		network := "tcp6"
		if e.At.Addr().Is4() {
			network = "tcp4"
		}
		l, err := c.Listen(context.Background(), network, e.At.String())
		if err != nil {
			return nil, fmt.Errorf("publishing %s: %w (remedy: publish at another port or address, or end what listens there)", e, err)
		}
		in.listeners = append(in.listeners, l.(*net.TCPListener))
	}
	err := in.fromEngine()
	if err == nil {
		in.inside, err = socketsInside(netns)
	}
	return in, err
}

// fromEngine accepts connections at the allowed ports of the engine's network, in the helper's
// network namespace. Only a connection shows which of these ports the engine publishes and the jail
// serves.
func (in *inbound) fromEngine() error {
	if len(in.engine) == 0 {
		return nil
	}
	l, err := jailsock.ListenTCP("127.0.0.1:0")
	if err == nil {
		in.arriving = []*net.TCPListener{l}
		if err = jailsock.DivertPorts(l, in.engine); err == nil {
			return nil
		}
		l.Close()
	}
	if lerr := in.eachPort(); lerr != nil {
		return fmt.Errorf("publishing the ports of the engine's network: %w; %w (remedy: Linux 5.9 or later, as root of the machine; or at most %d ports in network.publish)", err, lerr, jailsock.MaxListeners)
	}
	return nil
}

// eachPort is fromEngine without a look-up of sockets: it listens at each port.
func (in *inbound) eachPort() error {
	in.arriving = nil
	for _, r := range in.engine {
		for p := int(r.First); p <= int(r.Last); p++ {
			if len(in.arriving) == jailsock.MaxListeners {
				return fmt.Errorf("there are more than %d", jailsock.MaxListeners)
			}
			if in.published(uint16(p)) {
				continue
			}
			l, err := jailsock.ListenTCP(netip.AddrPortFrom(netip.IPv4Unspecified(), uint16(p)).String())
			if err != nil {
				return err
			}
			in.arriving = append(in.arriving, l)
		}
	}
	return nil
}

// published reports whether an entry has a port of the engine's network already.
func (in *inbound) published(port uint16) bool {
	return slices.ContainsFunc(in.entries, func(e publish.Entry) bool { return e.At.Port() == port })
}

// asArrived returns the entry for a connection in the engine's network. The jail's own entries come
// first.
func (in *inbound) asArrived(c *net.TCPConn) (e publish.Entry, rule string, ok bool) {
	to, err := jailsock.Local(c)
	if err != nil {
		return e, "", false
	}
	for _, e := range in.entries {
		if e.At.Port() == to.Port() && (e.At.Addr() == to.Addr() || e.At.Addr().IsUnspecified()) {
			return e, e.String(), true
		}
	}
	return publish.Entry{At: to, Port: to.Port()}, publish.Engine, slices.ContainsFunc(in.engine, func(r publish.Range) bool {
		return r.Has(to.Port())
	})
}

// socketsInside starts a thread that stays in the jail's namespace and makes sockets there. A
// socket belongs to the namespace of the thread that makes it, and joining a namespace needs
// capabilities that the helper is about to drop.
func socketsInside(netns *os.File) (chan<- socketRequest, error) {
	requests, joined := make(chan socketRequest), make(chan error, 1)
	go func() {
		joined <- seal.Join(netns, func() error {
			joined <- nil
			for w := range requests {
				fd, err := unix.Socket(w.family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, unix.IPPROTO_TCP)
				w.got <- socketReply{fd, err}
			}
			return nil
		})
	}()
	return requests, <-joined
}

// serve accepts connections from outside. The bounds of the jail's own connections include them.
func (in *inbound) serve(s *server) {
	for i, l := range in.listeners {
		go s.accept(l, func(c *net.TCPConn) { in.connection(s, c, in.entries[i], in.entries[i].String()) })
	}
	for _, l := range in.arriving {
		go s.accept(l, func(c *net.TCPConn) {
			e, rule, ok := in.asArrived(c)
			if !ok { // the listener's own port, from the same network
				reset(c)
				return
			}
			in.connection(s, c, e, rule)
		})
	}
}

// connection serves one connection from outside.
func (in *inbound) connection(s *server, c *net.TCPConn, e publish.Entry, rule string) {
	defer hangUp(c)
	begun := time.Now()
	v := decisions.Event{What: decisions.Publish, Verdict: allowed, Port: e.Port, Rule: rule, Address: c.RemoteAddr().String()}
	to, err := in.dial(e.Port)
	if err != nil {
		v.Verdict, v.Reason = refused, err.Error()
		s.events.add(v)
		reset(c)
		return
	}
	defer to.Close()
	s.events.add(v)
	done := make(chan struct{})
	go func() {
		defer close(done)
		n, err := io.Copy(c, to)
		v.Sent = n
		finish(c, to, err)
	}()
	n, err := io.Copy(to, c)
	finish(to, c, err)
	<-done
	v.What, v.Got, v.Millis = decisions.End, n, time.Since(begun).Milliseconds()
	s.events.add(v)
}

// dial connects to a port of the jail's loopback. It tries ::1 too, since some servers listen only
// there.
func (in *inbound) dial(port uint16) (*net.TCPConn, error) {
	c, err := in.connect(unix.AF_INET, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}, Port: int(port)})
	if err == nil {
		return c, nil
	}
	c, err6 := in.connect(unix.AF_INET6, &unix.SockaddrInet6{Addr: [16]byte{15: 1}, Port: int(port)})
	if err6 == nil {
		return c, nil
	}
	return nil, fmt.Errorf("port %d in the jail: %w", port, err)
}

// connect requests a socket from the thread in the jail and connects it.
func (in *inbound) connect(family int, to unix.Sockaddr) (*net.TCPConn, error) {
	got := make(chan socketReply)
	in.inside <- socketRequest{family, got}
	m := <-got
	if m.err != nil {
		return nil, m.err
	}
	begun := unix.Connect(m.fd, to)
	f := os.NewFile(uintptr(m.fd), "published port")
	defer f.Close() // the connection has a descriptor of its own
	if begun != nil && begun != unix.EINPROGRESS {
		return nil, begun
	}
	if err := connected(f); err != nil {
		return nil, err
	}
	c, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	t, ok := c.(*net.TCPConn)
	if !ok {
		c.Close()
		return nil, errors.New("the socket is not a TCP socket")
	}
	return t, nil
}

// connected waits for the end of connect(2).
func connected(f *os.File) error {
	if err := f.SetDeadline(time.Now().Add(dialTime)); err != nil {
		return err
	}
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var result error
	err = raw.Write(func(fd uintptr) bool {
		n, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_ERROR)
		switch {
		case err != nil:
			result = err
		case n != 0:
			result = unix.Errno(n)
		default:
			_, err := unix.Getpeername(int(fd)) // without a peer it goes on
			return err == nil
		}
		return true
	})
	if err != nil {
		return err
	}
	return result
}
