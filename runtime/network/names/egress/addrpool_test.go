package egress

import (
	"fmt"
	"net/netip"
	"testing"

	"agentjail.dev/runtime/spec/netrules"
)

func TestExact(t *testing.T) {
	p := newAddrPool([]string{"a.example", "b.example"})
	for name, want := range map[string]string{"a.example": "127.64.0.1", "b.example": "127.64.0.2"} {
		addr, ok := p.addr(name)
		if !ok || addr.String() != want {
			t.Errorf("%s has %s, want %s", name, addr, want)
		}
		if got, ok := p.name(netip.MustParseAddr("::ffff:" + want)); !ok || got != name {
			t.Errorf("%s is of %q", want, got)
		}
	}
	if _, ok := p.name(netip.MustParseAddr("127.64.0.3")); ok {
		t.Error("an address without an owner has a name")
	}
	if p.hold("c.example") {
		t.Error("a name that is not known is held")
	}
	p.release("c.example")
}

func TestAdd(t *testing.T) {
	p := newAddrPool([]string{"a.example"})
	w, _ := p.addr("w.example")
	if !p.pin([]string{"b.example", "w.example", "a.example"}) {
		t.Fatal("full")
	}
	if b, _ := p.addr("b.example"); b.String() != "127.64.0.2" {
		t.Errorf("b.example has %s", b)
	}
	flood(p, 2*maxWildcard)
	if again, _ := p.addr("w.example"); again != w {
		t.Errorf("a name that was pinned later has %s, had %s", again, w)
	}
	var many []string
	for i := range maxExact + 1 {
		many = append(many, fmt.Sprintf("e%d.example", i))
	}
	if newAddrPool(nil).pin(many) {
		t.Error("more exact names than there are addresses for them")
	}
}

func flood(p *addrPool, n int) {
	for i := range n {
		p.addr(fmt.Sprintf("n%d.flood.example", i))
	}
}

// TestFlood: a jail that requests many names of a wildcard takes no address of another name, and no
// memory.
func TestFlood(t *testing.T) {
	p := newAddrPool([]string{"exact.example"})
	exact, _ := p.addr("exact.example")
	held, _ := p.addr("held.example")
	idle, _ := p.addr("idle.example")
	if !p.hold("held.example") {
		t.Fatal("not held")
	}
	flood(p, 3*maxWildcard)
	if n := len(p.byName); n > maxWildcard+2 {
		t.Errorf("%d names are known", n)
	}
	if len(p.byName) != len(p.byAddr) {
		t.Errorf("%d names, %d addresses", len(p.byName), len(p.byAddr))
	}
	for name, want := range map[string]netip.Addr{"exact.example": exact, "held.example": held} {
		if got, _ := p.addr(name); got != want {
			t.Errorf("%s has %s, had %s", name, got, want)
		}
	}
	if name, ok := p.name(idle); ok {
		t.Errorf("a forgotten name's address is of %s", name)
	}
	if again, _ := p.addr("idle.example"); again == idle {
		t.Error("a forgotten name has its address again")
	}
	p.release("held.example")
	flood(p, 2*maxWildcard+1)
	if _, ok := p.name(held); ok {
		t.Error("a released name is never forgotten")
	}
}

// TestAddresses: all addresses differ, none ends in 0 or 255, and all are of the range.
func TestAddresses(t *testing.T) {
	seen := make([]bool, 1<<22)
	for n := range netrules.PoolSize {
		addr := netrules.PoolAddress(n)
		b := addr.As4()
		if !netrules.Pool.Contains(addr) || b[3] == 0 || b[3] == 255 {
			t.Fatalf("%s", addr)
		}
		i := int(b[1]&63)<<16 | int(b[2])<<8 | int(b[3])
		if seen[i] {
			t.Fatalf("%s a second time", addr)
		}
		seen[i] = true
	}
}

// TestEnd: after the last address new names get none, and known names keep theirs.
func TestEnd(t *testing.T) {
	p := newAddrPool(nil)
	p.next = netrules.PoolSize - 1
	last, ok := p.addr("last.example")
	if !ok {
		t.Fatal("no last address")
	}
	if addr, ok := p.addr("more.example"); ok {
		t.Errorf("%s after the last", addr)
	}
	if again, ok := p.addr("last.example"); !ok || again != last {
		t.Errorf("a known name has %s, had %s", again, last)
	}
	if !p.pin([]string{"exact.example"}) {
		t.Error("a flood leaves no address for a name that policy adds")
	}
}

func FuzzPool(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 64, 65, 128, 129, 200})
	f.Fuzz(func(t *testing.T, ops []byte) {
		p := newAddrPool([]string{"0", "1"})
		was := map[netip.Addr]string{}
		for _, op := range ops {
			name := fmt.Sprint(op & 63)
			switch op >> 6 {
			case 0:
				addr, ok := p.addr(name)
				if other, known := was[addr]; !ok || known && other != name {
					t.Fatalf("%s of %s is given to %s", addr, other, name)
				}
				was[addr] = name
				if got, ok := p.name(addr); !ok || got != name {
					t.Fatalf("%s is of %q", addr, got)
				}
			case 1:
				p.hold(name)
			case 2:
				p.release(name)
			case 3:
				p.pin([]string{name})
			}
		}
	})
}

// TestFrom: wildcard names get no address that was assigned before, and none that is not recorded.
func TestFrom(t *testing.T) {
	p := newAddrPool([]string{"a.example"})
	var told []int
	full := false
	noted := func(below int) bool { told = append(told, below); return !full }
	p.startFrom(0, noted)
	flood(p, noteStep+1)
	if len(told) != 2 || told[0] != maxExact+noteStep || told[1] != maxExact+2*noteStep {
		t.Errorf("noted %v", told)
	}
	last, _ := p.addr("last.example")
	q := newAddrPool([]string{"a.example"})
	q.startFrom(told[1], noted)
	first, ok := q.addr("first.example")
	if !ok || first.Compare(last) <= 0 {
		t.Errorf("%v is given after %v", first, last)
	}
	full = true
	q.startFrom(told[1], noted)
	if at, ok := q.addr("other.example"); ok {
		t.Errorf("%v is given and not noted", at)
	}
	if a, ok := q.addr("a.example"); !ok || a != netrules.PoolAddress(0) {
		t.Errorf("a pinned name has %v", a)
	}
	q.startFrom(netrules.PoolSize, noted)
	if at, ok := q.addr("none.example"); ok {
		t.Errorf("%v is given beyond the last", at)
	}
}
