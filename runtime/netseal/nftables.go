package netseal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"

	"golang.org/x/sys/unix"
)

// The packet filter: table inet agentjail, in words of nft(8)
//
//	chain in     { type filter hook prerouting  priority -450; policy drop; iif 1 accept }
//	chain out    { type filter hook output      priority -450; policy drop; ip daddr 127.0.0.11 drop; oif 1 accept }
//	chain leave  { type filter hook postrouting priority  500; policy drop; oif 1 accept }
//
// It comes before everything an engine may have put there (raw is -300, defragmentation -400) and once more after everything
// (address translation may have picked another way), lets lo's own traffic through and drops the rest. Packet sockets are not seen by
// it: a jail has no CAP_NET_RAW.

const nftTable = "agentjail"

// nftExpr is one expression of a rule: only the fields of its kind are set.
type nftExpr struct {
	kind    string // "meta", "cmp", "payload", "immediate"
	key     uint32 // meta: unix.NFT_META_*
	data    []byte // cmp: equal to this
	offset  uint32 // payload: in the network header
	length  uint32
	verdict uint32 // immediate: nfDrop, nfAccept
}

const (
	nfDrop   = 0 // NF_DROP, linux/netfilter.h
	nfAccept = 1 // NF_ACCEPT
)

type nftRule []nftExpr

type nftChain struct {
	name     string
	hook     uint32 // unix.NF_INET_*
	priority int32
	rules    []nftRule
}

var loIndex = binary.NativeEndian.AppendUint32(nil, loopback)

func acceptLo(meta uint32) nftRule {
	return nftRule{
		{kind: "meta", key: meta},
		{kind: "cmp", data: loIndex},
		{kind: "immediate", verdict: nfAccept},
	}
}

var dropResolver = nftRule{
	{kind: "meta", key: unix.NFT_META_NFPROTO},
	{kind: "cmp", data: []byte{unix.NFPROTO_IPV4}},
	{kind: "payload", offset: 16, length: 4}, // destination address
	{kind: "cmp", data: resolver.Addr().AsSlice()},
	{kind: "immediate", verdict: nfDrop},
}

// sealedChains is the whole table. The policy of every chain is drop.
var sealedChains = []nftChain{
	{"in", unix.NF_INET_PRE_ROUTING, -450, []nftRule{acceptLo(unix.NFT_META_IIF)}},
	{"out", unix.NF_INET_LOCAL_OUT, -450, []nftRule{dropResolver, acceptLo(unix.NFT_META_OIF)}},
	{"leave", unix.NF_INET_POST_ROUTING, 500, []nftRule{acceptLo(unix.NFT_META_OIF)}},
}

// nftMessage starts a message to nf_tables about the inet family.
func nftMessage(kind, flags uint16) message {
	return message{
		typ:   unix.NFNL_SUBSYS_NFTABLES<<8 | kind,
		flags: flags,
		body:  []byte{unix.NFPROTO_INET, unix.NFNETLINK_V0, 0, 0}, // struct nfgenmsg
	}
}

func nftTableMessage(kind, flags uint16) message {
	m := nftMessage(kind, flags)
	m.attrString(unix.NFTA_TABLE_NAME, nftTable)
	return m
}

func (ch nftChain) message() message {
	m := nftMessage(unix.NFT_MSG_NEWCHAIN, unix.NLM_F_CREATE)
	m.attrString(unix.NFTA_CHAIN_TABLE, nftTable)
	m.attrString(unix.NFTA_CHAIN_NAME, ch.name)
	m.nest(unix.NFTA_CHAIN_HOOK, func(m *message) {
		m.attrBE32(unix.NFTA_HOOK_HOOKNUM, ch.hook)
		m.attrBE32(unix.NFTA_HOOK_PRIORITY, uint32(ch.priority))
	})
	m.attrBE32(unix.NFTA_CHAIN_POLICY, nfDrop)
	m.attrString(unix.NFTA_CHAIN_TYPE, "filter")
	return m
}

func (r nftRule) message(chain string) message {
	m := nftMessage(unix.NFT_MSG_NEWRULE, unix.NLM_F_CREATE|unix.NLM_F_APPEND)
	m.attrString(unix.NFTA_RULE_TABLE, nftTable)
	m.attrString(unix.NFTA_RULE_CHAIN, chain)
	m.nest(unix.NFTA_RULE_EXPRESSIONS, func(m *message) {
		for _, e := range r {
			m.nest(unix.NFTA_LIST_ELEM, func(m *message) {
				m.attrString(unix.NFTA_EXPR_NAME, e.kind)
				m.nest(unix.NFTA_EXPR_DATA, e.encode)
			})
		}
	})
	return m
}

