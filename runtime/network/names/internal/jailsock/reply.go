package jailsock

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"
)

// replies returns a socket for answers of a moved UDP service, or -1 if it has not moved. The
// service's own socket would answer from the wrong port, which clients ignore. So the answer's
// header is written by hand, on a socket that only sends (raw(7), IPPROTO_RAW).
func (s *Sockets) replies() (int, error) {
	if s.queryPort() == 0 {
		return -1, nil
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.IPPROTO_RAW)
	if err != nil {
		return -1, fmt.Errorf("a socket to answer from a port that is taken: %w", err)
	}
	return fd, nil
}

// queryPort returns the port of UDP queries if the UDP service has moved to another one; else 0.
func (s *Sockets) queryPort() uint16 {
	for _, m := range s.moved {
		if m.Protocol == unix.IPPROTO_UDP {
			return m.Port
		}
	}
	return 0
}

// Reply sends the answer to a query over UDP.
func (s *Sockets) Reply(out []byte, to netip.AddrPort) error {
	if s.raw < 0 {
		_, err := s.UDP.WriteToUDPAddrPort(out, to)
		return err
	}
	p, err := packet(netip.AddrPortFrom(localhost, dnsPort), to, out)
	if err != nil {
		return err
	}
	return unix.Sendto(s.raw, p, 0, &unix.SockaddrInet4{Addr: to.Addr().Unmap().As4()})
}

// Sizes of headers, in bytes.
const (
	ipv4Header = 20
	udpHeader  = 8
)

// packet returns a UDP datagram over IPv4 (RFC 768, RFC 791) without checksums: the kernel fills in
// IPv4's, and UDP's is optional.
func packet(from, to netip.AddrPort, data []byte) ([]byte, error) {
	total := ipv4Header + udpHeader + len(data)
	if !from.Addr().Is4() || !to.Addr().Unmap().Is4() || total > 1<<16-1 {
		return nil, net.InvalidAddrError("no IPv4 datagram from " + from.String() + " to " + to.String())
	}
	b := make([]byte, 0, total)
	b = append(b, 4<<4|ipv4Header/4, 0)
	b = binary.BigEndian.AppendUint16(b, uint16(total))
	b = append(b, 0, 0, 0x40, 0, 64, unix.IPPROTO_UDP, 0, 0) // not to be fragmented, and living for 64 hops
	b = append(b, from.Addr().AsSlice()...)
	b = append(b, to.Addr().Unmap().AsSlice()...)
	b = binary.BigEndian.AppendUint16(b, from.Port())
	b = binary.BigEndian.AppendUint16(b, to.Port())
	b = binary.BigEndian.AppendUint16(b, uint16(udpHeader+len(data)))
	return append(append(b, 0, 0), data...), nil
}
