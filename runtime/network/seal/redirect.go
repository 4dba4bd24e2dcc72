package seal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// The redirect sends a jail's connections to a range of loopback addresses to one listener, if no
// sk_lookup program can be used. It is a table of its own, ip agentjail-names, in words of nft(8)
//
//	chain redirect { type nat hook output priority -100; policy accept
//	                 ip daddr RANGE meta l4proto tcp redirect to :PORT
//	                 ip daddr 127.0.0.1 udp dport 53 redirect to :PORT; … }
//	chain refuse   { type filter hook input priority 0; policy accept
//	                 ip daddr RANGE meta l4proto tcp reject with tcp reset
//	                 ip daddr RANGE reject with icmp port-unreachable }
//
// A connection that was redirected has another destination when it arrives. A packet that still has
// a destination in the range is not TCP, or does not begin a connection. It is refused on arrival,
// since a refusal at the sender would be the sender's own error (EPERM). A service at a port of
// 127.0.0.1 is redirected only if a program of the jail has taken that port. The table opens
// nothing: the seal's own table applies as well, and drops packets that leave lo.

const redirectTable = "agentjail-names"

// A Target describes a redirect.
type Target struct {
	// Range is the range of IPv4 addresses, and Port the port of 127.0.0.1 to which TCP connections
	// to the range go.
	Range netip.Prefix
	Port  uint16
	// Services are ports of 127.0.0.1 that are redirected to other ports there.
	Services []Service
}

// A Service is a port of 127.0.0.1 that is redirected to the port At there.
type Service struct {
	Protocol uint8  `json:"protocol"` // TCP's number, or UDP's
	Port     uint16 `json:"port"`
	At       uint16 `json:"at"`
}

// rule returns the rule for a service.
func (s Service) rule() nftRule {
	port := func(p uint16) []byte { return binary.BigEndian.AppendUint16(nil, p) }
	return nftRule{
		{kind: "payload", offset: 16, length: 4}, // destination address
		{kind: "cmp", data: []byte{127, 0, 0, 1}},
		{kind: "meta", key: unix.NFT_META_L4PROTO},
		{kind: "cmp", data: []byte{s.Protocol}},
		{kind: "payload", key: unix.NFT_PAYLOAD_TRANSPORT_HEADER, offset: 2, length: 2}, // destination port
		{kind: "cmp", data: port(s.Port)},
		{kind: "immediate", data: port(s.At)},
		{kind: "redir"},
	}
}

// redirect returns the table for a target.
func redirect(target Target) *chainTable {
	to, port := target.Range, target.Port
	mask := binary.BigEndian.AppendUint32(nil, ^uint32(0)<<(32-to.Bits()))
	toRange := nftRule{
		{kind: "payload", offset: 16, length: 4}, // destination address
		{kind: "bitwise", data: mask},
		{kind: "cmp", data: to.Masked().Addr().AsSlice()},
	}
	tcp := append(toRange[:3:3], nftExpr{kind: "meta", key: unix.NFT_META_L4PROTO},
		nftExpr{kind: "cmp", data: []byte{unix.IPPROTO_TCP}})
	redirects := []nftRule{append(tcp[:5:5], nftExpr{kind: "immediate", data: binary.BigEndian.AppendUint16(nil, port)},
		nftExpr{kind: "redir"})}
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

// Redirect loads a redirect into the network namespace that netns is an open file of. TCP
// connections to the range go to a port of 127.0.0.1, all other traffic to the range is refused,
// and services go to other ports. It replaces an earlier redirect. The listener reads the
// destination by SO_ORIGINAL_DST. Redirect needs the privileges of Seal, and a kernel with NAT in
// nf_tables.
func Redirect(netns *os.File, t Target) error {
	if err := inNamespace(netns, redirect(t).load); err != nil {
		return fmt.Errorf("redirect by nf_tables: %w", err)
	}
	return nil
}

// VerifyRedirect returns an error if the namespace has another redirect than t; port 0 means no
// redirect.
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
	return fmt.Errorf("there is a redirect that was not made for this jail: %w", err)
}
