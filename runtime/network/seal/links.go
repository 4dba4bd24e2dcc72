package seal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

const (
	// loopback is the index of lo: the kernel makes it the first device of every network namespace
	// (LOOPBACK_IFINDEX, net/flow.h).
	loopback = 1
	// Bounds on what a namespace may hold. An engine adds a handful of links. Thousands of links
	// are an attack that lets the start hang.
	maxLinks     = 1024
	maxAddresses = 8192
	maxRoutes    = 16384
)

// A Link is a network interface other than lo.
type Link struct {
	Index int    `json:"index"`
	Name  string `json:"name"`
	Up    bool   `json:"up"` // administratively up (IFF_UP)
}

// loAddresses are the only addresses that a sealed lo carries: its own and familyAddresses.
var loAddresses = append([]netip.Prefix{
	netip.PrefixFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), 8),
	netip.PrefixFrom(netip.IPv6Loopback(), 128),
}, familyAddresses...)

// familyAddresses show the C library that a network by name has both families. With AI_ADDRCONFIG,
// glibc counts every address but 127.0.0.1 and ::1, and knows no name in a family without one
// (getaddrinfo(3); sysdeps/unix/sysv/linux/check_pf.c). Neither address opens anything: the first
// is lo's without being listed, as all of 127.0.0.0/8, and to the second, of the block for what is
// discarded (RFC 6666), no rule routes.
var familyAddresses = []netip.Prefix{
	netip.PrefixFrom(netip.AddrFrom4([4]byte{127, 0, 0, 2}), 8),
	netip.PrefixFrom(netip.AddrFrom16([16]byte{0: 1, 15: 1}), 128),
}

// showFamilies adds familyAddresses. Without IPv6 on lo, programs see that there is none.
func (c *conn) showFamilies() error {
	var requests []message
	for _, p := range familyAddresses {
		m := message{typ: unix.RTM_NEWADDR, flags: unix.NLM_F_CREATE | unix.NLM_F_REPLACE, body: make([]byte, unix.SizeofIfAddrmsg)}
		m.body[0], m.body[1], m.body[2], m.body[3] = unix.AF_INET, uint8(p.Bits()), unix.IFA_F_NODAD, unix.RT_SCOPE_HOST
		if p.Addr().Is6() {
			m.body[0] = unix.AF_INET6
		}
		putU32(m.body[4:], loopback)
		m.attr(unix.IFA_LOCAL, p.Addr().AsSlice())
		m.attr(unix.IFA_ADDRESS, p.Addr().AsSlice())
		requests = append(requests, m)
	}
	errs, err := c.do(requests...)
	if err == nil && len(errs) > 0 && !errors.Is(errs[0], unix.EEXIST) {
		err = errs[0]
	}
	if err != nil {
		return fmt.Errorf("add %s to lo: %w", familyAddresses[0].Addr(), err)
	}
	return nil
}

// links reads the namespace's interfaces. lo is returned apart.
func (c *conn) links() (lo Link, others []Link, err error) {
	m := message{typ: unix.RTM_GETLINK, body: make([]byte, unix.SizeofIfInfomsg)}
	const skipStatistics = 1 << 3 // RTEXT_FILTER_SKIP_STATS
	m.attrU32(unix.IFLA_EXT_MASK, skipStatistics)
	err = c.dump(m, maxLinks, func() { lo, others = Link{}, nil }, func(body []byte) error {
		if len(body) < unix.SizeofIfInfomsg {
			return errors.New("malformed link")
		}
		l := Link{
			Index: int(int32(nativeU32(body[4:]))), Up: nativeU32(body[8:])&unix.IFF_UP != 0,
			Name: unix.ByteSliceToString(attributes(body[unix.SizeofIfInfomsg:]).get(unix.IFLA_IFNAME)),
		}
		if l.Index == loopback {
			lo = l
		} else {
			others = append(others, l)
		}
		return nil
	})
	if err != nil {
		return lo, others, fmt.Errorf("read links: %w", err)
	}
	return lo, others, nil
}

// Links lists the interfaces of a network namespace, other than lo.
func Links(netns *os.File) (links []Link, err error) {
	err = inNamespace(netns, func() error {
		c, err := dial(unix.NETLINK_ROUTE)
		if err != nil {
			return fmt.Errorf("open rtnetlink socket: %w", err)
		}
		defer c.close()
		_, links, err = c.links()
		return err
	})
	return links, err
}

// linkState is the request that sets a link administratively up or down.
func linkState(index int, up bool) message {
	m := message{typ: unix.RTM_NEWLINK, body: make([]byte, unix.SizeofIfInfomsg)}
	putU32(m.body[4:], uint32(index))
	if up {
		putU32(m.body[8:], unix.IFF_UP)
	}
	putU32(m.body[12:], unix.IFF_UP) // the only flag that is to change
	return m
}

// address is one address of one link, with the message that describes it.
type address struct {
	link   int
	prefix netip.Prefix
	body   []byte
}

// foreign reports whether the address must not be in a sealed namespace.
func (a address) foreign() bool {
	return a.link != loopback || !slices.Contains(loAddresses, a.prefix)
}

