// Package publish parses a jail's published ports: those that policy allows, and those that a jail
// requests.
//
//	may   = [ addr ":" ] ports / engine        ; policy's network.publish
//	entry = [ addr ":" ] port ":" port         ; --publish, annotation: listening port, jail's port
//	      / engine
//	engine = "engine" [ ":" ports ]            ; connections in the engine's network for the jail
//	ports = port [ "-" port ]                  ; default: all ports
//	addr  = ipv4 / "[" ipv6 "]"                ; default: 127.0.0.1
//	port  = 1 to 65535, decimal
//
// An entry is within policy if its listening port and address are. The address must be the
// policy's, or any of the same family if policy has 0.0.0.0 or [::].
package publish

import (
	"fmt"
	"net/netip"
	"strings"

	"agentjail.dev/runtime/refusal"
	"agentjail.dev/runtime/spec/netrules"
)

// Bounds of parsing.
const (
	MaxEntries = 32
	maxText    = 64 // bytes of an entry
)

// A Range is a range of ports that policy allows to publish.
type Range struct {
	Addr        netip.Addr
	First, Last uint16
}

// An Entry is one published port of a jail.
type Entry struct {
	At   netip.AddrPort `json:"at"`   // where is listened
	Port uint16         `json:"port"` // in the jail, on loopback
}

// Engine begins an entry for ports of the network that the engine has made for the jail. The
// engine's published ports lead to that network.
const Engine = "engine"

// IsEngine reports whether an entry is for the engine's network.
func IsEngine(text string) bool { return text == Engine || strings.HasPrefix(text, Engine+":") }

// ParseEngine parses an entry for the engine's network. Its range has no address.
func ParseEngine(text string) (Range, error) {
	if text == Engine {
		return Range{First: 1, Last: 65535}, nil
	}
	rest, ok := strings.CutPrefix(text, Engine+":")
	r := Range{}
	if ok = ok && len(text) <= maxText; ok {
		r.First, r.Last, ok = ports(rest)
	}
	if !ok {
		return Range{}, fmt.Errorf("%.64q is not %s[:PORT[-PORT]]", text, Engine)
	}
	return r, nil
}

// Has reports whether a range includes a port.
func (r Range) Has(port uint16) bool { return port >= r.First && port <= r.Last }

// WithinEngine returns a refusal if policy does not allow to publish the ports of an engine's
// network.
func WithinEngine(may []Range, r Range) error {
	for _, m := range may {
		if m.Has(r.First) && m.Has(r.Last) {
			return nil
		}
	}
	return refusal.New(refusal.Network, "policy does not let the engine's ports %d-%d be published", r.First,
		r.Last).WithRemedy("network.publish = [\"%s:%d-%d\"]", Engine, r.First, r.Last)
}

// String returns the whole entry, in the form that Parse reads.
func (e Entry) String() string { return fmt.Sprintf("%s:%d", e.At, e.Port) }

// ParseRange parses an entry of policy.
func ParseRange(text string) (Range, error) {
	addr, rest, err := address(text)
	if err != nil {
		return Range{}, err
	}
	r, ok := Range{Addr: addr}, false
	if r.First, r.Last, ok = ports(rest); !ok {
		return Range{}, fmt.Errorf("%q is not [ADDRESS:]PORT[-PORT]", text)
	}
	return r, nil
}

// ports parses PORT[-PORT].
func ports(text string) (from, to uint16, ok bool) {
	first, last, ranged := strings.Cut(text, "-")
	if !ranged {
		last = first
	}
	from, err := netrules.ParsePort(first)
	if err == nil {
		to, err = netrules.ParsePort(last)
	}
	return from, to, err == nil && to >= from
}

// Parse parses an entry that a jail publishes.
func Parse(text string) (Entry, error) {
	addr, rest, err := address(text)
	if err != nil {
		return Entry{}, err
	}
	out, in, _ := strings.Cut(rest, ":")
	at, err := netrules.ParsePort(out)
	to, err2 := netrules.ParsePort(in)
	if err != nil || err2 != nil {
		return Entry{}, fmt.Errorf("%q is not [ADDRESS:]PORT:JAILPORT", text)
	}
	return Entry{At: netip.AddrPortFrom(addr, at), Port: to}, nil
}

// List parses several entries. No two may listen at the same address and port. Entries for the
// engine's network are returned apart.
func List(texts []string) (out []Entry, engine []Range, err error) {
	if len(texts) > MaxEntries {
		return nil, nil, fmt.Errorf("%d ports, and at most %d can be published", len(texts), MaxEntries)
	}
	for _, text := range texts {
		if IsEngine(text) {
			r, err := ParseEngine(text)
			if err != nil {
				return nil, nil, err
			}
			engine = append(engine, r)
			continue
		}
		e, err := Parse(text)
		if err != nil {
			return nil, nil, err
		}
		for _, o := range out {
			if o.At.Port() == e.At.Port() && overlap(o.At.Addr(), e.At.Addr()) {
				return nil, nil, fmt.Errorf("%s and %s listen at the same place", o, e)
			}
		}
		out = append(out, e)
	}
	return out, engine, nil
}

func overlap(a, b netip.Addr) bool {
	return a == b || a.Is4() == b.Is4() && (a.IsUnspecified() || b.IsUnspecified())
}

// Within returns a refusal if policy does not allow to publish an entry.
func Within(may []Range, e Entry) error {
	for _, r := range may {
		if r.Has(e.At.Port()) && covers(r.Addr, e.At.Addr()) {
			return nil
		}
	}
	return refusal.New(refusal.Network, "policy does not let %s be published", e.At).WithRemedy("network.publish = [%q]", e.At)
}

func covers(may, a netip.Addr) bool {
	return may == a || may.IsUnspecified() && may.Is4() == a.Is4()
}

// address parses the address that an entry begins with, and returns the rest.
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
