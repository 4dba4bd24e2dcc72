package netrules

import (
	"net/netip"
	"testing"
)

// TestNameAt: an address of the pool is turned back into its name, and no other address into one.
func TestNameAt(t *testing.T) {
	for _, i := range []int{0, 1, 253, 254, 255, 254 * 256, PoolSize - 1} {
		if got, ok := poolIndex(PoolAddress(i)); !ok || got != i {
			t.Errorf("address %d (%s) is taken for %d, %v", i, PoolAddress(i), got, ok)
		}
	}
	exact := []string{"a.example", "b.example"}
	for addr, want := range map[string]string{
		"127.64.0.1": "a.example", "127.64.0.2": "b.example", "127.64.0.3": "", "127.64.0.0": "", "127.64.0.255": "",
		"127.0.0.1": "", "127.128.0.1": "", "::1": "",
	} {
		if got := NameAt(exact, netip.MustParseAddr(addr)); got != want {
			t.Errorf("%s stands for %q, want %q", addr, got, want)
		}
	}
	if InPool(netip.MustParseAddr("127.0.0.1")) || !InPool(netip.MustParseAddr("127.127.255.254")) {
		t.Error("the range is another")
	}
}