// addresses reads all IPv4 and IPv6 addresses.
func (c *conn) addresses() ([]address, error) {
	var out []address
	m := message{typ: unix.RTM_GETADDR, body: make([]byte, unix.SizeofIfAddrmsg)}
	err := c.dump(m, maxAddresses, func() { out = nil }, func(body []byte) error {
		if len(body) < unix.SizeofIfAddrmsg {
			return errors.New("malformed address")
		}
		attrs := attributes(body[unix.SizeofIfAddrmsg:])
		raw := attrs.get(unix.IFA_LOCAL)
		if raw == nil {
			raw = attrs.get(unix.IFA_ADDRESS)
		}
		a := address{link: int(nativeU32(body[4:])), body: bytes.Clone(body)}
		if ip, ok := netip.AddrFromSlice(raw); ok {
			a.prefix = netip.PrefixFrom(ip, int(body[1]))
		}
		out = append(out, a)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read addresses: %w", err)
	}
	return out, nil
}

// route is one entry of any routing table, with the message that describes it.
type route struct {
	table uint32
	kind  uint8 // unix.RTN_*
	dst   netip.Prefix
	oif   int
	body  []byte
}

// foreign reports whether the route must not be in a sealed namespace: every route that does not
// lead to lo, except the resolver's unreachable route.
func (r route) foreign() bool {
	return r.oif != loopback && !r.isResolverGrave()
}

// routes reads every routing table of one family.
func (c *conn) routes(family uint8) ([]route, error) {
	var out []route
	m := message{typ: unix.RTM_GETROUTE, body: make([]byte, unix.SizeofRtMsg)}
	m.body[0] = family
	err := c.dump(m, maxRoutes, func() { out = nil }, func(body []byte) error {
		if len(body) < unix.SizeofRtMsg {
			return errors.New("malformed route")
		}
		if body[0] != family { // multicast forwarding tables answer too
			return nil
		}
		attrs := attributes(body[unix.SizeofRtMsg:])
		r := route{table: uint32(body[4]), kind: body[7], oif: int(nativeU32(attrs.get(unix.RTA_OIF))), body: bytes.Clone(body)}
		if t := attrs.get(unix.RTA_TABLE); t != nil {
			r.table = nativeU32(t)
		}
		if ip, ok := netip.AddrFromSlice(attrs.get(unix.RTA_DST)); ok {
			r.dst = netip.PrefixFrom(ip, int(body[1]))
		}
		out = append(out, r)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read routes: %w", err)
	}
	return out, nil
}

// gone reports whether an error means that the object to remove is gone already: setting a link
// down or removing a primary address also removes other addresses and routes.
func gone(err error) bool {
	return errors.Is(err, unix.ESRCH) || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EADDRNOTAVAIL) ||
		errors.Is(err, unix.ENODEV)
}

// raise sets lo up; the kernel then adds its addresses.
func (c *conn) raise(lo Link) error {
	if lo.Index != loopback {
		return errors.New("the namespace has no loopback interface")
	}
	if lo.Up {
		return nil
	}
	return c.all([]message{linkState(loopback, true)}, []string{"set lo up"})
}

// RaiseLoopback sets lo up in the thread's network namespace.
func RaiseLoopback() error {
	c, err := dial(unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("open rtnetlink socket: %w", err)
	}
	defer c.close()
	return c.raise(Link{Index: loopback})
}

// takeDown sets every link down and removes all addresses and routes but lo's own. The links
// themselves stay, since engines look them up for statistics and for their own clean-up.
func (c *conn) takeDown(r *Report, ipv6 bool) error {
	var requests []message
	var what []string
	add := func(m message, format string, args ...any) {
		requests = append(requests, m)
		what = append(what, fmt.Sprintf(format, args...))
	}
	for _, l := range r.Links {
		if l.Up {
			add(linkState(l.Index, false), "set %s down", l.Name)
		}
	}
	if err := c.all(requests, what); err != nil {
		return err
	}
	requests, what = nil, nil

	// Read after the links went down, which took many of these along.
	addrs, err := c.addresses()
	if err != nil {
		return err
	}
	for _, a := range addrs {
		if a.foreign() {
			r.Addresses++
			add(message{typ: unix.RTM_DELADDR, body: a.body}, "remove address %s", a.prefix)
		}
	}
	families := []uint8{unix.AF_INET}
	if ipv6 {
		families = append(families, unix.AF_INET6)
	}
	for _, family := range families {
		routes, err := c.routes(family)
		if err != nil {
			return err
		}
		for _, rt := range routes {
			if rt.foreign() {
				r.Routes++
				add(message{typ: unix.RTM_DELROUTE, body: rt.body}, "remove route to %s in table %d", rt.dst, rt.table)
			}
		}
	}
	return c.all(requests, what)
}

// all performs the requests. It returns the first failure with its description, except for objects
// that are gone already.
func (c *conn) all(requests []message, what []string) error {
	errs, err := c.do(requests...)
	if err != nil {
		return err
	}
	for i, err := range errs {
		if err != nil && !gone(err) {
			return fmt.Errorf("%s: %w", what[i], err)
		}
	}
	return nil
}

func putU32(b []byte, v uint32) { binary.NativeEndian.PutUint32(b, v) }
