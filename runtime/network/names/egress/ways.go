package egress

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/linux/thread"
	"agentjail.dev/runtime/netseal"
	"agentjail.dev/runtime/network/names/pool"
	"agentjail.dev/runtime/network/names/rules"
	"agentjail.dev/runtime/network/names/work"
)

// ports tells the ports that rules for names have. Only the last way asks.
type ports func() ([]uint16, error)

// A way has the jail's connections to the range of addresses arrive at the helper. take makes its listeners.
type way struct {
	name string
	take func(s *sockets, netns *os.File, named ports) error
}

// ways are tried in this order; the first that can be had is taken.
var ways = []way{
	{work.SkLookup, (*sockets).bySkLookup},
	{work.Redirect, (*sockets).byRedirect},
	{work.Listeners, (*sockets).byListeners},
}

// only names the one way that is tried. It is set in builds of tests (-ldflags -X), and empty in all others.
var only string

// maxListeners bounds the listeners of the last way.
const maxListeners = 128

// take has the jail's connections arrive, by the first way that can be had.
func (s *sockets) take(netns *os.File, named ports) error {
	var missed []string
	for _, w := range ways {
		if only != "" && w.name != only {
			continue
		}
		err := w.take(s, netns, named)
		if err == nil {
			if s.taken.Why != "" {
				missed = append(missed, s.taken.Why)
			}
			s.taken.Way, s.taken.Why = w.name, strings.Join(missed, "; ")
			for _, m := range s.moved {
				s.taken.Moved = append(s.taken.Moved, m.Moved)
			}
			return nil
		}
		s.drop()
		missed = append(missed, w.name+": "+err.Error())
	}
	return fmt.Errorf("the jail's connections cannot be taken: %s (remedy: Linux 5.9 or later with CONFIG_BPF_SYSCALL, as root of the machine; or nf_tables with NAT; or network.mode = \"none\")", strings.Join(missed, "; "))
}

// drop closes the listeners of a way that could not be had.
func (s *sockets) drop() {
	for _, l := range s.in {
		l.Close()
	}
	s.in, s.taken = nil, work.Arrival{}
}

// join calls f on a thread in the network namespace, which ends with it.
func join(netns *os.File, f func() error) error {
	return thread.Own(func() error {
		if err := unix.Setns(int(netns.Fd()), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("joining the jail's network namespace: %w", err)
		}
		return f()
	})
}

// one makes one listener on 127.0.0.1 of the jail, at a port of the kernel's choice.
func (s *sockets) one(netns *os.File) error {
	return join(netns, func() error {
		return elsewhere(func(port uint16) error {
			l, err := listenTCP(netip.AddrPortFrom(localhost, port).String())
			if err == nil {
				s.in = []*net.TCPListener{l}
			}
			return err
		})
	})
}

// bySkLookup takes every connection to the range, whatever its port and whoever listens there.
func (s *sockets) bySkLookup(netns *os.File, _ ports) error {
	if err := s.one(netns); err != nil {
		return err
	}
	reply, err := s.replyFor(netns)
	if err != nil {
		return err
	}
	link, err := divert(netns, s.in[0], s.moved)
	if err != nil {
		return err
	}
	s.link, s.destination, s.reply = link, local, reply
	return nil
}

// byRedirect has nf_tables send every connection to the range to one port.
func (s *sockets) byRedirect(netns *os.File, _ ports) error {
	if err := s.one(netns); err != nil {
		return err
	}
	port := portOf(s.in[0])
	t := netseal.Target{Range: pool.Range, Port: port}
	for _, m := range s.moved {
		t.Services = append(t.Services, netseal.Service{Protocol: m.Protocol, Port: m.Port, At: m.At})
	}
	if err := netseal.Redirect(netns, t); err != nil {
		return err
	}
	s.taken.Port, s.destination = port, original
	return nil
}

// byListeners listens on all of the jail's addresses, at the ports that rules name.
func (s *sockets) byListeners(netns *os.File, named ports) error {
	if len(s.moved) > 0 {
		return fmt.Errorf("port %d of the jail's 127.0.0.1: %w", s.moved[0].Port, unix.EADDRINUSE)
	}
	open, err := named()
	if err != nil {
		return err
	}
	var without []string
	if len(open) > maxListeners {
		without = append(without, fmt.Sprintf("%d ports beyond %d", len(open)-maxListeners, maxListeners))
		open = open[:maxListeners]
	}
	err = join(netns, func() error {
		for _, p := range open {
			l, err := listenTCP("0.0.0.0:" + strconv.Itoa(int(p)))
			if err != nil {
				without = append(without, fmt.Sprintf("port %d: %v", p, err))
				continue
			}
			s.in = append(s.in, l)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if len(s.in) == 0 && len(open) > 0 {
		return errors.New(strings.Join(without, ", "))
	}
	if len(without) > 0 {
		s.taken.Why = "not served: " + strings.Join(without, ", ")
	}
	s.destination = local
	return nil
}

// served are the ports at which connections arrive; nil is all.
func (s *sockets) served() []uint16 {
	if s.taken.Way != work.Listeners {
		return nil
	}
	out := []uint16{}
	for _, l := range s.in {
		out = append(out, portOf(l))
	}
	return out
}

// portsOf are those of the rules for names. Addresses are reached by a proxy alone.
func portsOf(set *rules.Set) []uint16 {
	var out []uint16
	for _, r := range set.Rules() {
		if !r.Addr.IsValid() {
			out = append(out, r.Ports...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// local is the destination of a connection that arrives as it was made.
func local(c *net.TCPConn) (netip.AddrPort, error) {
	to, ok := c.LocalAddr().(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}, errors.New("no TCP address")
	}
	return netip.AddrPortFrom(to.AddrPort().Addr().Unmap(), to.AddrPort().Port()), nil
}

// original is the destination of a connection before it was redirected.
func original(c *net.TCPConn) (at netip.AddrPort, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return at, err
	}
	var name *unix.IPv6Mreq // of the size of a struct sockaddr_in and more
	if cerr := raw.Control(func(fd uintptr) { name, err = unix.GetsockoptIPv6Mreq(int(fd), unix.IPPROTO_IP, unix.SO_ORIGINAL_DST) }); cerr != nil {
		return at, cerr
	}
	if err != nil {
		return at, fmt.Errorf("SO_ORIGINAL_DST: %w", err)
	}
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte(name.Multiaddr[4:8])), binary.BigEndian.Uint16(name.Multiaddr[2:])), nil
}

// probe tries the ways in a network namespace of its own.
func probe() (work.Arrival, error) {
	netns, err := fresh()
	if err != nil {
		return work.Arrival{}, err
	}
	defer netns.Close()
	s := &sockets{}
	err = s.take(netns, func() ([]uint16, error) { return []uint16{443}, nil })
	return s.taken, err
}

// fresh makes a network namespace with lo up, which lasts as long as the file.
func fresh() (netns *os.File, err error) {
	err = thread.Own(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("making a network namespace: %w", err)
		}
		if err := loUp(); err != nil {
			return fmt.Errorf("setting lo up: %w", err)
		}
		netns, err = os.Open("/proc/thread-self/ns/net")
		return err
	})
	return netns, err
}

// loUp sets lo up in the thread's network namespace.
func loUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	ifr, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	ifr.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, ifr)
}
