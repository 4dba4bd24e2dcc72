package seal

import (
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

// resolver is the address of Docker's embedded DNS server (libnetwork) inside the namespace on
// user-defined networks. It forwards names to the outside: a way out over lo.
var resolver = netip.PrefixFrom(netip.AddrFrom4([4]byte{127, 0, 0, 11}), 32)

// isResolverGrave recognises the route that sealResolver adds.
func (r route) isResolverGrave() bool {
	return r.table == unix.RT_TABLE_LOCAL && r.kind == unix.RTN_UNREACHABLE && r.dst == resolver
}

// sealResolver makes the resolver's address unreachable in the table that decides what is local:
// nothing can connect to it, send to it, or even bind it.
func (c *conn) sealResolver() error {
	m := message{typ: unix.RTM_NEWROUTE, flags: unix.NLM_F_CREATE | unix.NLM_F_REPLACE, body: make([]byte, unix.SizeofRtMsg)}
	m.body[0] = unix.AF_INET
	m.body[1] = uint8(resolver.Bits())
	m.body[4] = unix.RT_TABLE_LOCAL
	m.body[5] = unix.RTPROT_STATIC
	m.body[6] = unix.RT_SCOPE_HOST
	m.body[7] = unix.RTN_UNREACHABLE
	m.attr(unix.RTA_DST, resolver.Addr().AsSlice())
	errs, err := c.do(m)
	if err := errors.Join(append(errs, err)...); err != nil {
		return fmt.Errorf("make %s unreachable: %w", resolver.Addr(), err)
	}
	return nil
}
