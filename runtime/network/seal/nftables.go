package seal

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// The packet filter: table inet agentjail, in words of nft(8)
//
//	chain in     { type filter hook prerouting  priority -450; policy drop; iif 1 accept }
//	chain out    { type filter hook output      priority -450; policy drop
//	               ip daddr 127.0.0.11 drop; oif 1 accept }
//	chain leave  { type filter hook postrouting priority  500; policy drop; oif 1 accept }
//
// It comes before everything an engine may have put there (raw is -300, defragmentation -400) and
// once more after everything (address translation may have picked another way), lets lo's own
// traffic through and drops the rest. The filter does not see packet sockets: a jail has no
// CAP_NET_RAW.

const nftTable = "agentjail"

// nftExpr is one expression of a rule: only the fields of its kind are set.
type nftExpr struct {
	kind string // "meta", "cmp", "payload", "bitwise", "immediate", "redir", "reject", "dynset", "lookup"
	// key is, for meta, unix.NFT_META_*; reject: unix.NFT_REJECT_*; payload: unix.NFT_PAYLOAD_*, 0
	// is the network header; cmp: unix.NFT_CMP_*; dynset: unix.NFT_DYNSET_OP_*; lookup: 1 for what
	// is not in the set.
	key     uint32
	data    []byte        // cmp: compared with this; bitwise: the mask; immediate: what is loaded, in place of a verdict
	reg     uint32        // payload: where it goes, 0 is NFT_REG_1, which all others work on
	set     string        // dynset, lookup: the set's name
	timeout time.Duration // dynset: of the element, 0 is the set's
	offset  uint32        // payload: in the header
	length  uint32
	verdict uint32 // immediate: nfDrop, nfAccept
}

const (
	nfDrop   = 0 // NF_DROP, linux/netfilter.h
	nfAccept = 1 // NF_ACCEPT

	icmpPortUnreachable = 3 // ICMP_PORT_UNREACH, linux/icmp.h
)

type nftRule []nftExpr

type nftChain struct {
	name     string
	kind     string // "filter", "nat"
	policy   uint32 // nfDrop, nfAccept
	hook     uint32 // unix.NF_INET_*
	priority int32
	rules    []nftRule
}

// chainTable is a table of which every chain is known.
type chainTable struct {
	family uint8 // unix.NFPROTO_*
	name   string
	chains []nftChain
	sets   []nftSet
}

// An nftSet is a set that rules add to and remove from.
type nftSet struct {
	name      string
	keyLength uint32 // bytes
	size      uint32 // elements
	timeout   time.Duration
	sweep     time.Duration // how often elements are removed that have timed out: until then they count
}

func (t *chainTable) String() string {
	if t.family == unix.NFPROTO_IPV4 {
		return "table ip " + t.name
	}
	return "table inet " + t.name
}

var loIndex = binary.NativeEndian.AppendUint32(nil, loopback)

func acceptLo(meta uint32) nftRule {
	return nftRule{
		{kind: "meta", key: meta},
		{kind: "cmp", data: loIndex},
		{kind: "immediate", verdict: nfAccept},
	}
}

func dropResolver() nftRule {
	return nftRule{
		{kind: "meta", key: unix.NFT_META_NFPROTO},
		{kind: "cmp", data: []byte{unix.NFPROTO_IPV4}},
		{kind: "payload", offset: 16, length: 4}, // destination address
		{kind: "cmp", data: resolver.Addr().AsSlice()},
		{kind: "immediate", verdict: nfDrop},
	}
}

// sealedTable is the whole table.
func sealedTable() *chainTable {
	return &chainTable{family: unix.NFPROTO_INET, name: nftTable, chains: []nftChain{
		{"in", "filter", nfDrop, unix.NF_INET_PRE_ROUTING, -450, []nftRule{acceptLo(unix.NFT_META_IIF)}},
		{"out", "filter", nfDrop, unix.NF_INET_LOCAL_OUT, -450, []nftRule{dropResolver(), acceptLo(unix.NFT_META_OIF)}},
		{"leave", "filter", nfDrop, unix.NF_INET_POST_ROUTING, 500, []nftRule{acceptLo(unix.NFT_META_OIF)}},
	}}
}

