package seal

import (
	"fmt"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/spec/network"
)

// The ceilings on a namespace's TCP connections with itself. The kernel bounds neither by a
// control group:
//
//   - Connections that no process has accepted. The kernel makes the listener's end of a
//     connection in a soft interrupt. It charges that end and its queued data to a control group
//     only when accept(2) returns it (net/ipv4/inet_connection_sock.c, __inet_accept). The
//     client's end can be closed meanwhile, so that no process holds a descriptor. A backlog
//     bounds one listener; no kernel limit bounds all of them together.
//   - Orphans: ends that are closed and still have data that the other end does not take. The
//     kernel counts them for all namespaces together. Above tcp_max_orphans it resets each
//     connection of the host that is closed before its last data is acknowledged
//     (net/ipv4/tcp.c, tcp_check_oom). An orphan's other end is open or waits, so a ceiling on
//     all connections bounds them.
//
// So each connection over lo is an element of two sets of limited size: waiting, from the
// listener's answer (SYN and ACK) until its own end sends something and has a descriptor
// (nftables knows the owner of a socket with a descriptor only, skuid); and open, from then
// until one end was reset or both have sent their last packet (FIN). If a set is full, the
// answer is dropped, and both ends send again later. In words of nft(8), for IPv4 and then the
// same for IPv6:
//
//	set done    { typeof ip saddr . ip daddr . tcp sport . tcp dport; size N; timeout 40ms }
//	set half    { typeof ip saddr . ip daddr . tcp sport . tcp dport; size 2M; timeout 3650d }
//	set lost    { typeof tcp sequence; size N/8; timeout 1d }
//	set open    { typeof ip saddr . ip daddr . tcp sport . tcp dport; size M; timeout 3650d }
//	set waiting { typeof ip saddr . ip daddr . tcp sport . tcp dport; size N; timeout 1d }
//	chain out   { type filter hook output priority 10; policy accept
//	              oif != 1 accept; meta l4proto != tcp accept
//	              tcp flags & syn == 0 meta skuid BACK @waiting BACK != @done
//	                  update @waiting { BACK timeout 20ms } add @done { BACK }
//	              tcp flags & (fin|syn|rst) == 0 meta skuid accept
//	              tcp flags & (fin|syn|rst) == 0 EITHER @open accept
//	              tcp flags & (fin|syn|rst) == 0 reject with tcp reset
//	              tcp flags & rst == rst EITHER @open update @open { EITHER timeout 20ms }
//	              tcp flags & rst == rst EITHER @half update @half { EITHER timeout 20ms }
//	              tcp flags & rst == rst accept
//	              tcp flags & fin == fin EITHER @open add @half { FORTH }
//	              tcp flags & fin == fin BACK @half EITHER @open update @open { EITHER timeout 20ms }
//	              tcp flags & fin == fin BACK @half update @half { BACK timeout 20ms } update @half { FORTH timeout 20ms } accept
//	              tcp flags & fin == fin FORTH @half accept
//	              tcp flags & fin == fin meta skuid accept
//	              tcp flags & fin == fin reject with tcp reset
//	              tcp flags & (syn|ack) == syn|ack update @open { BACK timeout 5s }
//	                  update @waiting { BACK } update @open { BACK } accept
//	              tcp flags & (syn|ack) == syn|ack drop
//	              EITHER @half update @half { EITHER timeout 20ms } drop
//	              FORTH @waiting FORTH != @done add @lost { tcp sequence } accept
//	              FORTH @waiting FORTH != @done drop
//	              FORTH @done delete @done { FORTH } }
//
// BACK are the addresses and ports of a listener's packet, FORTH those of a client's; EITHER
// stands for one rule with each. The last three rules are there for BACK, too. The chain comes
// after the redirect (priority -100), so that both directions of a redirected connection have
// one address.
//
// Connection tracking cannot replace the sets: an end that its client has reset is closed there
// and not counted (ct count), but still waits to be accepted, with all the data that it has
// received. Such an end never sends again. Its addresses can be used anew, so a first packet
// (SYN) between addresses that wait, in either direction, counts as one more (lost). The day
// after which an element goes is for those that were reset or whose listener has ended: they are
// few, and nothing else would ever remove them. The years stand for ever, which an element could
// not be shortened from (nft_dynset.c).
//
// The element of an accepted connection times out, and counts until the next sweep of the set: a
// namespace can make N connections with itself in a sweep and a time-out, 34,000 a second with
// 4096. It is not removed at once since kernels before August 2023 count an element that a rule
// removed for ever ("mark set element as dead when deleting from packet path",
// net/netfilter/nft_set_hash.c). Meanwhile the connection is done, so that a further packet does
// not prolong it, and the same addresses can be used at once.
//
// A last packet is added before the other end's is looked for. Otherwise two that are sent at once,
// on two processors, would each be the first, and their connection would count for ever.
//
// A last packet that was sent may not have been taken: the other end had no memory for it. Its
// sender is an orphan that sends again, without an owner, 200 ms later or more. As it is in no
// set then, it is reset. The last packet of an end with an owner passes: the connection is older
// than the table. While one end alone has sent its last packet, its addresses cannot be
// used anew: that packet would pass for one of the next connection.

