package seal

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

const probePort = 4242

// step changes a socket before it sends.
type step func(l *lab, fd int) error

func toDevice(l *lab, fd int) error { return unix.BindToDevice(fd, l.plug) }

func option(level, name int, value func(l *lab) int) step {
	return func(l *lab, fd int) error { return unix.SetsockoptInt(fd, level, name, value(l)) }
}

func plugIndex(l *lab) int { return l.plugIndex }
func one(*lab) int         { return 1 }

func bindTo(addr func(l *lab) netip.Addr) step {
	return func(l *lab, fd int) error { return unix.Bind(fd, sockaddr(addr(l), 0, 0)) }
}

// outward are the ways of a program without privileges to send something out of the interface.
var outward = []struct {
	name  string
	kind  int // unix.SOCK_STREAM: a connection attempt
	steps []step
	dst   func(l *lab) netip.Addr
	zone  bool // the destination has the interface as its zone
	flags int
	rules bool // the policy rules alone stop it
}{
	{"tcp4", unix.SOCK_STREAM, nil, hostIP4, false, 0, true},
	{"tcp4 bound to the device", unix.SOCK_STREAM, []step{toDevice}, hostIP4, false, 0, false},
	{"tcp4 to beyond the gateway", unix.SOCK_STREAM, nil, fixed("192.0.2.1"), false, 0, true},
	{"udp4", unix.SOCK_DGRAM, nil, hostIP4, false, 0, true},
	{"udp4 to beyond the gateway", unix.SOCK_DGRAM, nil, fixed("192.0.2.1"), false, 0, true},
	{"udp4 bound to the device", unix.SOCK_DGRAM, []step{toDevice}, hostIP4, false, 0, false},
	{"udp4 with IP_UNICAST_IF", unix.SOCK_DGRAM, []step{unicastIf4}, hostIP4, false, 0, false},
	{"udp4 bound to the address", unix.SOCK_DGRAM, []step{bindTo(jailIP4)}, hostIP4, false, 0, true},
	{"udp4 with MSG_DONTROUTE", unix.SOCK_DGRAM, nil, hostIP4, false, unix.MSG_DONTROUTE, true},
	{"udp4 multicast", unix.SOCK_DGRAM, nil, fixed("239.1.2.3"), false, 0, true},
	{"udp4 multicast with IP_MULTICAST_IF", unix.SOCK_DGRAM, []step{multicastIf4}, fixed("239.1.2.3"), false, 0, false},
	{"udp4 multicast from the address", unix.SOCK_DGRAM, []step{bindTo(jailIP4)}, fixed("239.1.2.3"), false, 0, false},
	{"udp4 broadcast", unix.SOCK_DGRAM, []step{broadcast}, fixed("10.99.0.255"), false, 0, true},
	{"udp4 broadcast from the address", unix.SOCK_DGRAM, []step{broadcast, bindTo(jailIP4)}, fixed("255.255.255.255"), false, 0, false},
	{"udp4 broadcast bound to the device", unix.SOCK_DGRAM, []step{broadcast, toDevice}, fixed("255.255.255.255"), false, 0, false},
	{"tcp6", unix.SOCK_STREAM, nil, hostIP6, false, 0, true},
	{"tcp6 bound to the device", unix.SOCK_STREAM, []step{toDevice}, hostIP6, false, 0, true},
	{"tcp6 link-local", unix.SOCK_STREAM, nil, hostLink, true, 0, true},
	{"udp6", unix.SOCK_DGRAM, nil, hostIP6, false, 0, true},
	{"udp6 to beyond the gateway", unix.SOCK_DGRAM, nil, fixed("2001:db8::1"), false, 0, true},
	{"udp6 bound to the device", unix.SOCK_DGRAM, []step{toDevice}, hostIP6, false, 0, true},
	{"udp6 with IPV6_UNICAST_IF", unix.SOCK_DGRAM, []step{unicastIf6}, hostIP6, false, 0, true},
	{"udp6 link-local", unix.SOCK_DGRAM, nil, hostLink, true, 0, true},
	{"udp6 multicast with IPV6_MULTICAST_IF", unix.SOCK_DGRAM, []step{option(unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_IF, plugIndex)}, fixed("ff02::4242"), false, 0, true},
	{"udp6 multicast in the zone", unix.SOCK_DGRAM, nil, fixed("ff02::4242"), true, 0, true},
}

func hostIP4(l *lab) netip.Addr  { return l.hostIP4 }
func hostIP6(l *lab) netip.Addr  { return l.hostIP6 }
func hostLink(l *lab) netip.Addr { return l.hostLink }
func jailIP4(l *lab) netip.Addr  { return l.jailIP4 }
func jailIP6(l *lab) netip.Addr  { return l.jailIP6 }
func jailLink(l *lab) netip.Addr { return l.jailLink }
func fixed(s string) func(*lab) netip.Addr {
	return func(*lab) netip.Addr { return netip.MustParseAddr(s) }
}

var broadcast = option(unix.SOL_SOCKET, unix.SO_BROADCAST, one)