// message starts a message to nf_tables about the table's family.
func (t *chainTable) message(kind, flags uint16) message {
	return message{
		typ:   unix.NFNL_SUBSYS_NFTABLES<<8 | kind,
		flags: flags,
		body:  []byte{t.family, unix.NFNETLINK_V0, 0, 0}, // struct nfgenmsg
	}
}

func (t *chainTable) tableMessage(kind, flags uint16) message {
	m := t.message(kind, flags)
	m.attrString(unix.NFTA_TABLE_NAME, t.name)
	return m
}

func (t *chainTable) chainMessage(ch nftChain) message {
	m := t.message(unix.NFT_MSG_NEWCHAIN, unix.NLM_F_CREATE)
	m.attrString(unix.NFTA_CHAIN_TABLE, t.name)
	m.attrString(unix.NFTA_CHAIN_NAME, ch.name)
	m.nest(unix.NFTA_CHAIN_HOOK, func(m *message) {
		m.attrBE32(unix.NFTA_HOOK_HOOKNUM, ch.hook)
		m.attrBE32(unix.NFTA_HOOK_PRIORITY, uint32(ch.priority))
	})
	m.attrBE32(unix.NFTA_CHAIN_POLICY, ch.policy)
	m.attrString(unix.NFTA_CHAIN_TYPE, ch.kind)
	return m
}

func (t *chainTable) setMessage(s nftSet, id uint32) message {
	m := t.message(unix.NFT_MSG_NEWSET, unix.NLM_F_CREATE)
	m.attrString(unix.NFTA_SET_TABLE, t.name)
	m.attrString(unix.NFTA_SET_NAME, s.name)
	m.attrBE32(unix.NFTA_SET_FLAGS, setFlags)
	m.attrBE32(unix.NFTA_SET_KEY_LEN, s.keyLength)
	m.attrBE32(unix.NFTA_SET_ID, id)
	m.nest(unix.NFTA_SET_DESC, func(m *message) { m.attrBE32(unix.NFTA_SET_DESC_SIZE, s.size) })
	m.attrBE64(unix.NFTA_SET_TIMEOUT, uint64(s.timeout.Milliseconds()))
	m.attrBE32(unix.NFTA_SET_GC_INTERVAL, uint32(s.sweep.Milliseconds()))
	return m
}

// setFlags are the flags of every set.
const setFlags = unix.NFT_SET_EVAL | unix.NFT_SET_TIMEOUT

