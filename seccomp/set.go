package seccomp

import (
	"math"
	"math/bits"

	"github.com/opencontainers/runtime-spec/specs-go"
)

// A set is the set of 64-bit values that one comparison of an OCI seccomp
// rule lets through. Every comparison is brought to one of five forms, so that
// containment and overlap can be decided exactly.
type set struct {
	kind  setKind
	mask  uint64 // of kind masked
	value uint64
}

type setKind uint8

const (
	everything setKind = iota // no condition
	masked                    // x & mask == value; equality has all mask bits
	notEqual                  // x != value, value neither 0 nor the maximum
	below                     // x < value, value at least 2
	atLeast                   // x >= value, value at least 1 and below the maximum
)

// equals is the set of one value.
func equals(v uint64) set { return set{masked, math.MaxUint64, v} }

// toSet reads one OCI comparison. none is true when no value passes. ok is
// false for an operator that OCI does not define.
func toSet(op specs.LinuxSeccompOperator, value, two uint64) (s set, none, ok bool) {
	switch op {
	case specs.OpEqualTo:
		return equals(value), false, true
	case specs.OpMaskedEqual:
		if value == 0 {
			return set{}, two != 0, true
		}
		return set{masked, value, two & value}, two&^value != 0, true
	case specs.OpNotEqual:
		switch value {
		case 0:
			return fromAtLeast(1), false, true
		case math.MaxUint64:
			return fromBelow(math.MaxUint64), false, true
		}
		return set{notEqual, 0, value}, false, true
	case specs.OpLessThan:
		return fromBelow(value), value == 0, true
	case specs.OpLessEqual:
		if value == math.MaxUint64 {
			return set{}, false, true
		}
		return fromBelow(value + 1), false, true
	case specs.OpGreaterEqual:
		return fromAtLeast(value), false, true
	case specs.OpGreaterThan:
		if value == math.MaxUint64 {
			return set{}, true, true
		}
		return fromAtLeast(value + 1), false, true
	}
	return set{}, false, false
}

func fromBelow(v uint64) set {
	if v <= 1 {
		return equals(0)
	}
	return set{below, 0, v}
}

func fromAtLeast(v uint64) set {
	switch v {
	case 0:
		return set{}
	case math.MaxUint64:
		return equals(v)
	}
	return set{atLeast, 0, v}
}

// arg renders a set as an OCI comparison on one argument. Not for everything.
func (s set) arg(index uint) specs.LinuxSeccompArg {
	a := specs.LinuxSeccompArg{Index: index, Value: s.value}
	switch s.kind {
	case masked:
		if s.mask == math.MaxUint64 {
			a.Op = specs.OpEqualTo
		} else {
			a.Op, a.Value, a.ValueTwo = specs.OpMaskedEqual, s.mask, s.value
		}
	case notEqual:
		a.Op = specs.OpNotEqual
	case below:
		a.Op = specs.OpLessThan
	default:
		a.Op = specs.OpGreaterEqual
	}
	return a
}

// bounds are the smallest and the largest member.
func (s set) bounds() (lo, hi uint64) {
	switch s.kind {
	case masked:
		return s.value, s.value | ^s.mask
	case below:
		return 0, s.value - 1
	case atLeast:
		return s.value, math.MaxUint64
	}
	return 0, math.MaxUint64
}

// subsetOf reports whether every member of a is a member of b.
func (a set) subsetOf(b set) bool {
	if b.kind == everything || a == b {
		return true
	}
	lo, hi := a.bounds()
	switch b.kind {
	case notEqual:
		return !a.has(b.value)
	case below:
		return hi < b.value
	case atLeast:
		return lo >= b.value
	}
	// b is masked: the bits of its mask must be fixed in a, and right.
	switch a.kind {
	case masked:
		return b.mask&^a.mask == 0 && a.value&b.mask == b.value
	case below, atLeast:
		// The bits that all numbers from lo to hi share are those above
		// the highest bit in which lo and hi differ.
		shared := ^(uint64(1)<<bits.Len64(lo^hi) - 1)
		return b.mask&^shared == 0 && lo&b.mask == b.value
	}
	return false
}

// has reports whether v is a member.
func (s set) has(v uint64) bool {
	switch s.kind {
	case masked:
		return v&s.mask == s.value
	case notEqual:
		return v != s.value
	case below:
		return v < s.value
	case atLeast:
		return v >= s.value
	}
	return true
}

// apart reports whether a and b share no member.
func (a set) apart(b set) bool {
	if a.kind == masked && b.kind == masked {
		return (a.value^b.value)&a.mask&b.mask != 0
	}
	if b.kind == notEqual {
		a, b = b, a
	}
	if a.kind == notEqual {
		return b == equals(a.value)
	}
	alo, ahi := a.bounds()
	blo, bhi := b.bounds()
	// One is a run of numbers from an end of the range, so that the other's
	// smallest or largest member decides.
	return ahi < blo || bhi < alo
}

// meet is what a and b have in common, as one set. empty is true when that is nothing. exact is
// false if no single comparison expresses it; the result is then empty, which is the stricter side.
func (a set) meet(b set) (s set, empty, exact bool) {
	switch {
	case a.subsetOf(b):
		return a, false, true
	case b.subsetOf(a):
		return b, false, true
	case a.apart(b):
		return set{}, true, true
	}
	if b.kind == masked {
		a, b = b, a
	}
	if a.kind == masked {
		switch b.kind {
		case masked:
			return set{masked, a.mask | b.mask, a.value | b.value}, false, true
		case below, atLeast:
			// Members of the run share the bits above the highest one in
			// which its ends differ; with those fixed the mask may
			// already imply the run.
			lo, hi := b.bounds()
			shared := ^(uint64(1)<<bits.Len64(lo^hi) - 1)
			t := set{masked, a.mask | shared, a.value | lo&shared}
			if t.subsetOf(b) {
				return t, false, true
			}
		}
		return set{}, true, false
	}
	if b.kind == notEqual {
		a, b = b, a
	}
	if a.kind == notEqual {
		switch {
		case b.kind == below && a.value == b.value-1:
			return fromBelow(a.value), false, true
		case b.kind == atLeast && a.value == b.value:
			return fromAtLeast(a.value + 1), false, true
		}
		return set{}, true, false
	}
	// A run from below and a run from above: a range, which is one
	// comparison only if a mask describes it.
	alo, ahi := a.bounds()
	blo, bhi := b.bounds()
	lo := max(alo, blo)
	free := lo ^ min(ahi, bhi)
	if free&(free+1) == 0 && lo&free == 0 {
		return set{masked, ^free, lo}, false, true
	}
	return set{}, true, false
}

// not is the complement. ok is false if no single comparison expresses it.
func (s set) not() (t set, ok bool) {
	switch s.kind {
	case masked:
		if s.mask == math.MaxUint64 {
			t, _, _ = toSet(specs.OpNotEqual, s.value, 0)
			return t, true
		}
		if bits.OnesCount64(s.mask) == 1 {
			return set{masked, s.mask, s.value ^ s.mask}, true
		}
		return set{}, false
	case notEqual:
		return equals(s.value), true
	case below:
		return fromAtLeast(s.value), true
	case atLeast:
		return fromBelow(s.value), true
	}
	return set{}, false
}
