package names

import (
	"net/netip"

	"agentjail.dev/runtime/network/names/internal/helperproto"
)

// IsAddress reports whether an address stands for a name in jails.
func IsAddress(a netip.Addr) bool {
	_, ok := helperproto.Index(a)
	return ok
}

// AtAddress returns the name that an address stands for in a jail: exact are the exact names of all
// its rules, in the order in which they were first there. It is "" for names of wildcards, which
// the helper alone knows.
func AtAddress(exact []string, a netip.Addr) string {
	if i, ok := helperproto.Index(a); ok && i < len(exact) {
		return exact[i]
	}
	return ""
}