func unicastIf4(l *lab, fd int) error {
	return unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_UNICAST_IF, int(htonl(uint32(l.plugIndex))))
}

func unicastIf6(l *lab, fd int) error {
	return unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_UNICAST_IF, int(htonl(uint32(l.plugIndex))))
}

func multicastIf4(l *lab, fd int) error {
	return unix.SetsockoptIPMreqn(fd, unix.IPPROTO_IP, unix.IP_MULTICAST_IF, &unix.IPMreqn{Ifindex: int32(l.plugIndex)})
}

func htonl(v uint32) uint32 {
	return v<<24 | v>>24 | v<<8&0xff0000 | v>>8&0xff00
}

// sendOut makes one attempt and returns the socket call's result.
func sendOut(l *lab, i int) (err error) {
	p := outward[i]
	dst := p.dst(l)
	family := unix.AF_INET6
	if dst.Is4() {
		family = unix.AF_INET
	}
	zone := 0
	if p.zone {
		zone = l.plugIndex
	}
	l.jail.do(func() {
		var fd int
		if fd, err = socket(family, p.kind); err != nil {
			return
		}
		defer unix.Close(fd)
		for _, s := range p.steps {
			if err = s(l, fd); err != nil {
				return
			}
		}
		to := sockaddr(dst, probePort, zone)
		if p.kind == unix.SOCK_STREAM {
			if err = unix.Connect(fd, to); errors.Is(err, unix.EINPROGRESS) {
				err = nil
			}
		} else {
			err = unix.Sendto(fd, []byte(payload), p.flags, to)
		}
	})
	return err
}

// seen reports whether the attempt's own packet is among the frames: its payload, or a TCP segment
// to the probe's port.
func seen(frames [][]byte) bool {
	return slices.ContainsFunc(frames, func(f []byte) bool {
		return bytes.Contains(f, []byte(payload)) || bytes.Contains(f, []byte{probePort >> 8, probePort & 0xff})
	})
}

// protections are the states in which every passage is tried.
var protections = []struct {
	name   string
	before func(t testing.TB, l *lab) // before the interface is plugged in
	after  func(t testing.TB, l *lab)
	open   func(byRules bool) bool // whether a passage is expected to be open
	talk   bool                    // the kernel's own packets (multicast reports) may leave, at any time
}{
	{
		name: "no seal", // shows that the attempts are real
		open: func(bool) bool { return true },
	},
	{
		name:   "sealed, then plugged in",
		before: func(t testing.TB, l *lab) { mustSeal(t, l.jail) },
		open:   func(bool) bool { return false },
	},
	{
		name: "plugged in, then sealed", // the interface is set up by force, so that the protections behind are tried
		after: func(t testing.TB, l *lab) {
			r := mustSeal(t, l.jail)
			if len(r.Links) != 1 || !r.Links[0].Up || r.Addresses == 0 || r.Routes == 0 {
				t.Errorf("report %+v", r)
			}
			l.furnish(t, l.ends()[1])
			_, _ = unix.GetsockoptInt(l.jailTap, unix.SOL_SOCKET, unix.SO_ERROR) // the tap remembers that its device was down
		},
		open: func(bool) bool { return false },
	},
	{
		name:   "filter alone",
		before: func(t testing.TB, l *lab) { sealPart(t, l.jail, func(*conn) error { return sealedTable().load() }) },
		open:   func(bool) bool { return false },
	},
	{
		name: "rules alone", // reports what the filter is needed for
		before: func(t testing.TB, l *lab) {
			sealPart(t, l.jail, func(c *conn) error {
				if err := c.sealRules(unix.AF_INET); err != nil {
					return err
				}
				return c.sealRules(unix.AF_INET6)
			})
		},
		open: func(byRules bool) bool { return !byRules },
		talk: true,
	},
}

func eachWall(t *testing.T, f func(t *testing.T, l *lab, open func(byRules bool) bool, talk bool)) {
	for _, w := range protections {
		t.Run(w.name, func(t *testing.T) {
			l := newLab(t)
			if w.before != nil {
				w.before(t, l)
			}
			l.plugIn(t)
			if w.after != nil {
				w.after(t, l)
			}
			f(t, l, w.open, w.talk)
		})
	}
}

// TestNothingLeaves tries every way out with the protections and without. "No packet" means no
// frame of any kind, ARP and ND included.
func TestNothingLeaves(t *testing.T) {
	eachWall(t, func(t *testing.T, l *lab, open func(bool) bool, talk bool) {
		l.atHost(t) // what plugging in alone caused is looked at by TestPluggingInIsSilent
		for i, p := range outward {
			err := sendOut(l, i)
			frames := l.atHost(t)
			switch want := open(p.rules); {
			case want && !seen(frames):
				t.Errorf("%s: did not pass (%v)", p.name, err)
			case !want && (seen(frames) || len(frames) > 0 && !talk):
				t.Errorf("%s: %d frames passed (%v):\n%s", p.name, len(frames), err, describe(frames))
			}
		}
	})
}

