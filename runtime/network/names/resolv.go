package names

import (
	"net"
	"net/netip"
	"strings"

	"agentjail.dev/runtime/spec/netrules"
)

// maxServers bounds the name servers that are queried (resolv.conf(5): MAXNS is 3).
const maxServers = 3

// searches returns the search domains of a resolv.conf(5).
func searches(text string) []string {
	var out []string
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 2 || f[0] != "search" && f[0] != "domain" {
			continue
		}
		for _, domain := range f[1:] {
			if name, err := netrules.Canonical(domain); err == nil {
				out = append(out, name)
			}
		}
	}
	return out
}

// servers returns the name servers of a resolv.conf(5), as ADDRESS:PORT. The default is a server on
// the host itself, as in the C library.
func servers(text string) []string {
	var out []string
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 2 || f[0] != "nameserver" || len(out) == maxServers {
			continue
		}
		if a, err := netip.ParseAddr(f[1]); err == nil {
			out = append(out, net.JoinHostPort(a.String(), "53"))
		}
	}
	if out == nil {
		out = []string{"127.0.0.1:53"}
	}
	return out
}
