package jailsock

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/thread"
	"agentjail.dev/runtime/network/names/internal/helperproto"
	"agentjail.dev/runtime/network/seal"
	"agentjail.dev/runtime/spec/netrules"
)

// ports returns the ports of rules for names. Only the last way calls it.
type ports func() ([]uint16, error)

// A way lets the jail's connections to the range of addresses arrive at the helper. take makes its
// listeners.
type way struct {
	name   string
	accept func(s *Sockets, netns *os.File, named ports) error // by a thread in the namespace
}

// ways are tried in this order; the first that works is used.
var ways = []way{
	{helperproto.SkLookup, (*Sockets).bySkLookup},
	{helperproto.Redirect, (*Sockets).byRedirect},
	{helperproto.Listeners, (*Sockets).byListeners},
}

// only is the name of the one way that is tried. It is set in builds of tests (-ldflags -X), and
// empty in all others.
var only string

// MaxListeners bounds the listeners of the last way.
const MaxListeners = 128

// accept makes the listeners for the jail's connections, by the first way that works.
func (s *Sockets) accept(netns *os.File, named ports) error {
	var missed error
	for _, w := range ways {
		if only != "" && w.name != only {
			continue
		}
		err := w.accept(s, netns, named)
		if err == nil {
			if s.Arrival.Why != "" {
				missed = also(missed, "; ", errors.New(s.Arrival.Why))
			}
			if s.Arrival.Way = w.name; missed != nil {
				s.Arrival.Why = missed.Error()
			}
			s.Arrival.Moved = s.services()
			return nil
		}
		s.closeWay()
		missed = also(missed, "; ", fmt.Errorf("%s: %w", w.name, err))
	}
	return fmt.Errorf("the jail's connections cannot be taken: %w (remedy: Linux 5.9 or later with CONFIG_BPF_SYSCALL, as root of the machine; or nf_tables with NAT; or network.mode = \"none\")", missed)
}

// also adds an error to others.
func also(all error, separator string, err error) error {
	if all == nil {
		return err
	}
	return fmt.Errorf("%w%s%w", all, separator, err)
}

// closeWay closes all that a way has opened.
func (s *Sockets) closeWay() {
	for _, l := range s.In {
		l.Close()
	}
	for _, fd := range []int{s.link, s.raw} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
	s.In, s.link, s.raw, s.Arrival = nil, -1, -1, helperproto.Arrival{}
}

// listenOne makes one listener on 127.0.0.1 of the jail, at a port of the kernel's choice.
func (s *Sockets) listenOne() error {
	return bindAnywhere(func(port uint16) error {
		l, err := ListenTCP(netip.AddrPortFrom(localhost, port).String())
		if err == nil {
			s.In = []*net.TCPListener{l}
		}
		return err
	})
}

// bySkLookup accepts every connection to the range, at each port, even if another program listens
// there.
func (s *Sockets) bySkLookup(netns *os.File, _ ports) (err error) {
	if err := s.listenOne(); err != nil {
		return err
	}
	if s.raw, err = s.replies(); err != nil {
		return err
	}
	s.link, err = divert(netns, s.In[0], s.moved)
	return err
}

// byRedirect redirects every connection to the range to one port, by nf_tables.
func (s *Sockets) byRedirect(netns *os.File, _ ports) error {
	if err := s.listenOne(); err != nil {
		return err
	}
	port := portOf(s.In[0])
	t := seal.Target{Range: netrules.Pool, Port: port, Services: s.services()}
	// On a thread outside the namespace, which would otherwise be taken for the host's.
	if err := thread.Own(func() error { return seal.Redirect(netns, t) }); err != nil {
		return err
	}
	s.Arrival.Port = port
	return nil
}

// byListeners listens on all of the jail's addresses, at the ports that rules name.
func (s *Sockets) byListeners(_ *os.File, named ports) error {
	if len(s.moved) > 0 {
		return fmt.Errorf("port %d of the jail's 127.0.0.1: %w", s.moved[0].Port, unix.EADDRINUSE)
	}
	open, err := named()
	if err != nil {
		return err
	}
	var without error
	if len(open) > MaxListeners {
		without = fmt.Errorf("%d ports beyond %d", len(open)-MaxListeners, MaxListeners)
		open = open[:MaxListeners]
	}
	for _, p := range open {
		l, err := ListenTCP("0.0.0.0:" + strconv.Itoa(int(p)))
		if err != nil {
			without = also(without, ", ", fmt.Errorf("port %d: %w", p, err))
			continue
		}
		s.In = append(s.In, l)
	}
	if len(s.In) == 0 && len(open) > 0 {
		return without
	}
	if without != nil {
		s.Arrival.Why = "not served: " + without.Error()
	}
	return nil
}

// Served returns the ports at which connections arrive; nil means all.
func (s *Sockets) Served() []uint16 {
	if s.Arrival.Way != helperproto.Listeners {
		return nil
	}
	out := []uint16{}
	for _, l := range s.In {
		out = append(out, portOf(l))
	}
	return out
}

// Destination returns the original destination of a connection of In.
func (s *Sockets) Destination(c *net.TCPConn) (netip.AddrPort, error) {
	if s.Arrival.Way == helperproto.Redirect {
		return original(c)
	}
	return Local(c)
}

// Ports returns the ports of the rules for names. Addresses can be reached only through a proxy.
func Ports(set *netrules.Set) []uint16 {
	var out []uint16
	for _, r := range set.Rules() {
		if !r.Addr.IsValid() {
			out = append(out, r.Ports...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Local returns the destination of a connection that was not redirected.
func Local(c *net.TCPConn) (netip.AddrPort, error) {
	to, ok := c.LocalAddr().(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}, errors.New("no TCP address")
	}
	return netip.AddrPortFrom(to.AddrPort().Addr().Unmap(), to.AddrPort().Port()), nil
}

// original returns the destination of a connection before its redirect.
func original(c *net.TCPConn) (at netip.AddrPort, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return at, err
	}
	var name *unix.IPv6Mreq // of the size of a struct sockaddr_in and more
	if cerr := raw.Control(func(fd uintptr) {
		name, err = unix.GetsockoptIPv6Mreq(int(fd), unix.IPPROTO_IP, unix.SO_ORIGINAL_DST)
	}); cerr != nil {
		return at, cerr
	}
	if err != nil {
		return at, fmt.Errorf("SO_ORIGINAL_DST: %w", err)
	}
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte(name.Multiaddr[4:8])), binary.BigEndian.Uint16(name.Multiaddr[2:])), nil
}

// Probe tries the ways in a network namespace of its own.
func Probe() (helperproto.Arrival, error) {
	netns, err := seal.Make()
	if err != nil {
		return helperproto.Arrival{}, err
	}
	defer netns.Close()
	s := newSockets()
	defer s.Close()
	err = seal.Join(netns, func() error {
		if err := seal.RaiseLoopback(); err != nil {
			return fmt.Errorf("setting lo up: %w", err)
		}
		return s.accept(netns, func() ([]uint16, error) { return []uint16{443}, nil })
	})
	return s.Arrival, err
}