// encode adds the attributes of the expression. One register is enough for every rule above.
func (e nftExpr) encode(m *message) {
	switch e.kind {
	case "meta":
		m.attrBE32(unix.NFTA_META_DREG, unix.NFT_REG_1)
		m.attrBE32(unix.NFTA_META_KEY, e.key)
	case "payload":
		m.attrBE32(unix.NFTA_PAYLOAD_DREG, unix.NFT_REG_1)
		m.attrBE32(unix.NFTA_PAYLOAD_BASE, unix.NFT_PAYLOAD_NETWORK_HEADER)
		m.attrBE32(unix.NFTA_PAYLOAD_OFFSET, e.offset)
		m.attrBE32(unix.NFTA_PAYLOAD_LEN, e.length)
	case "cmp":
		m.attrBE32(unix.NFTA_CMP_SREG, unix.NFT_REG_1)
		m.attrBE32(unix.NFTA_CMP_OP, unix.NFT_CMP_EQ)
		m.nest(unix.NFTA_CMP_DATA, func(m *message) { m.attr(unix.NFTA_DATA_VALUE, e.data) })
	case "immediate":
		m.attrBE32(unix.NFTA_IMMEDIATE_DREG, unix.NFT_REG_VERDICT)
		m.nest(unix.NFTA_IMMEDIATE_DATA, func(m *message) {
			m.nest(unix.NFTA_DATA_VERDICT, func(m *message) { m.attrBE32(unix.NFTA_VERDICT_CODE, e.verdict) })
		})
	}
}

// decode is encode's inverse; false for everything that encode does not write.
func decodeExpr(b []byte) (nftExpr, bool) {
	attrs := attributes(b)
	name, _ := find(attrs, unix.NFTA_EXPR_NAME)
	data, _ := find(attrs, unix.NFTA_EXPR_DATA)
	e := nftExpr{kind: cString(name)}
	var in map[uint16][]byte
	number := func(typ uint16) uint32 { return bigU32(in[typ]) }
	in = map[uint16][]byte{}
	for _, a := range attributes(data) {
		in[a.typ] = a.data
	}
	switch e.kind {
	case "meta":
		e.key = number(unix.NFTA_META_KEY)
		return e, number(unix.NFTA_META_DREG) == unix.NFT_REG_1
	case "payload":
		e.offset, e.length = number(unix.NFTA_PAYLOAD_OFFSET), number(unix.NFTA_PAYLOAD_LEN)
		return e, number(unix.NFTA_PAYLOAD_DREG) == unix.NFT_REG_1 && number(unix.NFTA_PAYLOAD_BASE) == unix.NFT_PAYLOAD_NETWORK_HEADER
	case "cmp":
		e.data, _ = find(attributes(in[unix.NFTA_CMP_DATA]), unix.NFTA_DATA_VALUE)
		return e, number(unix.NFTA_CMP_SREG) == unix.NFT_REG_1 && number(unix.NFTA_CMP_OP) == unix.NFT_CMP_EQ
	case "immediate":
		verdict, ok := find(attributes(in[unix.NFTA_IMMEDIATE_DATA]), unix.NFTA_DATA_VERDICT)
		code, ok2 := find(attributes(verdict), unix.NFTA_VERDICT_CODE)
		e.verdict = bigU32(code)
		return e, ok && ok2 && number(unix.NFTA_IMMEDIATE_DREG) == unix.NFT_REG_VERDICT
	}
	return e, false
}

// sealFilter loads the table in one transaction, in place of whatever has its name.
func sealFilter() error {
	c, err := dial(unix.NETLINK_NETFILTER)
	if err != nil {
		return fmt.Errorf("%w: %w", errNoFilter, err)
	}
	defer c.close()
	// Look first: a transaction that fails makes the kernel wait for a grace period of several milliseconds.
	err = verifyChains(c)
	if err == nil || errors.Is(err, errNoFilter) {
		return err
	}
	var msgs []message
	if !errors.Is(err, errNoTable) {
		msgs = append(msgs, nftTableMessage(unix.NFT_MSG_DELTABLE, 0))
	}
	msgs = append(msgs, nftTableMessage(unix.NFT_MSG_NEWTABLE, unix.NLM_F_CREATE|unix.NLM_F_EXCL))
	return c.transaction(append(msgs, tableContent()...))
}

// errNoFilter says that the kernel was built without nf_tables or cannot load its module.
var errNoFilter = errors.New("nf_tables cannot be used")

// errNoTable says that there is nothing to replace.
var errNoTable = errors.New("there is no table inet " + nftTable)

func tableContent() []message {
	var msgs []message
	for _, ch := range sealedChains {
		msgs = append(msgs, ch.message())
		for _, r := range ch.rules {
			msgs = append(msgs, r.message(ch.name))
		}
	}
	return msgs
}