func describe(frames [][]byte) string {
	var b bytes.Buffer
	for _, f := range frames {
		fmt.Fprintf(&b, "%x\n", f[:min(len(f), 96)])
	}
	return b.String()
}

// inward are the ways of the host's side to reach a socket in the jail.
var inward = []struct {
	name  string
	kind  int
	steps []step
	dst   func(l *lab) netip.Addr
	rules bool
}{
	{"udp4", unix.SOCK_DGRAM, nil, jailIP4, true},
	{"udp4 broadcast", unix.SOCK_DGRAM, []step{broadcast, fromPort}, fixed("255.255.255.255"), false},
	{"udp4 broadcast of the subnet", unix.SOCK_DGRAM, []step{broadcast}, fixed("10.99.0.255"), true},
	{"udp4 multicast", unix.SOCK_DGRAM, []step{fromPort}, fixed("239.1.2.3"), false},
	{"udp6", unix.SOCK_DGRAM, nil, jailIP6, true},
	{"udp6 link-local", unix.SOCK_DGRAM, []step{fromPort}, jailLink, true},
	{"udp6 multicast", unix.SOCK_DGRAM, []step{fromPort}, fixed("ff02::4242"), true},
	{"tcp4", unix.SOCK_STREAM, nil, jailIP4, true},
	{"tcp6", unix.SOCK_STREAM, nil, jailIP6, true},
}

func fromPort(l *lab, fd int) error { return unix.BindToDevice(fd, l.port) }

// listeners are sockets in the jail that take everything that comes to the probe's port.
func listeners(t *testing.T, l *lab) (udp, tcp int) {
	t.Helper()
	var err error
	l.jail.do(func() {
		for _, s := range []struct {
			fd   *int
			kind int
		}{{&udp, unix.SOCK_DGRAM}, {&tcp, unix.SOCK_STREAM}} {
			if *s.fd, err = socket(unix.AF_INET6, s.kind); err != nil { // dual stack
				return
			}
			if err = unix.Bind(*s.fd, sockaddr(netip.IPv6Unspecified(), probePort, 0)); err != nil {
				return
			}
		}
		if err = unix.Listen(tcp, 8); err != nil {
			return
		}
		group := unix.IPMreqn{Multiaddr: [4]byte{239, 1, 2, 3}, Ifindex: int32(l.plugIndex)}
		if err = unix.SetsockoptIPMreqn(udp, unix.IPPROTO_IP, unix.IP_ADD_MEMBERSHIP, &group); err != nil {
			return
		}
		group6 := unix.IPv6Mreq{Multiaddr: netip.MustParseAddr("ff02::4242").As16(), Interface: uint32(l.plugIndex)}
		err = unix.SetsockoptIPv6Mreq(udp, unix.IPPROTO_IPV6, unix.IPV6_JOIN_GROUP, &group6)
	})
	if err != nil {
		t.Fatalf("listen in the jail: %v", err)
	}
	t.Cleanup(func() { unix.Close(udp); unix.Close(tcp) })
	return udp, tcp
}

// TestNothingComesIn tries every way in, and that the jail answers nothing.
func TestNothingComesIn(t *testing.T) {
	eachWall(t, func(t *testing.T, l *lab, open func(bool) bool, talk bool) {
		udp, tcp := listeners(t, l)
		for _, p := range inward {
			l.atHost(t)
			dst := p.dst(l)
			family := unix.AF_INET6
			if dst.Is4() {
				family = unix.AF_INET
			}
			var sent error
			fd := -1
			l.host.do(func() {
				if fd, sent = socket(family, p.kind); sent != nil {
					return
				}
				for _, s := range p.steps {
					if sent = s(l, fd); sent != nil {
						return
					}
				}
				if p.kind == unix.SOCK_STREAM {
					if sent = unix.Connect(fd, sockaddr(dst, probePort, l.portIndex)); errors.Is(sent, unix.EINPROGRESS) {
						sent = nil
					}
				} else {
					sent = unix.Sendto(fd, []byte(payload), 0, sockaddr(dst, probePort, l.portIndex))
				}
			})
			if sent != nil {
				t.Errorf("%s: send: %v", p.name, sent)
			}
			if !seen(l.atJail(t)) {
				t.Errorf("%s: the packet did not get as far as the jail's interface", p.name)
			}
			received := false
			l.jail.do(func() {
				if p.kind == unix.SOCK_STREAM {
					c, _, err := unix.Accept(tcp)
					if received = err == nil; received {
						unix.Close(c)
					}
				} else {
					_, _, err := unix.Recvfrom(udp, make([]byte, 64), 0)
					received = err == nil
				}
			})
			unix.Close(fd)
			answers := l.atHost(t)
			switch want := open(p.rules); {
			case want && !received:
				t.Errorf("%s: nothing received", p.name)
			case !want && received:
				t.Errorf("%s: received", p.name)
			case !want && (seen(answers) || len(answers) > 0 && !talk):
				t.Errorf("%s: the jail answered:\n%s", p.name, describe(answers))
			}
		}
	})
}