const waitingTable = "agentjail-waiting"

// A ceiling bounds the TCP connections of a namespace with itself.
type ceiling struct {
	waiting uint32 // those that wait to be accepted
	open    uint32 // all
}

var (
	// ceilingSealed is that of a sealed namespace, whose sockets begin with 16 KiB of buffer
	// (buffers): 64 MiB wait, as limits.sockets. So many are the kernel's default for one listener
	// (net.core.somaxconn).
	ceilingSealed = ceiling{4096, MostConnections}
	// ceilingOpen is that of an engine's namespace, whose sockets begin with 128 KiB.
	ceilingOpen = ceiling{1024, MostConnections}
)

// MostConnections is how many TCP connections a namespace may have with itself. It bounds the
// orphans that they leave, of which the host has tcp_max_orphans (131,072 with 16 GiB of memory).
const MostConnections = 8192

const (
	// lostShare of a ceiling may wait in addition, at addresses that were used anew.
	lostShare = 8

	forgotten = 24 * time.Hour
	never     = 3650 * 24 * time.Hour
	accepted  = 20 * time.Millisecond // whole ticks of every kernel's clock
	begun     = 5 * time.Second
	done      = 2 * accepted           // not before the other
	sweep     = 100 * time.Millisecond // of 300 idle namespaces the sweeps take 3 % of a processor
)

const opDelete = 2 // NFT_DYNSET_OP_DELETE, since Linux 5.4

// Flags of byte 13 of the header (RFC 9293).
const tcpFIN, tcpSYN, tcpRST, tcpACK = 0x01, 0x02, 0x04, 0x10

