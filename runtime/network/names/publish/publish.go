// Package publish reads what of a jail's ports can be connected to from outside: what policy lets be published, and what a jail publishes.
//
//	may   = [ addr ":" ] port [ "-" port ]     ; policy's network.publish
//	entry = [ addr ":" ] port ":" port         ; --publish and the annotation: where is listened, and the jail's port
//	addr  = ipv4 / "[" ipv6 "]"                ; 127.0.0.1 when none
//	port  = 1 to 65535, decimal
//
// An entry is within policy by the port where is listened, and by its address: that of the policy, or any of its family where policy says
// 0.0.0.0 or [::].
package publish

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"agentjail.dev/runtime/refusal"
)

// Bounds of what is read.
const (
	MaxEntries = 32
	maxText    = 64 // bytes of an entry
)

// A Range is what policy lets be published.
type Range struct {
	Addr        netip.Addr
	First, Last uint16
}

// An Entry is a port of a jail's that can be connected to from outside.
type Entry struct {
	At   netip.AddrPort `json:"at"`   // where is listened
	Port uint16         `json:"port"` // in the jail, on loopback
}

// String is the entry in full, as Parse reads it.
func (e Entry) String() string { return fmt.Sprintf("%s:%d", e.At, e.Port) }

// ParseRange reads an entry of policy's.
func ParseRange(text string) (Range, error) {
	addr, rest, err := address(text)
	if err != nil {
		return Range{}, err
	}
	first, last, ranged := strings.Cut(rest, "-")
	if !ranged {
		last = first
	}
	r := Range{Addr: addr}
	var ok, ok2 bool
	if r.First, ok = port(first); ok {
		r.Last, ok2 = port(last)
	}
	if !ok2 || r.Last < r.First {
		return Range{}, fmt.Errorf("%q is not [ADDRESS:]PORT[-PORT]", text)
	}
	return r, nil
}

// Parse reads what a jail publishes.
func Parse(text string) (Entry, error) {
	addr, rest, err := address(text)
	if err != nil {
		return Entry{}, err
	}
	out, in, _ := strings.Cut(rest, ":")
	at, ok := port(out)
	to, ok2 := port(in)
	if !ok || !ok2 {
		return Entry{}, fmt.Errorf("%q is not [ADDRESS:]PORT:JAILPORT", text)
	}
	return Entry{At: netip.AddrPortFrom(addr, at), Port: to}, nil
}

// List reads several entries. No two listen at the same place.
func List(texts []string) ([]Entry, error) {
	if len(texts) > MaxEntries {
		return nil, fmt.Errorf("%d ports, and at most %d can be published", len(texts), MaxEntries)
	}
	var out []Entry
	for _, text := range texts {
		e, err := Parse(text)
		if err != nil {
			return nil, err
		}
		for _, o := range out {
			if o.At.Port() == e.At.Port() && overlap(o.At.Addr(), e.At.Addr()) {
				return nil, fmt.Errorf("%s and %s listen at the same place", o, e)
			}
		}
		out = append(out, e)
	}
	return out, nil
}

func overlap(a, b netip.Addr) bool {
	return a == b || a.Is4() == b.Is4() && (a.IsUnspecified() || b.IsUnspecified())
}

// Within says by an error, a refusal, that policy does not let an entry be published.
func Within(may []Range, e Entry) error {
	for _, r := range may {
		if e.At.Port() >= r.First && e.At.Port() <= r.Last && covers(r.Addr, e.At.Addr()) {
			return nil
		}
	}
	return refusal.New(refusal.Network, "policy does not let %s be published", e.At).WithRemedy("network.publish = [%q]", e.At)
}

func covers(may, a netip.Addr) bool {
	return may == a || may.IsUnspecified() && may.Is4() == a.Is4()
}

// address reads the address that an entry begins with, and returns the rest.
func address(text string) (netip.Addr, string, error) {
	host, rest := "127.0.0.1", text
	if len(text) > maxText {
		return netip.Addr{}, "", fmt.Errorf("%q...: too long for a port to publish", text[:maxText])
	}
	if inner, ok := strings.CutPrefix(text, "["); ok {
		var closed bool
		if host, rest, closed = strings.Cut(inner, "]:"); !closed || !strings.Contains(host, ":") {
			return netip.Addr{}, "", fmt.Errorf("%q: an IPv6 address is written [ADDRESS]:PORT", text)
		}
	} else if before, after, ok := strings.Cut(text, ":"); ok && strings.Contains(before, ".") {
		host, rest = before, after
	}
	a, err := netip.ParseAddr(host)
	if err != nil || a.Zone() != "" || a.Is4In6() || a.IsMulticast() {
		return netip.Addr{}, "", fmt.Errorf("%q: %q is no address to listen at", text, host)
	}
	return a, rest, nil
}

// port reads a port as it is written by everybody: without a sign, and without a zero before it.
func port(text string) (uint16, bool) {
	n, err := strconv.ParseUint(text, 10, 16)
	return uint16(n), err == nil && n > 0 && text[0] != '0'
}
