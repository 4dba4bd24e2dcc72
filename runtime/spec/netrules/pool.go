package netrules

import "net/netip"

// Pool holds the addresses that stand for names in a jail.
var Pool = netip.MustParsePrefix("127.64.0.0/10")

// PoolSize is how many addresses of Pool are used: those that end in 1 to 254.
const PoolSize = 254 * 16384

// PoolAddress returns the i-th address of Pool.
func PoolAddress(i int) netip.Addr {
	block := i / 254
	return netip.AddrFrom4([4]byte{127, byte(64 + block>>8), byte(block), byte(1 + i%254)})
}

// poolIndex returns which address of Pool one is; ok is false for others.
func poolIndex(a netip.Addr) (i int, ok bool) {
	if !Pool.Contains(a) {
		return 0, false
	}
	b := a.As4()
	i = (int(b[1]-64)<<8|int(b[2]))*254 + int(b[3]) - 1
	return i, b[3] > 0 && b[3] < 255
}

// InPool reports whether an address stands for a name in jails.
func InPool(a netip.Addr) bool {
	_, ok := poolIndex(a)
	return ok
}

// NameAt returns the name that an address stands for in a jail: exact are the exact names of all
// its rules, in the order in which they were first there. It is "" for names of wildcards, which
// the helper alone knows.
func NameAt(exact []string, a netip.Addr) string {
	if i, ok := poolIndex(a); ok && i < len(exact) {
		return exact[i]
	}
	return ""
}
