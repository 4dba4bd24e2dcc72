package seal

import (
	"fmt"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/spec/network"
)

// The ceiling on connections that no process has accepted. The kernel makes the listener's end of a
// connection in a soft interrupt. It charges that end and its queued data to a control group only
// when accept(2) returns it (net/ipv4/inet_connection_sock.c, __inet_accept). The client's end can
// be closed meanwhile, so that no process holds a descriptor. A backlog bounds one listener; no
// kernel limit bounds all of them together.
//
// So each connection over lo is an element of a set of limited size, from the listener's answer
// (SYN and ACK) until its own end sends something and has a descriptor: nftables knows the owner of
// a socket with a descriptor only (skuid). Of a full set the answer is dropped, and both ends send
// again later. In words of nft(8), for IPv4 and then the same for IPv6:
//
//	set done    { typeof ip saddr . ip daddr . tcp sport . tcp dport; size N; timeout 40ms }
//	set lost    { typeof tcp sequence; size N/8; timeout 1d }
//	set waiting { typeof ip saddr . ip daddr . tcp sport . tcp dport; size N; timeout 1d }
//	chain out   { type filter hook output priority -440; policy accept
//	              oif != 1 accept; meta l4proto != tcp accept
//	              tcp flags & syn == 0 meta skuid BACK @waiting BACK != @done
//	                  update @waiting { BACK timeout 20ms } add @done { BACK } accept
//	              tcp flags & syn == 0 accept
//	              tcp flags & (syn|ack) == syn|ack update @waiting { BACK } accept
//	              tcp flags & (syn|ack) == syn|ack drop
//	              FORTH @waiting FORTH != @done add @lost { tcp sequence } accept
//	              FORTH @waiting FORTH != @done drop
//	              FORTH @done delete @done { FORTH } }
//
// BACK are the addresses and ports of a listener's packet, FORTH those of a client's. The last
// three rules are there for BACK, too.
//
// Connection tracking cannot replace the set: an end that its client has reset is closed there and
// not counted (ct count), but still waits to be accepted, with all the data that it has received.
// Such an end never sends again. Its addresses can be used anew, so a first packet (SYN) between
// addresses that wait, in either direction, counts as one more (lost). The day after which an
// element goes is for those that were reset or whose listener has ended: they are few, and nothing
// else would ever remove them.
//
// The element of an accepted connection times out, and counts until the next sweep of the set: a
// namespace can make N connections with itself in a sweep and a time-out, 34,000 a second with
// 4096. It is not removed at once since kernels before August 2023 count an element that a rule
// removed for ever ("mark set element as dead when deleting from packet path",
// net/netfilter/nft_set_hash.c). Meanwhile the connection is done, so that a further packet does
// not prolong it, and the same addresses can be used at once.

const waitingTable = "agentjail-waiting"

// Ceilings on the connections of a namespace that wait to be accepted.
const (
	// waitingSealed is that of a sealed namespace, whose sockets begin with 16 KiB of buffer
	// (buffers): 64 MiB, as limits.sockets. It is the kernel's default for one listener
	// (net.core.somaxconn).
	waitingSealed = 4096
	// waitingOpen is that of an engine's namespace, whose sockets begin with 128 KiB.
	waitingOpen = 1024

	// lostShare of a ceiling may wait in addition, at addresses that were used anew.
	lostShare = 8

	forgotten = 24 * time.Hour
	accepted  = 20 * time.Millisecond  // whole ticks of every kernel's clock
	done      = 2 * accepted           // not before the other
	sweep     = 100 * time.Millisecond // of 300 idle namespaces the sweeps take 3 % of a processor
)

const opDelete = 2 // NFT_DYNSET_OP_DELETE, since Linux 5.4

const tcpSYN, tcpACK = 0x02, 0x10 // of byte 13 of the header (RFC 9293)