func (t *chainTable) ruleMessage(chain string, r nftRule) message {
	m := t.message(unix.NFT_MSG_NEWRULE, unix.NLM_F_CREATE|unix.NLM_F_APPEND)
	m.attrString(unix.NFTA_RULE_TABLE, t.name)
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

// encode adds the attributes of the expression.
func (e nftExpr) encode(m *message) {
	switch e.kind {
	case "meta":
		m.attrBE32(unix.NFTA_META_DREG, unix.NFT_REG_1)
		m.attrBE32(unix.NFTA_META_KEY, e.key)
	case "payload":
		m.attrBE32(unix.NFTA_PAYLOAD_DREG, cmp.Or(e.reg, unix.NFT_REG_1))
		m.attrBE32(unix.NFTA_PAYLOAD_BASE, cmp.Or(e.key, unix.NFT_PAYLOAD_NETWORK_HEADER))
		m.attrBE32(unix.NFTA_PAYLOAD_OFFSET, e.offset)
		m.attrBE32(unix.NFTA_PAYLOAD_LEN, e.length)
	case "cmp":
		m.attrBE32(unix.NFTA_CMP_SREG, unix.NFT_REG_1)
		m.attrBE32(unix.NFTA_CMP_OP, e.key)
		m.nest(unix.NFTA_CMP_DATA, func(m *message) { m.attr(unix.NFTA_DATA_VALUE, e.data) })
	case "bitwise":
		m.attrBE32(unix.NFTA_BITWISE_SREG, unix.NFT_REG_1)
		m.attrBE32(unix.NFTA_BITWISE_DREG, unix.NFT_REG_1)
		m.attrBE32(unix.NFTA_BITWISE_LEN, uint32(len(e.data)))
		m.nest(unix.NFTA_BITWISE_MASK, func(m *message) { m.attr(unix.NFTA_DATA_VALUE, e.data) })
		m.nest(unix.NFTA_BITWISE_XOR, func(m *message) { m.attr(unix.NFTA_DATA_VALUE, make([]byte, len(e.data))) })
	case "redir":
		m.attrBE32(unix.NFTA_REDIR_REG_PROTO_MIN, unix.NFT_REG_1)
	case "reject":
		m.attrBE32(unix.NFTA_REJECT_TYPE, e.key)
		if e.key == unix.NFT_REJECT_ICMP_UNREACH {
			m.attr(unix.NFTA_REJECT_ICMP_CODE, []byte{icmpPortUnreachable})
		}
	case "dynset":
		m.attrString(unix.NFTA_DYNSET_SET_NAME, e.set)
		m.attrBE32(unix.NFTA_DYNSET_OP, e.key)
		m.attrBE32(unix.NFTA_DYNSET_SREG_KEY, unix.NFT_REG_1)
		if e.timeout > 0 {
			m.attrBE64(unix.NFTA_DYNSET_TIMEOUT, uint64(e.timeout.Milliseconds()))
		}
	case "lookup":
		m.attrString(unix.NFTA_LOOKUP_SET, e.set)
		m.attrBE32(unix.NFTA_LOOKUP_SREG, unix.NFT_REG_1)
		m.attrBE32(unix.NFTA_LOOKUP_FLAGS, e.key)
	case "immediate":
		if e.data != nil {
			m.attrBE32(unix.NFTA_IMMEDIATE_DREG, unix.NFT_REG_1)
			m.nest(unix.NFTA_IMMEDIATE_DATA, func(m *message) { m.attr(unix.NFTA_DATA_VALUE, e.data) })
			return
		}
		m.attrBE32(unix.NFTA_IMMEDIATE_DREG, unix.NFT_REG_VERDICT)
		m.nest(unix.NFTA_IMMEDIATE_DATA, func(m *message) {
			m.nest(unix.NFTA_DATA_VERDICT, func(m *message) { m.attrBE32(unix.NFTA_VERDICT_CODE, e.verdict) })
		})
	}
}

// decodeExpr is the inverse of encode. It returns false for all that encode does not write.
func decodeExpr(b []byte) (nftExpr, bool) {
	attrs := attributes(b)
	in := attributes(attrs.get(unix.NFTA_EXPR_DATA))
	number := func(typ uint16) uint32 { return bigU32(in.get(typ)) }
	value := func(typ uint16) []byte { return attributes(in.get(typ)).get(unix.NFTA_DATA_VALUE) }
	e := nftExpr{kind: unix.ByteSliceToString(attrs.get(unix.NFTA_EXPR_NAME))}
	switch e.kind {
	case "meta":
		e.key = number(unix.NFTA_META_KEY)
		return e, number(unix.NFTA_META_DREG) == unix.NFT_REG_1
	case "payload":
		e.offset, e.length = number(unix.NFTA_PAYLOAD_OFFSET), number(unix.NFTA_PAYLOAD_LEN)
		base := number(unix.NFTA_PAYLOAD_BASE)
		if base == unix.NFT_PAYLOAD_TRANSPORT_HEADER {
			e.key = base
		}
		if reg := number(unix.NFTA_PAYLOAD_DREG); reg != unix.NFT_REG_1 {
			e.reg = reg
		}
		return e, base == unix.NFT_PAYLOAD_NETWORK_HEADER || e.key != 0
	case "cmp":
		e.data, e.key = value(unix.NFTA_CMP_DATA), number(unix.NFTA_CMP_OP)
		return e, number(unix.NFTA_CMP_SREG) == unix.NFT_REG_1
	case "bitwise":
		e.data = value(unix.NFTA_BITWISE_MASK)
		const operation = 6 // NFTA_BITWISE_OP; absent, or 0 for mask and xor
		return e, number(operation) == 0 && number(unix.NFTA_BITWISE_SREG) == unix.NFT_REG_1 &&
			number(unix.NFTA_BITWISE_DREG) == unix.NFT_REG_1 &&
			int(number(unix.NFTA_BITWISE_LEN)) == len(e.data) && bytes.Equal(value(unix.NFTA_BITWISE_XOR), make([]byte, len(e.data)))
	case "redir":
		high, flags := number(unix.NFTA_REDIR_REG_PROTO_MAX), number(unix.NFTA_REDIR_FLAGS)
		return e, number(unix.NFTA_REDIR_REG_PROTO_MIN) == unix.NFT_REG_1 && (high == 0 || high == unix.NFT_REG_1) &&
			flags&^unix.NF_NAT_RANGE_PROTO_SPECIFIED == 0
	case "reject":
		e.key = number(unix.NFTA_REJECT_TYPE)
		return e, in.get(unix.NFTA_REJECT_TYPE) != nil &&
			(e.key == unix.NFT_REJECT_TCP_RST || bytes.Equal(in.get(unix.NFTA_REJECT_ICMP_CODE), []byte{icmpPortUnreachable}))
	case "dynset":
		e.set, e.key = unix.ByteSliceToString(in.get(unix.NFTA_DYNSET_SET_NAME)), number(unix.NFTA_DYNSET_OP)
		e.timeout = milliseconds(in.get(unix.NFTA_DYNSET_TIMEOUT))
		const exprs = 10 // NFTA_DYNSET_EXPRESSIONS
		more := in.get(unix.NFTA_DYNSET_SREG_DATA) != nil || in.get(unix.NFTA_DYNSET_EXPR) != nil || len(in.get(exprs)) > 0
		return e, number(unix.NFTA_DYNSET_SREG_KEY) == unix.NFT_REG_1 && number(unix.NFTA_DYNSET_FLAGS) == 0 && !more
	case "lookup":
		e.set, e.key = unix.ByteSliceToString(in.get(unix.NFTA_LOOKUP_SET)), number(unix.NFTA_LOOKUP_FLAGS)
		return e, number(unix.NFTA_LOOKUP_SREG) == unix.NFT_REG_1 && in.get(unix.NFTA_LOOKUP_DREG) == nil
	case "immediate":
		if number(unix.NFTA_IMMEDIATE_DREG) == unix.NFT_REG_1 {
			e.data = value(unix.NFTA_IMMEDIATE_DATA)
			return e, e.data != nil
		}
		verdict := attributes(in.get(unix.NFTA_IMMEDIATE_DATA)).get(unix.NFTA_DATA_VERDICT)
		code := attributes(verdict).get(unix.NFTA_VERDICT_CODE)
		e.verdict = bigU32(code)
		return e, code != nil && number(unix.NFTA_IMMEDIATE_DREG) == unix.NFT_REG_VERDICT
	}
	return e, false
}

// load loads the table in one transaction. It replaces any table of the same name.
func (t *chainTable) load() error {
	c, err := dial(unix.NETLINK_NETFILTER)
	if err != nil {
		return fmt.Errorf("%w: %w", errNoFilter, err)
	}
	defer c.close()
	// Look first: a transaction that fails makes the kernel wait for a grace period of several
	// milliseconds.
	err = t.verify(c)
	if err == nil || errors.Is(err, errNoFilter) {
		return err
	}
	var msgs []message
	if !errors.Is(err, errNoTable) {
		msgs = append(msgs, t.tableMessage(unix.NFT_MSG_DELTABLE, 0))
	}
	msgs = append(msgs, t.tableMessage(unix.NFT_MSG_NEWTABLE, unix.NLM_F_CREATE|unix.NLM_F_EXCL))
	if err := c.transaction(append(msgs, t.content()...)); err != nil {
		return fmt.Errorf("load %s: %w", t, err)
	}
	return nil
}

// errNoFilter reports that the kernel was built without nf_tables or cannot load its module.
var errNoFilter = errors.New("nf_tables cannot be used")

// errNoTable reports that there is nothing to replace.
var errNoTable = errors.New("there is no such table")

func (t *chainTable) content() []message {
	var msgs []message
	for i, s := range t.sets {
		msgs = append(msgs, t.setMessage(s, uint32(i)+1))
	}
	for _, ch := range t.chains {
		msgs = append(msgs, t.chainMessage(ch))
		for _, r := range ch.rules {
			msgs = append(msgs, t.ruleMessage(ch.name, r))
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
		return err
	}
	// The kernel works on the batch within the send: when it returns, all answers are there.
	// Without nf_tables there is one error about the batch as a whole, and no acknowledgement.
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
		if errors.Is(err, unix.EAGAIN) {
			break
		}
		if err != nil {
			return err
		}
	}
	if failed == nil && acknowledged != len(msgs) {
		failed = fmt.Errorf("%d of %d messages acknowledged", acknowledged, len(msgs))
	}
	return failed
}

// verified reads the table back.
func (t *chainTable) verified() error {
	c, err := dial(unix.NETLINK_NETFILTER)
	if err != nil {
		return fmt.Errorf("%w: %w", errNoFilter, err)
	}
	defer c.close()
	return t.verify(c)
}

// maxNft bounds how many chains and rules of the namespace are read.
const maxNft = 16384

// verify reports what is wrong with the table: its chains have to be there, with their rules, and
// no others.
func (t *chainTable) verify(c *conn) error {
	if err := t.verifyActive(c); err != nil {
		return err
	}
	have, err := t.readChains(c)
	if err != nil {
		return err
	}
	if err := t.readRules(c, have); err != nil {
		return err
	}
	for i := range t.chains {
		want := &t.chains[i]
		if got := have[want.name]; got == nil || !reflect.DeepEqual(got, want) {
			return fmt.Errorf("chain %s of %s is missing or not agentjail's", want.name, t)
		}
	}
	if len(have) != len(t.chains) {
		return fmt.Errorf("%s has a chain that is not agentjail's", t)
	}
	return t.verifySets(c)
}

// verifySets reports whether the table's sets are there, and no others. If the table has no set,
// sets are not read: no rule could refer to one.
func (t *chainTable) verifySets(c *conn) error {
	if len(t.sets) == 0 {
		return nil
	}
	var have []nftSet
	get := t.message(unix.NFT_MSG_GETSET, 0)
	get.attrString(unix.NFTA_SET_TABLE, t.name)
	err := c.dump(get, maxNft, func() { have = nil }, func(body []byte) error {
		attrs := nftAttributes(body)
		if unix.ByteSliceToString(attrs.get(unix.NFTA_SET_TABLE)) != t.name {
			return nil
		}
		s := nftSet{
			name:      unix.ByteSliceToString(attrs.get(unix.NFTA_SET_NAME)),
			keyLength: bigU32(attrs.get(unix.NFTA_SET_KEY_LEN)),
			size:      bigU32(attributes(attrs.get(unix.NFTA_SET_DESC)).get(unix.NFTA_SET_DESC_SIZE)),
			timeout:   milliseconds(attrs.get(unix.NFTA_SET_TIMEOUT)),
			sweep:     time.Duration(bigU32(attrs.get(unix.NFTA_SET_GC_INTERVAL))) * time.Millisecond,
		}
		if bigU32(attrs.get(unix.NFTA_SET_FLAGS)) != setFlags {
			return fmt.Errorf("set %s of %s is not agentjail's", s.name, t)
		}
		have = append(have, s)
		return nil
	})
	if err != nil {
		return fmt.Errorf("read nftables sets: %w", err)
	}
	slices.SortFunc(have, func(a, b nftSet) int { return strings.Compare(a.name, b.name) })
	if !slices.Equal(have, t.sets) {
		return fmt.Errorf("the sets of %s are not agentjail's", t)
	}
	return nil
}

// verifyActive reports whether the table is there. A dormant one (NFT_TABLE_F_DORMANT) has no
// hooks.
func (t *chainTable) verifyActive(c *conn) error {
	var flags []uint32
	get := t.message(unix.NFT_MSG_GETTABLE, 0)
	err := c.dump(get, maxNft, func() { flags = nil }, func(body []byte) error {
		attrs := nftAttributes(body)
		if unix.ByteSliceToString(attrs.get(unix.NFTA_TABLE_NAME)) == t.name {
			flags = append(flags, bigU32(attrs.get(unix.NFTA_TABLE_FLAGS)))
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("%w: %w", errNoFilter, err)
	}
	if len(flags) == 0 {
		return fmt.Errorf("%s: %w", t, errNoTable)
	}
	if flags[0]&unix.NFT_TABLE_F_DORMANT != 0 {
		return fmt.Errorf("%s is dormant", t)
	}
	return nil
}

// readChains reads the table's chains, without their rules.
func (t *chainTable) readChains(c *conn) (map[string]*nftChain, error) {
	have := map[string]*nftChain{}
	get := t.message(unix.NFT_MSG_GETCHAIN, 0)
	err := c.dump(get, maxNft, func() { clear(have) }, func(body []byte) error {
		attrs := nftAttributes(body)
		if unix.ByteSliceToString(attrs.get(unix.NFTA_CHAIN_TABLE)) != t.name {
			return nil
		}
		hook := attributes(attrs.get(unix.NFTA_CHAIN_HOOK))
		ch := &nftChain{
			name:     unix.ByteSliceToString(attrs.get(unix.NFTA_CHAIN_NAME)),
			kind:     unix.ByteSliceToString(attrs.get(unix.NFTA_CHAIN_TYPE)),
			policy:   ^uint32(0),
			hook:     bigU32(hook.get(unix.NFTA_HOOK_HOOKNUM)),
			priority: int32(bigU32(hook.get(unix.NFTA_HOOK_PRIORITY))),
		}
		if policy := attrs.get(unix.NFTA_CHAIN_POLICY); policy != nil { // else it has no hook
			ch.policy = bigU32(policy)
		}
		have[ch.name] = ch
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read nftables chains: %w", err)
	}
	return have, nil
}

// readRules reads the rules of the table's chains.
func (t *chainTable) readRules(c *conn, have map[string]*nftChain) error {
	get := t.message(unix.NFT_MSG_GETRULE, 0)
	get.attrString(unix.NFTA_RULE_TABLE, t.name)
	reset := func() {
		for _, ch := range have {
			ch.rules = nil
		}
	}
	err := c.dump(get, maxNft, reset, func(body []byte) error {
		attrs := nftAttributes(body)
		ch := have[unix.ByteSliceToString(attrs.get(unix.NFTA_RULE_CHAIN))]
		if unix.ByteSliceToString(attrs.get(unix.NFTA_RULE_TABLE)) != t.name || ch == nil {
			return nil
		}
		var r nftRule
		for _, a := range attributes(attrs.get(unix.NFTA_RULE_EXPRESSIONS)) {
			e, ok := decodeExpr(a.data)
			if !ok {
				return fmt.Errorf("chain %s has a rule that is not agentjail's", ch.name)
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
	return nil
}

// milliseconds decodes a time of nf_tables.
func milliseconds(b []byte) time.Duration {
	if len(b) < 8 {
		return 0
	}
	return time.Duration(binary.BigEndian.Uint64(b)) * time.Millisecond
}

func nftAttributes(body []byte) attributeList {
	const header = 4 // struct nfgenmsg
	if len(body) < header {
		return nil
	}
	return attributes(body[header:])
}
