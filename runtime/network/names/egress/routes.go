package egress

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"sync"

	"golang.org/x/sys/unix"
)

// routes queries the kernel for the route to an address, in the network namespace in which it was
// opened. The kernel knows all addresses of a host, also an interface's second one, which is never
// chosen as a source address.
type routes struct {
	mu  sync.Mutex
	fd  int
	seq uint32
}

// openRoutes makes the socket before the helper's filter forbids it. Queries need no privilege.
func openRoutes() (*routes, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("querying routes: %w", err)
	}
	// The kernel answers before sendto(2) returns. A lost answer must not block all connections.
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 1}); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("querying routes: %w", err)
	}
	return &routes{fd: fd}, nil
}

// Offsets and sizes of rtnetlink(7) messages.
const (
	routeHeader = unix.SizeofNlMsghdr
	routeType   = routeHeader + 7 // rtm_type in struct rtmsg
)

// question returns a message of type RTM_GETROUTE for one address.
func question(a netip.Addr, seq uint32) []byte {
	family, ip := byte(unix.AF_INET6), a.AsSlice()
	if a.Is4() {
		family = unix.AF_INET
	}
	n := routeHeader + unix.SizeofRtMsg + unix.SizeofRtAttr + len(ip)
	b := binary.NativeEndian.AppendUint32(make([]byte, 0, n), uint32(n))
	b = binary.NativeEndian.AppendUint16(b, unix.RTM_GETROUTE)
	b = binary.NativeEndian.AppendUint16(b, unix.NLM_F_REQUEST)
	b = binary.NativeEndian.AppendUint32(b, seq)
	b = append(b, 0, 0, 0, 0) // the port: the kernel fills in ours
	b = append(b, family, byte(8*len(ip)), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
	b = binary.NativeEndian.AppendUint16(b, uint16(unix.SizeofRtAttr+len(ip)))
	b = binary.NativeEndian.AppendUint16(b, unix.RTA_DST)
	return append(b, ip...)
}

// kind returns the type of the route to an address, such as RTN_UNICAST or RTN_LOCAL. No route is
// an error.
func (r *routes) kind(a netip.Addr) (byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seq++
	if err := unix.Sendto(r.fd, question(a.Unmap(), r.seq), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return 0, fmt.Errorf("querying the route to %s: %w", a, err)
	}
	buf := make([]byte, 4096)
	for {
		n, from, err := unix.Recvfrom(r.fd, buf, 0)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("querying the route to %s: %w", a, err)
		}
		// Other processes may send to the socket too, and a late answer belongs to an earlier
		// query.
		if k, ok := from.(*unix.SockaddrNetlink); !ok || k.Pid != 0 || n < routeHeader || binary.NativeEndian.Uint32(buf[8:]) != r.seq {
			continue
		}
		return answered(a, buf[:n])
	}
}

// answered decodes the kernel's answer.
func answered(a netip.Addr, b []byte) (byte, error) {
	typ := binary.NativeEndian.Uint16(b[4:])
	switch {
	case typ == unix.RTM_NEWROUTE && len(b) > routeType:
		return b[routeType], nil
	case typ == unix.NLMSG_ERROR && len(b) >= routeHeader+4:
		return 0, fmt.Errorf("no route to %s: %w", a, unix.Errno(-int32(binary.NativeEndian.Uint32(b[routeHeader:]))))
	}
	return 0, fmt.Errorf("no route to %s that could be read", a)
}
