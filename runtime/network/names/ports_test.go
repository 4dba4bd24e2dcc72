package names

import (
	"testing"

	"agentjail.dev/runtime/network/names/internal/helperproto"
	"agentjail.dev/runtime/spec/network"
)

// TestShare: jails' shares are of one half alone, and of jails that follow each other they have no port in common while there are enough.
func TestShare(t *testing.T) {
	for _, all := range []helperproto.Ports{{First: 32768, Last: 60999}, {First: 1024, Last: 65535}, {First: 40000, Last: 47999}, {First: 50000, Last: 50009}, {First: 7, Last: 8}} {
		half := (int(all.Last) - int(all.First) + 1) / 2
		shares := max(1, half/minShare)
		used := map[uint16]uint32{}
		for n := range uint32(3 * shares) {
			p := share(all, n)
			if p.First > p.Last || p.Last > all.Last || int(p.First) < int(all.Last)+1-half {
				t.Fatalf("%v: share %d is %v", all, n, p)
			}
			if size := int(p.Last) - int(p.First) + 1; half >= minShare && size < minShare {
				t.Errorf("%v: share %d has %d ports", all, n, size)
			}
			for port := int(p.First); port <= int(p.Last); port++ {
				if other, taken := used[uint16(port)]; taken && n < uint32(shares) {
					t.Fatalf("%v: port %d is of %d and %d", all, port, other, n)
				}
				used[uint16(port)] = n
			}
		}
	}
	if p := share(helperproto.Ports{First: 9, Last: 9}, 3); p != (helperproto.Ports{First: 9, Last: 9}) {
		t.Errorf("of one port: %v", p)
	}
}

// TestPorts: a jail has the share of its number.
func TestPorts(t *testing.T) {
	a, err := ports(network.Jail{HelperID: 5<<16 + 65535})
	if err != nil {
		t.Fatal(err)
	}
	b, err := ports(network.Jail{HelperID: 6<<16 + 65535})
	if err != nil || a.First == 0 || a.First > a.Last {
		t.Fatalf("%v, %v, %v", a, b, err)
	}
	if number(network.Jail{HelperID: 6<<16 + 65535}) != 6 || number(network.Jail{Key: "a"}) == number(network.Jail{Key: "b"}) {
		t.Error("jails have the same number")
	}
}
