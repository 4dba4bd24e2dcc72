package seal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"
)

// Policy routing (ip-rule(8), linux/fib_rules.h). A namespace has the rules "0: lookup local,
// 32766: lookup main, 32767: lookup default". Sealing puts the rules below in front of them and
// removes the rules that would come before, so that no routing table is consulted for anything but
// lo, now or after another interface was plugged in.
//
// They all have priority 0, the smallest there is: the kernel appends a new rule of equal priority
// after the old ones (net/core/fib_rules.c, fib_nl_newrule), so nothing that is added later can
// come before them, not even a rule without a priority, which gets the one just below the second
// rule's.
//
// The rules do not stop the following, but nftables does: an IPv4 socket bound to a device sends to
// it even when the look-up fails ("assume that the destination is on link", net/ipv4/route.c,
// ip_route_output_key_hash_rcu), and IPv4 multicast and broadcast with a given interface or source
// address are sent without any look-up.

// rule is the part of a policy rule that sealing uses. Any rule that has something else never
// compares equal (other is set).
type rule struct {
	dst      netip.Prefix // invalid: any
	iif      string       // "": any; "lo": made by this namespace's own sockets, too
	notted   bool         // the selector is inverted
	action   uint8        // unix.FR_ACT_*
	table    uint32       // for FR_ACT_TO_TBL
	priority uint32
	other    bool
}

// sealedRules returns the whole policy of a family.
func sealedRules(family uint8) []rule {
	own := netip.PrefixFrom(netip.AddrFrom4([4]byte{127}), 8)
	if family == unix.AF_INET6 {
		own = netip.PrefixFrom(netip.IPv6Loopback(), 128)
	}
	return []rule{
		{iif: "lo", dst: own, action: unix.FR_ACT_TO_TBL, table: unix.RT_TABLE_LOCAL},
		{iif: "lo", notted: true, action: unix.FR_ACT_BLACKHOLE}, // came in by another interface
		{action: unix.FR_ACT_UNREACHABLE},                        // own sockets: "network is unreachable", as in an empty namespace
	}
}

// request returns the message that adds the rule.
func (r rule) request(family uint8) message {
	// struct fib_rule_hdr has the layout of struct rtmsg.
	m := message{typ: unix.RTM_NEWRULE, flags: unix.NLM_F_CREATE, body: make([]byte, unix.SizeofRtMsg)}
	m.body[0] = family
	m.body[4] = uint8(r.table)
	m.body[7] = r.action
	if r.notted {
		binary.NativeEndian.PutUint32(m.body[8:], unix.FIB_RULE_INVERT)
	}
	m.attrU32(unix.FRA_PRIORITY, r.priority)
	if r.dst.IsValid() {
		m.body[1] = uint8(r.dst.Bits())
		m.attr(unix.FRA_DST, r.dst.Addr().AsSlice())
	}
	if r.iif != "" {
		m.attrString(unix.FRA_IIFNAME, r.iif)
	}
	return m
}

// parseRule decodes a dumped rule.
func parseRule(body []byte) (rule, error) {
	if len(body) < unix.SizeofRtMsg {
		return rule{}, errors.New("malformed rule")
	}
	flags := nativeU32(body[8:])
	r := rule{action: body[7], table: uint32(body[4]), notted: flags&unix.FIB_RULE_INVERT != 0}
	r.other = body[2] != 0 || body[3] != 0 || flags&^unix.FIB_RULE_INVERT != 0
	for _, a := range attributes(body[unix.SizeofRtMsg:]) {
		switch a.typ {
		case unix.FRA_PRIORITY:
			r.priority = nativeU32(a.data)
		case unix.FRA_TABLE:
			r.table = nativeU32(a.data)
		case unix.FRA_IIFNAME:
			r.iif = unix.ByteSliceToString(a.data)
		case unix.FRA_DST:
			ip, ok := netip.AddrFromSlice(a.data)
			if !ok {
				return rule{}, errors.New("malformed rule")
			}
			r.dst = netip.PrefixFrom(ip, int(body[1]))
		case unix.FRA_PROTOCOL, unix.FRA_PAD: // the program that added it, and padding
		case unix.FRA_SUPPRESS_PREFIXLEN, unix.FRA_SUPPRESS_IFGROUP:
			r.other = r.other || nativeU32(a.data) != ^uint32(0) // -1: none
		default:
			r.other = true
		}
	}
	if r.action != unix.FR_ACT_TO_TBL {
		r.table = 0
	}
	return r, nil
}

// maxRules bounds how many rules are read.
const maxRules = 4096

// rules reads one family's rules in the order of their consultation, with the dumped messages.
func (c *conn) rules(family uint8) (parsed []rule, raw [][]byte, err error) {
	m := message{typ: unix.RTM_GETRULE, body: make([]byte, unix.SizeofRtMsg)}
	m.body[0] = family
	reset := func() { parsed, raw = nil, nil }
	err = c.dump(m, maxRules, reset, func(body []byte) error {
		if len(body) > 0 && body[0] != family {
			return nil
		}
		r, err := parseRule(body)
		if err != nil {
			return err
		}
		parsed = append(parsed, r)
		raw = append(raw, bytes.Clone(body))
		return nil
	})
	return parsed, raw, err
}

// startsWith reports whether the policy is in force: nothing comes before it.
func startsWith(have, want []rule) bool {
	return len(have) >= len(want) && slices.Equal(have[:len(want)], want)
}

// sealRules puts the policy of one family in force. Idempotent.
func (c *conn) sealRules(family uint8) error {
	want := sealedRules(family)
	have, _, err := c.rules(family)
	if err != nil {
		return fmt.Errorf("read rules: %w", err)
	}
	if startsWith(have, want) {
		return nil
	}
	requests := make([]message, 0, len(want))
	for _, r := range want {
		requests = append(requests, r.request(family))
	}
	errs, err := c.do(requests...)
	if err := errors.Join(append(errs, err)...); err != nil {
		return fmt.Errorf("add rules: %w", err)
	}
	have, raw, err := c.rules(family)
	if err != nil {
		return fmt.Errorf("read rules: %w", err)
	}
	// Ours are in now, after all others of priority 0: remove those before. A removal takes the
	// first rule that matches, so removing from the front never hits ours before all the others are
	// gone.
	requests = requests[:0]
	for i := range have {
		if startsWith(have[i:], want) {
			break
		}
		requests = append(requests, message{typ: unix.RTM_DELRULE, body: raw[i]})
	}
	errs, err = c.do(requests...)
	if err := errors.Join(append(errs, err)...); err != nil {
		return fmt.Errorf("remove earlier rules: %w", err)
	}
	return c.verifyRules(family)
}

// verifyRules reports what is wrong with the policy of one family.
func (c *conn) verifyRules(family uint8) error {
	have, _, err := c.rules(family)
	if err != nil {
		return fmt.Errorf("read rules: %w", err)
	}
	if !startsWith(have, sealedRules(family)) {
		return errors.New("other rules are consulted before the seal's")
	}
	return nil
}
