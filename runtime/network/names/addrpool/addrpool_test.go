package addrpool

import (
	"fmt"
	"net/netip"
	"testing"
)

func TestExact(t *testing.T) {
	p := New([]string{"a.example", "b.example"})
	for name, want := range map[string]string{"a.example": "127.64.0.1", "b.example": "127.64.0.2"} {
		addr, ok := p.Addr(name)
		if !ok || addr.String() != want {
			t.Errorf("%s has %s, want %s", name, addr, want)
		}
		if got, ok := p.Name(netip.MustParseAddr("::ffff:" + want)); !ok || got != name {
			t.Errorf("%s is of %q", want, got)
		}
	}
	if _, ok := p.Name(netip.MustParseAddr("127.64.0.3")); ok {
		t.Error("an address of nobody has a name")
	}
	if p.Hold("c.example") {
		t.Error("a name that is not known is held")
	}
	p.Release("c.example")
}

func TestAdd(t *testing.T) {
	p := New([]string{"a.example"})
	w, _ := p.Addr("w.example")
	if !p.Add([]string{"b.example", "w.example", "a.example"}) {
		t.Fatal("full")
	}
	if b, _ := p.Addr("b.example"); b.String() != "127.64.0.2" {
		t.Errorf("b.example has %s", b)
	}
	flood(p, 2*MaxWildcard)
	if again, _ := p.Addr("w.example"); again != w {
		t.Errorf("a name that was pinned later has %s, had %s", again, w)
	}
	var many []string
	for i := range MaxExact + 1 {
		many = append(many, fmt.Sprintf("e%d.example", i))
	}
	if New(nil).Add(many) {
		t.Error("more exact names than there are addresses for them")
	}
}

func flood(p *Pool, n int) {
	for i := range n {
		p.Addr(fmt.Sprintf("n%d.flood.example", i))
	}
}

// TestFlood: a jail that requests many names of a wildcard takes no address of another name, and no
// memory.
func TestFlood(t *testing.T) {
	p := New([]string{"exact.example"})
	exact, _ := p.Addr("exact.example")
	held, _ := p.Addr("held.example")
	idle, _ := p.Addr("idle.example")
	if !p.Hold("held.example") {
		t.Fatal("not held")
	}
	flood(p, 3*MaxWildcard)
	if n := len(p.byName); n > MaxWildcard+2 {
		t.Errorf("%d names are known", n)
	}
	if len(p.byName) != len(p.byAddr) {
		t.Errorf("%d names, %d addresses", len(p.byName), len(p.byAddr))
	}
	for name, want := range map[string]netip.Addr{"exact.example": exact, "held.example": held} {
		if got, _ := p.Addr(name); got != want {
			t.Errorf("%s has %s, had %s", name, got, want)
		}
	}
	if name, ok := p.Name(idle); ok {
		t.Errorf("a forgotten name's address is of %s", name)
	}
	if again, _ := p.Addr("idle.example"); again == idle {
		t.Error("a forgotten name has its address again")
	}
	p.Release("held.example")
	flood(p, 2*MaxWildcard+1)
	if _, ok := p.Name(held); ok {
		t.Error("a released name is never forgotten")
	}
}

// TestAddresses: all addresses differ, none ends in 0 or 255, and all are of the range.
func TestAddresses(t *testing.T) {
	seen := make([]bool, 1<<22)
	for n := range Total {
		addr := address(n)
		b := addr.As4()
		if !Range.Contains(addr) || b[3] == 0 || b[3] == 255 {
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
	p := New(nil)
	p.next = Total - 1
	last, ok := p.Addr("last.example")
	if !ok {
		t.Fatal("no last address")
	}
	if addr, ok := p.Addr("more.example"); ok {
		t.Errorf("%s after the last", addr)
	}
	if again, ok := p.Addr("last.example"); !ok || again != last {
		t.Errorf("a known name has %s, had %s", again, last)
	}
	if !p.Add([]string{"exact.example"}) {
		t.Error("a flood leaves no address for a name that policy adds")
	}
}

func FuzzPool(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 64, 65, 128, 129, 200})
	f.Fuzz(func(t *testing.T, ops []byte) {
		p := New([]string{"0", "1"})
		was := map[netip.Addr]string{}
		for _, op := range ops {
			name := fmt.Sprint(op & 63)
			switch op >> 6 {
			case 0:
				addr, ok := p.Addr(name)
				if other, known := was[addr]; !ok || known && other != name {
					t.Fatalf("%s of %s is given to %s", addr, other, name)
				}
				was[addr] = name
				if got, ok := p.Name(addr); !ok || got != name {
					t.Fatalf("%s is of %q", addr, got)
				}
			case 1:
				p.Hold(name)
			case 2:
				p.Release(name)
			case 3:
				p.Add([]string{name})
			}
		}
	})
}

// TestFrom: wildcard names get no address that was assigned before, and none that is not recorded.
func TestFrom(t *testing.T) {
	p := New([]string{"a.example"})
	var told []int
	full := false
	noted := func(below int) bool { told = append(told, below); return !full }
	p.From(0, noted)
	flood(p, step+1)
	if len(told) != 2 || told[0] != MaxExact+step || told[1] != MaxExact+2*step {
		t.Errorf("noted %v", told)
	}
	last, _ := p.Addr("last.example")
	q := New([]string{"a.example"})
	q.From(told[1], noted)
	first, ok := q.Addr("first.example")
	if !ok || first.Compare(last) <= 0 {
		t.Errorf("%v is given after %v", first, last)
	}
	full = true
	q.From(told[1], noted)
	if at, ok := q.Addr("other.example"); ok {
		t.Errorf("%v is given and not noted", at)
	}
	if a, ok := q.Addr("a.example"); !ok || a != address(0) {
		t.Errorf("a pinned name has %v", a)
	}
	q.From(Total, noted)
	if at, ok := q.Addr("none.example"); ok {
		t.Errorf("%v is given beyond the last", at)
	}
}
