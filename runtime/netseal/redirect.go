package netseal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// The redirect gives a jail's connections to a range of loopback addresses to one listener, where a program for sk_lookup cannot. It is
// a table of its own, ip agentjail-names, in words of nft(8)
//
//	chain redirect { type nat hook output priority -100; policy accept; ip daddr RANGE meta l4proto tcp redirect to :PORT }
//	chain refuse   { type filter hook input priority 0; policy accept
//	                 ip daddr RANGE meta l4proto tcp reject with tcp reset
//	                 ip daddr RANGE reject with icmp port-unreachable }
//
// A connection that was redirected has another destination when it comes in. What has still one in the range is no TCP, or no
// connection's beginning. Refused on its way out it would be an error of the sender's own (EPERM). The table opens nothing: the seal's
// own is asked as well, and drops what does not stay on lo.

const redirectTable = "agentjail-names"

// redirect is the table for a range, whose length is at most 32 bits, and a port on 127.0.0.1.
func redirect(to netip.Prefix, port uint16) *chainTable {
	mask := binary.BigEndian.AppendUint32(nil, ^uint32(0)<<(32-to.Bits()))
	toRange := nftRule{
		{kind: "payload", offset: 16, length: 4}, // destination address
		{kind: "bitwise", data: mask},
		{kind: "cmp", data: to.Masked().Addr().AsSlice()},
	}
	tcp := append(toRange[:3:3], nftExpr{kind: "meta", key: unix.NFT_META_L4PROTO}, nftExpr{kind: "cmp", data: []byte{unix.IPPROTO_TCP}})
	return &chainTable{unix.NFPROTO_IPV4, redirectTable, []nftChain{
		{"redirect", "nat", nfAccept, unix.NF_INET_LOCAL_OUT, -100, []nftRule{
			append(tcp[:5:5], nftExpr{kind: "immediate", data: binary.BigEndian.AppendUint16(nil, port)}, nftExpr{kind: "redir"}),
		}},
		{"refuse", "filter", nfAccept, unix.NF_INET_LOCAL_IN, 0, []nftRule{
			append(tcp[:5:5], nftExpr{kind: "reject", key: unix.NFT_REJECT_TCP_RST}),
			append(toRange[:3:3], nftExpr{kind: "reject", key: unix.NFT_REJECT_ICMP_UNREACH}),
		}},
	}}
}

// Redirect has TCP connections to a range of loopback addresses go to a port of 127.0.0.1, in the network namespace that netns is an open
// file of, and all else to the range be refused. It replaces an earlier redirect. The listener learns the destination by SO_ORIGINAL_DST.
// It needs what Seal needs, and a kernel with NAT in nf_tables.
func Redirect(netns *os.File, to netip.Prefix, port uint16) error {
	if err := inNamespace(netns, redirect(to, port).load); err != nil {
		return fmt.Errorf("redirect by nf_tables: %w", err)
	}
	return nil
}

// VerifyRedirect says by an error whether the namespace has another redirect than that one; port 0 is for none.
func VerifyRedirect(netns *os.File, to netip.Prefix, port uint16) error {
	err := inNamespace(netns, redirect(to, port).verified)
	if port != 0 {
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