// waiting is the table for a ceiling.
func waiting(most uint32) *chainTable {
	meta := func(key, op uint32, data []byte) nftRule {
		return nftRule{{kind: "meta", key: key}, {kind: "cmp", key: op, data: data}}
	}
	tcp := uint32(unix.NFT_PAYLOAD_TRANSPORT_HEADER)
	flags := func(mask, value byte) nftRule {
		return nftRule{
			{kind: "payload", key: tcp, offset: 13, length: 1},
			{kind: "bitwise", data: []byte{mask}},
			{kind: "cmp", data: []byte{value}},
		}
	}
	verdict := func(v uint32) nftRule { return nftRule{{kind: "immediate", verdict: v}} }
	dynset := func(op uint32, set string) nftRule { return nftRule{{kind: "dynset", key: op, set: set}} }
	both := []nftRule{
		slices.Concat(meta(unix.NFT_META_OIF, unix.NFT_CMP_NEQ, loIndex), verdict(nfAccept)),
		slices.Concat(meta(unix.NFT_META_L4PROTO, unix.NFT_CMP_NEQ, []byte{unix.IPPROTO_TCP}), verdict(nfAccept)),
	}
	in := func(set string, not uint32) nftRule { return nftRule{{kind: "lookup", set: set, key: not}} }
	accept, drop := verdict(nfAccept), verdict(nfDrop)
	var sent, answered, begun, again []nftRule
	for _, f := range []addressFamily{{unix.NFPROTO_IPV4, 12, 16}, {unix.NFPROTO_IPV6, 20, 36}} {
		is := meta(unix.NFT_META_NFPROTO, unix.NFT_CMP_EQ, []byte{f.number})
		timed := nftRule{{kind: "dynset", key: unix.NFT_DYNSET_OP_UPDATE, set: "waiting", timeout: accepted}}
		sent = append(sent, slices.Concat(is, flags(tcpSYN, 0), nftRule{{kind: "meta", key: unix.NFT_META_SKUID}}, f.back(),
			in("waiting", 0), in("done", 1),
			timed, dynset(unix.NFT_DYNSET_OP_ADD, "done"), accept))
		answered = append(answered, slices.Concat(is, flags(tcpSYN|tcpACK, tcpSYN|tcpACK), f.back(),
			dynset(unix.NFT_DYNSET_OP_UPDATE, "waiting"), accept))
		for _, addresses := range []nftRule{f.forth(), f.back()} {
			known := slices.Concat(is, addresses, in("waiting", 0), in("done", 1))
			sequence := nftRule{{kind: "payload", key: tcp, offset: 4, length: 4}}
			begun = append(begun, slices.Concat(known, sequence, dynset(unix.NFT_DYNSET_OP_ADD, "lost"), accept),
				slices.Concat(known, drop))
			again = append(again, slices.Concat(is, addresses, in("done", 0), dynset(opDelete, "done")))
		}
	}
	sent = append(sent, slices.Concat(flags(tcpSYN, 0), accept))
	answered = append(answered, slices.Concat(flags(tcpSYN|tcpACK, tcpSYN|tcpACK), drop))
	return &chainTable{
		family: unix.NFPROTO_INET, name: waitingTable,
		sets: []nftSet{
			{"done", 16, most, done, sweep},
			{"lost", 4, most / lostShare, forgotten, time.Minute},
			{"waiting", 16, most, forgotten, sweep},
		},
		chains: []nftChain{{
			"out", "filter", nfAccept, unix.NF_INET_LOCAL_OUT, -440,
			slices.Concat(both, sent, answered, begun, again),
		}},
	}
}

// An addressFamily has the offsets of four bytes of the source's and the destination's address: for
// IPv6 the last four, which distinguish the addresses of one host.
type addressFamily struct {
	number              byte // unix.NFPROTO_*
	source, destination uint32
}

// forth loads the addresses and ports of a client's packet in the form of an element.
func (f addressFamily) forth() nftRule { return addresses(f.source, f.destination, 0, 2) }

// back loads those of a listener's packet.
func (f addressFamily) back() nftRule { return addresses(f.destination, f.source, 2, 0) }

func addresses(client, server, clientPort, serverPort uint32) nftRule {
	tcp := uint32(unix.NFT_PAYLOAD_TRANSPORT_HEADER)
	return nftRule{
		{kind: "payload", offset: client, length: 4},
		{kind: "payload", offset: server, length: 4, reg: unix.NFT_REG32_01},
		{kind: "payload", key: tcp, offset: clientPort, length: 2, reg: unix.NFT_REG32_02},
		{kind: "payload", key: tcp, offset: serverPort, length: 2, reg: unix.NFT_REG32_03},
	}
}

// boundWaiting puts a ceiling on the thread's network namespace.
func boundWaiting(most uint32) error {
	if err := waiting(most).load(); err != nil {
		return fmt.Errorf("%w; a backlog (net.core.somaxconn) bounds the connections that wait at one listener, and nothing those at all", err)
	}
	return nil
}

// BoundWaiting puts the ceiling waitingOpen on the waiting connections of a network namespace that
// stays open. Only connections of the namespace to itself count. It needs the privileges of Seal.
func BoundWaiting(netns *os.File) error {
	if err := inNamespace(netns, func() error { return boundWaiting(waitingOpen) }); err != nil {
		return fmt.Errorf("the ceiling on connections that wait: %w", err)
	}
	return nil
}

// VerifyWaiting reads that ceiling back.
func VerifyWaiting(netns *os.File) network.Finding {
	return finding(SealWaiting, "", inNamespace(netns, waiting(waitingOpen).verified))
}