// transaction sends the messages as one nf_tables batch: all take effect, or none.
func (c *conn) transaction(msgs []message) error {
	control := func(kind uint16) message {
		m := message{typ: kind, flags: unix.NLM_F_REQUEST, body: []byte{unix.AF_UNSPEC, unix.NFNETLINK_V0, 0, 0}}
		binary.BigEndian.PutUint16(m.body[2:], unix.NFNL_SUBSYS_NFTABLES)
		return m
	}
	begin, end := control(unix.NFNL_MSG_BATCH_BEGIN), control(unix.NFNL_MSG_BATCH_END)
	c.seq++
	first := c.seq
	c.out = begin.appendTo(c.out[:0], c.seq)
	for _, m := range msgs {
		c.seq++
		m.flags |= unix.NLM_F_REQUEST | unix.NLM_F_ACK
		c.out = m.appendTo(c.out, c.seq)
	}
	c.seq++
	c.out = end.appendTo(c.out, c.seq)
	if err := c.send(c.out); err != nil {
		return fmt.Errorf("load table inet %s: %w", nftTable, err)
	}
	// The kernel works on the batch within the send: when it returns, all answers are there. Without nf_tables there is one error
	// about the batch as a whole, and no acknowledgement.
	acknowledged := 0
	var failed error
	for {
		err := c.receive(unix.MSG_DONTWAIT, func(h unix.NlMsghdr, body []byte) error {
			if h.Type != unix.NLMSG_ERROR || h.Seq-first > uint32(len(msgs))+1 {
				return nil
			}
			if err := ackError(h, body); err == nil {
				acknowledged++
			} else if failed == nil {
				failed = err
			}
			return nil
		})
		if err == unix.EAGAIN {
			break
		}
		if err != nil {
			return err
		}
	}
	if failed == nil && acknowledged != len(msgs) {
		failed = fmt.Errorf("%d of %d messages acknowledged", acknowledged, len(msgs))
	}
	if failed != nil {
		return fmt.Errorf("load table inet %s: %w", nftTable, failed)
	}
	return nil
}

// verifyFilter reads the table back.
func verifyFilter() error {
	c, err := dial(unix.NETLINK_NETFILTER)
	if err != nil {
		return fmt.Errorf("%w: %w", errNoFilter, err)
	}
	defer c.close()
	return verifyChains(c)
}

// maxNft bounds how many chains and rules of the namespace are read.
const maxNft = 16384

func verifyChains(c *conn) error {
	// A dormant table (NFT_TABLE_F_DORMANT) has no hooks.
	var flags []uint32
	get := nftMessage(unix.NFT_MSG_GETTABLE, 0)
	err := c.dump(get, maxNft, func() { flags = nil }, func(body []byte) error {
		attrs := nftAttributes(body)
		if name, _ := find(attrs, unix.NFTA_TABLE_NAME); cString(name) == nftTable {
			f, _ := find(attrs, unix.NFTA_TABLE_FLAGS)
			flags = append(flags, bigU32(f))
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("%w: %w", errNoFilter, err)
	}
	if len(flags) == 0 {
		return errNoTable
	}
	if flags[0]&unix.NFT_TABLE_F_DORMANT != 0 {
		return fmt.Errorf("table inet %s is dormant", nftTable)
	}

	have := map[string]*nftChain{}
	get = nftMessage(unix.NFT_MSG_GETCHAIN, 0)
	err = c.dump(get, maxNft, func() { clear(have) }, func(body []byte) error {
		attrs := nftAttributes(body)
		table, _ := find(attrs, unix.NFTA_CHAIN_TABLE)
		name, _ := find(attrs, unix.NFTA_CHAIN_NAME)
		policy, ok := find(attrs, unix.NFTA_CHAIN_POLICY)
		if cString(table) != nftTable || !ok || bigU32(policy) != nfDrop {
			return nil
		}
		hook, _ := find(attrs, unix.NFTA_CHAIN_HOOK)
		number, _ := find(attributes(hook), unix.NFTA_HOOK_HOOKNUM)
		priority, _ := find(attributes(hook), unix.NFTA_HOOK_PRIORITY)
		have[cString(name)] = &nftChain{name: cString(name), hook: bigU32(number), priority: int32(bigU32(priority))}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read nftables chains: %w", err)
	}

	get = nftMessage(unix.NFT_MSG_GETRULE, 0)
	get.attrString(unix.NFTA_RULE_TABLE, nftTable)
	reset := func() {
		for _, ch := range have {
			ch.rules = nil
		}
	}
	err = c.dump(get, maxNft, reset, func(body []byte) error {
		attrs := nftAttributes(body)
		table, _ := find(attrs, unix.NFTA_RULE_TABLE)
		name, _ := find(attrs, unix.NFTA_RULE_CHAIN)
		ch := have[cString(name)]
		if cString(table) != nftTable || ch == nil {
			return nil
		}
		exprs, _ := find(attrs, unix.NFTA_RULE_EXPRESSIONS)
		var r nftRule
		for _, a := range attributes(exprs) {
			e, ok := decodeExpr(a.data)
			if !ok {
				return fmt.Errorf("chain %s has a rule that is not the seal's", ch.name)
			}
			e.data = bytes.Clone(e.data)
			r = append(r, e)
		}
		ch.rules = append(ch.rules, r)
		return nil
	})
	if err != nil {
		return fmt.Errorf("read nftables rules: %w", err)
	}
	for i := range sealedChains {
		want := &sealedChains[i]
		if got := have[want.name]; got == nil || !reflect.DeepEqual(got, want) {
			return fmt.Errorf("chain %s of table inet %s is missing or not the seal's", want.name, nftTable)
		}
	}
	return nil
}

func nftAttributes(body []byte) []attribute {
	const header = 4 // struct nfgenmsg
	if len(body) < header {
		return nil
	}
	return attributes(body[header:])
}
