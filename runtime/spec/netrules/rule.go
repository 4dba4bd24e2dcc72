package netrules

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// Limits of parsing. They bound memory and the length of reports.
const (
	// maxEntries bounds the rules of a set, presets included.
	maxEntries = 4096
	maxText    = 512 // bytes of one entry
	maxPorts   = 16  // of one entry
)

// TLSAny is the value of Rule.TLS that lets any bytes pass where TLS would be checked.
const TLSAny = "any"

// defaultPorts are the ports of an allowed name without ports.
var defaultPorts = []uint16{443, 80}

// A Rule is one entry, parsed.
type Rule struct {
	// Text is the entry as written in the policy, preset or annotation.
	Text string
	// Name is the canonical name, for a wildcard without its "*."; "" for an address.
	Name string
	// Wildcard reports that the rule is for every name below Name, and not for Name.
	Wildcard bool
	// Addr is the address of a rule for an address, and not valid for a name.
	Addr netip.Addr
	// Ports are the ports of the rule; in a deny rule an empty list means all.
	Ports []uint16
	// Deny reports that the rule is in the deny list.
	Deny bool
	// TLS is "" if the ClientHello must contain the rule's name, or TLSAny.
	TLS string
	// Private lets the name lead to a private address.
	Private bool
	// ECH lets an encrypted ClientHello pass (RFC 9849).
	ECH bool
	// Preset is the preset that the entry comes from, without its @; "" for none.
	Preset string
}

// String returns the canonical text of a rule. Parsed again, the text yields the same rule, but for
// Text and Preset.
func (r Rule) String() string {
	var b strings.Builder
	switch {
	case r.Addr.Is6():
		b.WriteString("[" + r.Addr.String() + "]")
	case r.Addr.IsValid():
		b.WriteString(r.Addr.String())
	case r.Wildcard:
		b.WriteString("*." + r.Name)
	default:
		b.WriteString(r.Name)
	}
	for i, port := range r.Ports {
		b.WriteByte(":,"[min(i, 1)])
		b.WriteString(strconv.Itoa(int(port)))
	}
	for _, o := range []struct {
		text string
		on   bool
	}{{" private", r.Private}, {" tls=any", r.TLS == TLSAny}, {" ech", r.ECH}} {
		if o.on {
			b.WriteString(o.text)
		}
	}
	return b.String()
}

// ParseEntry parses one entry of the deny list or of the allow list. The entry is not a preset.
func ParseEntry(text string, deny bool) (Rule, error) {
	if len(text) > maxText {
		return Rule{}, fmt.Errorf("an entry of %d bytes, at most %d", len(text), maxText)
	}
	target, options, more := strings.Cut(text, " ")
	r := Rule{Text: text, Deny: deny}
	if more {
		if err := r.options(options, deny); err != nil {
			return Rule{}, fmt.Errorf("entry %q: %w", text, err)
		}
	}
	if err := r.target(target, deny); err != nil {
		return Rule{}, fmt.Errorf("entry %q: %w", text, err)
	}
	if r.Private && r.Wildcard {
		return Rule{}, fmt.Errorf("entry %q: private is for exact names only: the owner of the zone chooses where a wildcard's names lead", text)
	}
	return r, nil
}

// options parses the text after the target.
func (r *Rule) options(text string, deny bool) error {
	if deny {
		return errors.New("an option in the deny list")
	}
	for word := range strings.SplitSeq(text, " ") {
		var twice bool
		switch word {
		case "private":
			r.Private, twice = true, r.Private
		case "tls=any":
			r.TLS, twice = TLSAny, r.TLS == TLSAny
		case "ech":
			r.ECH, twice = true, r.ECH
		default:
			return fmt.Errorf("unknown option %q (remedy: private, tls=any or ech)", word)
		}
		if twice {
			return fmt.Errorf("option %s twice", word)
		}
	}
	return nil
}

