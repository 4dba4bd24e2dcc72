package netrules

import (
	"slices"
	"strings"
)

// specialLabels end names that mean something else to a network, a resolver or a search list
// (RFC 6761, 6762, 7686, 8375, 9476; ICANN's "internal").
var specialLabels = []string{
	"local", "localdomain", "internal", "intranet", "private", "lan", "home", "corp", "arpa", "invalid",
	"onion", "alt",
}

// Local returns the reason why a canonical name has no meaning outside of one network, or "".
func Local(name string) string {
	i := strings.LastIndexByte(name, '.')
	switch {
	case i < 0:
		return "a name of one label"
	case slices.Contains(specialLabels, name[i+1:]):
		return "a name of a network of its own"
	}
	return ""
}
