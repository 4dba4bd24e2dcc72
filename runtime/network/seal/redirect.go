package seal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// The redirect gives a jail's connections to a range of loopback addresses to one listener, where a
// program for sk_lookup cannot. It is a table of its own, ip agentjail-names, in words of nft(8)
//
//	chain redirect { type nat hook output priority -100; policy accept; ip daddr RANGE meta l4proto tcp redirect to :PORT
//	                 ip daddr 127.0.0.1 udp dport 53 redirect to :PORT; … }
//	chain refuse   { type filter hook input priority 0; policy accept
//	                 ip daddr RANGE meta l4proto tcp reject with tcp reset
//	                 ip daddr RANGE reject with icmp port-unreachable }
//
// A connection that was redirected has another destination when it comes in. What has still one in
// the range is no TCP, or no connection's beginning. A service at a port of 127.0.0.1 is redirected
// only where a program of the jail has taken that port. Refused on its way out it would be an error
// of the sender's own (EPERM). The table opens nothing: the seal's own is asked as well, and drops
// what does not stay on lo.

const redirectTable = "agentjail-names"

// A Target is what a redirect does.
type Target struct {
	// Range is that of addresses, whose length is at most 32 bits, and Port where TCP connections
	// to it go on 127.0.0.1.
	Range netip.Prefix
	Port  uint16
	// Services are ports of 127.0.0.1 that go to others there.
	Services []Service
}

// A Service is a port of 127.0.0.1 that goes to another one there.
type Service struct {
	Protocol uint8 // TCP's number, or UDP's
	Port, At uint16
}

// rule is the redirect of a service.
func (s Service) rule() nftRule {
	port := func(p uint16) []byte { return binary.BigEndian.AppendUint16(nil, p) }
	return nftRule{
		{kind: "payload", offset: 16, length: 4}, // destination address
		{kind: "cmp", data: []byte{127, 0, 0, 1}},
		{kind: "meta", key: unix.NFT_META_L4PROTO},
		{kind: "cmp", data: []byte{s.Protocol}},
		{kind: "payload", key: unix.NFT_PAYLOAD_TRANSPORT_HEADER, offset: 2, length: 2}, // destination port
		{kind: "cmp", data: port(s.Port)},
		{kind: "immediate", data: port(s.At)}, {kind: "redir"},
	}
}

// redirect is the table for a target.
func redirect(target Target) *chainTable {
	to, port := target.Range, target.Port
	mask := binary.BigEndian.AppendUint32(nil, ^uint32(0)<<(32-to.Bits()))
	toRange := nftRule{
		{kind: "payload", offset: 16, length: 4}, // destination address
		{kind: "bitwise", data: mask},
		{kind: "cmp", data: to.Masked().Addr().AsSlice()},
	}
	tcp := append(toRange[:3:3], nftExpr{kind: "meta", key: unix.NFT_META_L4PROTO}, nftExpr{kind: "cmp", data: []byte{unix.IPPROTO_TCP}})
	redirects := []nftRule{append(tcp[:5:5], nftExpr{kind: "immediate", data: binary.BigEndian.AppendUint16(nil, port)}, nftExpr{kind: "redir"})}
	for _, s := range target.Services {
		redirects = append(redirects, s.rule())
	}
	return &chainTable{family: unix.NFPROTO_IPV4, name: redirectTable, chains: []nftChain{
		{"redirect", "nat", nfAccept, unix.NF_INET_LOCAL_OUT, -100, redirects},
		{"refuse", "filter", nfAccept, unix.NF_INET_LOCAL_IN, 0, []nftRule{
			append(tcp[:5:5], nftExpr{kind: "reject", key: unix.NFT_REJECT_TCP_RST}),
			append(toRange[:3:3], nftExpr{kind: "reject", key: unix.NFT_REJECT_ICMP_UNREACH}),
		}},
	}}
}

// Redirect has TCP connections to a range of loopback addresses go to a port of 127.0.0.1, in the
// network namespace that netns is an open file of, and all else to the range be refused; and
// services go to other ports. It replaces an earlier redirect. The listener learns the destination
// by SO_ORIGINAL_DST. It needs what Seal needs, and a kernel with NAT in nf_tables.
func Redirect(netns *os.File, t Target) error {
	if err := inNamespace(netns, redirect(t).load); err != nil {
		return fmt.Errorf("redirect by nf_tables: %w", err)
	}
	return nil
}

// VerifyRedirect says by an error whether the namespace has another redirect than that one; port 0
// is for none.
func VerifyRedirect(netns *os.File, t Target) error {
	err := inNamespace(netns, redirect(t).verified)
	if t.Port != 0 {
		return err
	}
	switch {
	case errors.Is(err, errNoTable), errors.Is(err, errNoFilter):
		return nil
	case err == nil:
		err = errors.New("to port 0")
	}
	return fmt.Errorf("there is a redirect that nobody made for this jail: %w", err)
}