// table is the table for a ceiling.
func (c ceiling) table() *chainTable {
	meta := func(key, op uint32, data []byte) nftRule {
		return nftRule{{kind: "meta", key: key}, {kind: "cmp", key: op, data: data}}
	}
	tcp := uint32(unix.NFT_PAYLOAD_TRANSPORT_HEADER)
	verdict := func(v uint32) nftRule { return nftRule{{kind: "immediate", verdict: v}} }
	dynset := func(op uint32, set string, timeout time.Duration) nftRule {
		return nftRule{{kind: "dynset", key: op, set: set, timeout: timeout}}
	}
	in := func(set string, not uint32) nftRule { return nftRule{{kind: "lookup", set: set, key: not}} }
	const add, update = unix.NFT_DYNSET_OP_ADD, unix.NFT_DYNSET_OP_UPDATE
	accept, drop := verdict(nfAccept), verdict(nfDrop)
	reject := nftRule{{kind: "reject", key: unix.NFT_REJECT_TCP_RST}}
	owned := nftRule{{kind: "meta", key: unix.NFT_META_SKUID}}
	plain, first, answer := tcpFlags(tcpFIN|tcpSYN|tcpRST, 0), tcpFlags(tcpSYN, 0), tcpFlags(tcpSYN|tcpACK, tcpSYN|tcpACK)
	last, reset := tcpFlags(tcpFIN, tcpFIN), tcpFlags(tcpRST, tcpRST)

	var rules struct{ accepted, unowned, reset, last, answered, half, again []nftRule }
	for _, f := range []addressFamily{{unix.NFPROTO_IPV4, 12, 16}, {unix.NFPROTO_IPV6, 20, 36}} {
		is := meta(unix.NFT_META_NFPROTO, unix.NFT_CMP_EQ, []byte{f.number})
		forth, back := f.forth(), f.back()
		of := func(list *[]nftRule, parts ...nftRule) {
			*list = append(*list, slices.Concat(is, slices.Concat(parts...)))
		}
		of(&rules.accepted, first, owned, back, in("waiting", 0), in("done", 1),
			dynset(update, "waiting", accepted), dynset(add, "done", 0))
		for _, either := range []nftRule{forth, back} {
			of(&rules.unowned, plain, either, in("open", 0), accept)
			of(&rules.reset, reset, either, in("open", 0), dynset(update, "open", accepted))
			of(&rules.reset, reset, either, in("half", 0), dynset(update, "half", accepted))
			of(&rules.last, last, either, in("open", 0), forth, dynset(add, "half", 0))
			of(&rules.half, either, in("half", 0), dynset(update, "half", accepted), drop)
		}
		for _, either := range []nftRule{forth, back} {
			of(&rules.last, last, back, in("half", 0), either, in("open", 0), dynset(update, "open", accepted))
		}
		of(&rules.last, last, back, in("half", 0), dynset(update, "half", accepted), forth, dynset(update, "half", accepted), accept)
		of(&rules.last, last, forth, in("half", 0), accept)
		of(&rules.answered, answer, back,
			dynset(update, "open", begun), dynset(update, "waiting", 0), dynset(update, "open", 0), accept)
		for _, addresses := range []nftRule{forth, back} {
			sequence := nftRule{{kind: "payload", key: tcp, offset: 4, length: 4}}
			of(&rules.half, addresses, in("waiting", 0), in("done", 1), sequence, dynset(add, "lost", 0), accept)
			of(&rules.half, addresses, in("waiting", 0), in("done", 1), drop)
			of(&rules.again, addresses, in("done", 0), dynset(opDelete, "done", 0))
		}
	}
	return &chainTable{
		family: unix.NFPROTO_INET, name: waitingTable, sets: c.sets(),
		chains: []nftChain{{
			"out", "filter", nfAccept, unix.NF_INET_LOCAL_OUT, 10,
			slices.Concat(
				[]nftRule{
					slices.Concat(meta(unix.NFT_META_OIF, unix.NFT_CMP_NEQ, loIndex), accept),
					slices.Concat(meta(unix.NFT_META_L4PROTO, unix.NFT_CMP_NEQ, []byte{unix.IPPROTO_TCP}), accept),
				},
				rules.accepted, []nftRule{slices.Concat(plain, owned, accept)},
				rules.unowned, []nftRule{slices.Concat(plain, reject)},
				rules.reset, []nftRule{slices.Concat(reset, accept)},
				rules.last, []nftRule{slices.Concat(last, owned, accept), slices.Concat(last, reject)},
				rules.answered, []nftRule{slices.Concat(answer, drop)},
				rules.half, rules.again,
			),
		}},
	}
}

// sets are the table's, by name.
func (c ceiling) sets() []nftSet {
	return []nftSet{
		{"done", 16, c.waiting, done, sweep},
		{"half", 16, 2 * c.open, never, sweep},
		{"lost", 4, c.waiting / lostShare, forgotten, time.Minute},
		{"open", 16, c.open, never, sweep},
		{"waiting", 16, c.waiting, forgotten, sweep},
	}
}

// tcpFlags matches the flags of a mask that have a value.
func tcpFlags(mask, value byte) nftRule {
	return nftRule{
		{kind: "payload", key: unix.NFT_PAYLOAD_TRANSPORT_HEADER, offset: 13, length: 1},
		{kind: "bitwise", data: []byte{mask}},
		{kind: "cmp", data: []byte{value}},
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

// back loads the addresses and ports of a listener's packet.
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

// bound puts the ceiling on the thread's network namespace.
func (c ceiling) bound() error {
	if err := c.table().load(); err != nil {
		return fmt.Errorf("%w; a backlog (net.core.somaxconn) bounds the connections that wait at one listener, and nothing those at all", err)
	}
	return nil
}

// BoundWaiting puts ceilingOpen on the connections of a network namespace that
// stays open. Only connections of the namespace to itself count. It needs the privileges of Seal.
func BoundWaiting(netns *os.File) error {
	if err := inNamespace(netns, ceilingOpen.bound); err != nil {
		return fmt.Errorf("the ceiling on connections that wait: %w", err)
	}
	return nil
}

// VerifyWaiting reads that ceiling back.
func VerifyWaiting(netns *os.File) network.Finding {
	return finding(SealWaiting, "", inNamespace(netns, ceilingOpen.table().verified))
}