// target parses a name or address, and ports.
func (r *Rule) target(text string, deny bool) error {
	host, ports, hasPorts, err := splitTarget(text)
	if err != nil {
		return err
	}
	if hasPorts {
		if r.Ports, err = parsePorts(ports); err != nil {
			return err
		}
	}
	if addr, ok := literal(host); ok {
		if !hasPorts && !deny {
			return errors.New("an address needs a port (remedy: ADDRESS:PORT, [ADDRESS]:PORT for IPv6)")
		}
		r.Addr = addr
		return nil
	}
	if strings.HasPrefix(host, "[") {
		return errors.New("no IPv6 address in the brackets")
	}
	if !hasPorts && !deny {
		r.Ports = slices.Clone(defaultPorts)
	}
	host, r.Wildcard = strings.CutPrefix(host, "*.")
	if r.Name, err = ascii(host); err != nil {
		if strings.Contains(host, "*") {
			return errors.New("a wildcard is one leading \"*.\"")
		}
		return err
	}
	if r.Wildcard && !deny && !strings.Contains(r.Name, ".") {
		return errors.New("a wildcard needs at least two labels after \"*.\"")
	}
	return nil
}

// splitTarget splits a target into the host and the text of its ports. An IPv6 address stays in its
// brackets.
func splitTarget(text string) (host, ports string, hasPorts bool, err error) {
	if _, _, url := strings.Cut(text, "://"); url {
		return "", "", false, errors.New("a URL (remedy: the name alone, as in example.org or example.org:443)")
	}
	if strings.HasPrefix(text, "[") {
		end := strings.IndexByte(text, ']')
		if end < 0 {
			return "", "", false, errors.New("a bracket is not closed")
		}
		host, text = text[:end+1], text[end+1:]
		if text == "" {
			return host, "", false, nil
		}
		if ports, ok := strings.CutPrefix(text, ":"); ok {
			return host, ports, true, nil
		}
		return "", "", false, errors.New("no port after the bracket")
	}
	host, ports, hasPorts = strings.Cut(text, ":")
	if strings.Contains(ports, ":") {
		return "", "", false, errors.New("an IPv6 address stands in brackets, with a port: [ADDRESS]:PORT")
	}
	return host, ports, hasPorts, nil
}

// literal parses a host that is an address in its usual form. IPv4 inside IPv6 is the IPv4 address
// (RFC 4291 2.5.5.2). An address with a zone is not accepted.
func literal(host string) (netip.Addr, bool) {
	v6 := strings.HasPrefix(host, "[")
	if v6 {
		host = host[1 : len(host)-1]
	}
	addr, err := netip.ParseAddr(host)
	if err != nil || addr.Zone() != "" || addr.Is6() != v6 {
		return netip.Addr{}, false
	}
	return addr.Unmap(), true
}

// ascii returns the canonical name of a host of policy, which may have letters other than ASCII.
func ascii(host string) (string, error) {
	for i := 0; i < len(host); i++ {
		if host[i] >= 0x80 {
			if !utf8.ValidString(host) { // idna reads such bytes as U+FFFD
				return "", errors.New("a name that is not UTF-8")
			}
			a, err := idna.Lookup.ToASCII(host)
			if err != nil {
				return "", fmt.Errorf("reading an internationalised name: %w", err)
			}
			host = a
			break
		}
	}
	return Canonical(host)
}

// parsePorts parses the list of ports after the colon.
func parsePorts(text string) ([]uint16, error) {
	var out []uint16
	for word := range strings.SplitSeq(text, ",") {
		if len(out) == maxPorts {
			return nil, fmt.Errorf("more than %d ports", maxPorts)
		}
		port, err := ParsePort(word)
		if err != nil {
			return nil, err
		}
		if slices.Contains(out, port) {
			return nil, fmt.Errorf("port %d twice", port)
		}
		out = append(out, port)
	}
	return out, nil
}

// ParsePort parses a port: 1 to 65535 in decimal digits only, without sign, space or leading zero.
func ParsePort(text string) (uint16, error) {
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n == 0 || text[0] == '0' || text[0] == '+' {
		return 0, fmt.Errorf("%q is no port", text)
	}
	return uint16(n), nil
}
