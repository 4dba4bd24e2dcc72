package names

import (
	"net/netip"
	"testing"

	"agentjail.dev/runtime/network/names/internal/helperproto"
)

// TestAtAddress: an address of the pool is turned back into its name, and no other address into one.
func TestAtAddress(t *testing.T) {
	for _, i := range []int{0, 1, 253, 254, 255, 254 * 256, helperproto.Addresses - 1} {
		if got, ok := helperproto.Index(helperproto.Address(i)); !ok || got != i {
			t.Errorf("address %d (%s) is taken for %d, %v", i, helperproto.Address(i), got, ok)
		}
	}
	exact := []string{"a.example", "b.example"}
	for addr, want := range map[string]string{
		"127.64.0.1": "a.example", "127.64.0.2": "b.example", "127.64.0.3": "", "127.64.0.0": "", "127.64.0.255": "",
		"127.0.0.1": "", "127.128.0.1": "", "::1": "",
	} {
		if got := AtAddress(exact, netip.MustParseAddr(addr)); got != want {
			t.Errorf("%s stands for %q, want %q", addr, got, want)
		}
	}
	if IsAddress(netip.MustParseAddr("127.0.0.1")) || !IsAddress(netip.MustParseAddr("127.127.255.254")) {
		t.Error("the range is another")
	}
}
