package egress

import (
	"errors"
	"fmt"
	"net/netip"

	"agentjail.dev/runtime/spec/netrules"
)

// A addrClass is a part of the address space with its name.
type addrClass struct {
	prefix netip.Prefix
	what   string
}

func addrClasses(rows ...string) []addrClass {
	var out []addrClass
	for i := 0; i < len(rows); i += 2 {
		out = append(out, addrClass{netip.MustParsePrefix(rows[i]), rows[i+1]})
	}
	return out
}

// refusedAddrs are the classes that every rule refuses. The first match determines the reason.
var refusedAddrs = addrClasses(
	"0.0.0.0/8", "an address of this network",
	"127.0.0.0/8", "a loopback address",
	"169.254.0.0/16", "a link-local address, as of metadata services",
	"100.100.100.200/32", "a metadata service", // Alibaba Cloud
	"168.63.129.16/32", "a metadata service", // Azure
	"192.0.0.0/24", "a reserved address", // RFC 6890; Oracle Cloud's metadata is 192.0.0.192
	"192.0.2.0/24", "an address for documentation",
	"198.51.100.0/24", "an address for documentation",
	"203.0.113.0/24", "an address for documentation",
	"192.88.99.0/24", "a relay of 6to4", // RFC 7526
	"198.18.0.0/15", "an address for benchmarks",
	"224.0.0.0/4", "a multicast address",
	"240.0.0.0/4", "a reserved address", // RFC 1112; 255.255.255.255 is broadcast

	"::/128", "an unspecified address",
	"::1/128", "a loopback address",
	"::/96", "an IPv4 address in IPv6",
	"64:ff9b::/96", "an IPv4 address in IPv6",
	"64:ff9b:1::/48", "an IPv4 address in IPv6",
	"fe80::/10", "a link-local address",
	"ff00::/8", "a multicast address",
	"2001::/32", "an IPv4 address in IPv6", // Teredo
	"2001::/23", "a reserved address", // RFC 2928
	"2001:db8::/32", "an address for documentation",
	"3fff::/20", "an address for documentation", // RFC 9637
	"2002::/16", "an IPv4 address in IPv6", // 6to4
	"fd00:ec2::/32", "a metadata service", // Amazon
	"fd20:ce::254/128", "a metadata service", // Google
	"fd00:c1::a9fe:a9fe/128", "a metadata service", // Oracle
	"fd00:42::42/128", "a metadata service", // Scaleway
)

// privateAddrs are the classes that are refused unless the rule allows them.
var privateAddrs = addrClasses(
	"10.0.0.0/8", "a private address",
	"172.16.0.0/12", "a private address",
	"192.168.0.0/16", "a private address",
	"100.64.0.0/10", "a shared address",
	"fc00::/7", "a private address",
)

// errPrivate is wrapped by the error for an address that an entry's option lets through.
var errPrivate = errors.New("remedy: the option private of an entry with the exact name")

var globalUnicast = netip.MustParsePrefix("2000::/3")

// judgeAddr returns an error if a connection that a rule allows may not go to this address, to
// which its name was resolved outside. A hostile name server must not be able to lead a name of the
// policy to the host, or to services that trust a client for its address (DNS rebinding). own
// reports whether an address is one of the host's. The caller dials the address that was judged,
// unmapped, and does not resolve again.
//
// # What is refused
//
// Refused under every rule: the host's own addresses, loopback, "this network", link-local,
// multicast, broadcast and reserved addresses, those for documentation and benchmarks (IANA's
// special-purpose registries, RFC 6890), the metadata services of clouds also where their addresses
// are ordinary, and IPv6 addresses that stand for an IPv4 address: compatible, translated (NAT64,
// RFC 6052 and RFC 8215), 6to4, Teredo, ISATAP. A mapped address (RFC 4291 2.5.5.2) is the IPv4
// address to every socket, and is judged as it. Of IPv6 only global unicast (2000::/3) passes.
//
// Private addresses (RFC 1918), shared ones (RFC 6598) and unique local ones (RFC 4193) pass if the
// rule has the option "private", or is for this very address.
//
// Prefixes of a network's own NAT64 and directed broadcasts look like any other address, and pass.
func judgeAddr(addr netip.Addr, rule *netrules.Rule, own func(netip.Addr) bool) error {
	if !addr.IsValid() || addr.Zone() != "" || rule == nil || own == nil {
		return fmt.Errorf("%s cannot be judged", addr)
	}
	addr = addr.Unmap()
	if what := classOf(refusedAddrs, addr); what != "" {
		return fmt.Errorf("%s is %s", addr, what)
	}
	if isISATAP(addr) {
		return fmt.Errorf("%s is an IPv4 address in IPv6", addr)
	}
	if own(addr) {
		return fmt.Errorf("%s is an address of this host", addr)
	}
	if rule.Addr.IsValid() && rule.Addr.Unmap() != addr {
		return fmt.Errorf("%s is not the address of the rule", addr)
	}
	if what := classOf(privateAddrs, addr); what != "" {
		if rule.Addr.IsValid() || rule.Private && !rule.Wildcard {
			return nil
		}
		return fmt.Errorf("%s is %s (%w)", addr, what, errPrivate)
	}
	if addr.Is6() && !globalUnicast.Contains(addr) {
		return fmt.Errorf("%s is a reserved address", addr)
	}
	return nil
}

func classOf(classes []addrClass, addr netip.Addr) string {
	for _, c := range classes {
		if c.prefix.Contains(addr) {
			return c.what
		}
	}
	return ""
}

// isISATAP reports whether an address ends in an IPv4 address as RFC 5214 6.1 writes it.
func isISATAP(addr netip.Addr) bool {
	b := addr.As16()
	return addr.Is6() && b[8]&^2 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe
}
