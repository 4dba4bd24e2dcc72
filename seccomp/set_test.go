package seccomp

import (
	"math"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/seccomp/bpf/filtertest"
)

// Sets are held against their members. The numbers are those where anything
// can change: small ones, powers of two, the ends, each with its neighbours.
func TestSetAlgebra(t *testing.T) {
	var numbers []uint64
	for v := range uint64(50) {
		numbers = append(numbers, v, math.MaxUint64-v, 1<<32|v, 1<<63|v, 1<<63|1<<32|v)
	}
	for bit := 5; bit < 64; bit++ {
		numbers = append(numbers, 1<<bit-1, 1<<bit, 1<<bit+1, 1<<bit|7)
	}
	ops := []specs.LinuxSeccompOperator{specs.OpEqualTo, specs.OpNotEqual, specs.OpLessThan, specs.OpLessEqual, specs.OpGreaterEqual, specs.OpGreaterThan}
	var sets []set
	add := func(op specs.LinuxSeccompOperator, value, two uint64) {
		s, none, ok := toSet(op, value, two)
		if !ok {
			t.Fatalf("%s is not read", op)
		}
		for _, x := range numbers {
			want, _ := filtertest.Matches([]specs.LinuxSeccompArg{{Op: op, Value: value, ValueTwo: two}}, [6]uint64{x})
			if got := !none && s.has(x); got != want {
				t.Fatalf("%#x in %s %#x %#x: %v", x, op, value, two, got)
			}
		}
		if !none {
			sets = append(sets, s)
		}
	}
	for _, v := range []uint64{0, 1, 2, 3, 7, 8, 15, 16, 1 << 32, 1<<32 + 1, 1 << 63, math.MaxUint64 - 1, math.MaxUint64} {
		for _, op := range ops {
			add(op, v, 0)
		}
	}
	for _, m := range []uint64{0, 1, 2, 3, 6, 15, 0xfffffff8, 0xffffffff, 0xffffffff << 32, 1 << 63, math.MaxUint64 &^ 1, math.MaxUint64} {
		for _, v := range []uint64{0, 1, 2, 4, 8, 40, 1 << 32, 1 << 63, math.MaxUint64} {
			add(specs.OpMaskedEqual, m, v)
			add(specs.OpMaskedEqual, m, v&m)
		}
	}
	within, apart, inexact := 0, 0, 0
	for _, a := range sets {
		if n, ok := a.not(); ok {
			for _, x := range numbers {
				if n.has(x) == a.has(x) {
					t.Fatalf("%#x is both in %+v and its complement %+v, or in neither", x, a, n)
				}
			}
		}
		for _, b := range sets {
			sub, sep := a.subsetOf(b), a.apart(b)
			m, empty, exact := a.meet(b)
			if sub {
				within++
			}
			if sep {
				apart++
			}
			if !exact {
				inexact++
				if !empty {
					t.Fatalf("%+v and %+v: inexact but not empty", a, b)
				}
			}
			if sep != b.apart(a) || sub && sep {
				t.Fatalf("%+v and %+v: within %v, apart %v, the other way apart %v", a, b, sub, sep, b.apart(a))
			}
			outside, both := false, false
			for _, x := range append(numbers, a.value|b.value&^a.mask, a.value|^a.mask, b.value|^b.mask) {
				outside = outside || a.has(x) && !b.has(x)
				both = both || a.has(x) && b.has(x)
				if exact && (!empty && m.has(x)) != (a.has(x) && b.has(x)) {
					t.Fatalf("%#x: %+v meets %+v in %+v (empty %v)", x, a, b, m, empty)
				}
			}
			if sub == outside || sep == both {
				t.Fatalf("%+v and %+v: within %v, apart %v; members state outside %v, both %v", a, b, sub, sep, outside, both)
			}
		}
	}
	if n := len(sets) * len(sets); within == 0 || apart == 0 || inexact > n/4 {
		t.Errorf("of %d pairs %d within, %d apart, %d inexact", n, within, apart, inexact)
	}
}

func TestMaskedNext(t *testing.T) {
	for _, s := range []set{{masked, 6, 4}, {masked, 1, 1}, {masked, 0xf0, 0x30}, {masked, math.MaxUint64, 5}, {masked, 1 << 63, 0}, {masked, 0x81, 0x80}} {
		for lo := range uint64(600) {
			want, found := uint64(0), false
			for x := lo; x < 1400; x++ {
				if s.has(x) {
					want, found = x, true
					break
				}
			}
			got, ok := s.next(lo)
			if ok != found || ok && got != want {
				t.Fatalf("smallest member of %+v from %d: %d %v, want %d %v", s, lo, got, ok, want, found)
			}
		}
	}
}

// Together, rules may allow what none of them does alone.
func TestCovered(t *testing.T) {
	one := func(i int, op specs.LinuxSeccompOperator, v, two uint64) args {
		s, _, _ := toSet(op, v, two)
		var a args
		a[i] = s
		return a
	}
	low := func(v uint64) args { return one(0, specs.OpMaskedEqual, 0xffffffff, v) }
	families := []args{one(0, specs.OpLessThan, 38, 0), one(0, specs.OpEqualTo, 39, 0), one(0, specs.OpGreaterThan, 40, 0)}
	for _, c := range []struct {
		name  string
		a     args
		rules []args
		want  bool
	}{
		{"family 1 of all but 38 and 40", low(1), families, true},
		{"family 38", low(38), families, false},
		{"family 40", low(40), families, false},
		{"everything", args{}, families, false},
		{"everything, by halves", args{}, []args{one(1, specs.OpLessThan, 9, 0), one(1, specs.OpGreaterEqual, 9, 0)}, true},
		{"everything, by a gap of one", args{}, []args{one(1, specs.OpLessThan, 9, 0), one(1, specs.OpGreaterThan, 9, 0)}, false},
		{"halves of different arguments", args{}, []args{one(1, specs.OpLessThan, 9, 0), one(2, specs.OpGreaterEqual, 9, 0)}, false},
	} {
		if got := covered(c.a, c.rules); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}
