package seccomp

import (
	"cmp"
	"slices"
)

// covered reports whether the rules together allow all of a although none of them
// may do so alone: "socket" with a family below 38, equal to 39 or above 40
// covers every rule for families other than 38 and 40. Rules that differ in
// one argument are looked at together.
func covered(a args, rules []args) bool {
	if slices.ContainsFunc(rules, a.subsetOf) {
		return true
	}
	for axis := range a {
		var in []set
		for _, r := range rules {
			s := r[axis]
			r[axis] = set{}
			if a.subsetOf(r) {
				in = append(in, s)
			}
		}
		if len(in) > 1 && coveredBy(a[axis], in) {
			return true
		}
	}
	return false
}

// coveredBy reports whether the union of the runs of numbers among in contains all of s. Masks with
// gaps are left out, which can only make the result false.
func coveredBy(s set, in []set) bool {
	type span struct{ lo, hi uint64 }
	var spans []span
	for _, x := range in {
		switch {
		case x.kind == notEqual:
			spans = append(spans, span{0, x.value - 1}, span{x.value + 1, ^uint64(0)})
		case x.kind != masked || ^x.mask&(^x.mask+1) == 0:
			lo, hi := x.bounds()
			spans = append(spans, span{lo, hi})
		}
	}
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.lo, b.lo) })
	// Walk the gaps between the spans: s must have no member in any.
	next := uint64(0) // smallest number not yet covered
	for _, x := range spans {
		if x.lo > next && s.meets(next, x.lo-1) {
			return false
		}
		if x.hi == ^uint64(0) {
			return true
		}
		next = max(next, x.hi+1)
	}
	return !s.meets(next, ^uint64(0))
}

// meets reports whether s has a member from lo to hi.
func (s set) meets(lo, hi uint64) bool {
	switch s.kind {
	case notEqual:
		return lo != hi || lo != s.value
	case masked:
		// The smallest member that is at least lo: keep lo's bits as far
		// down as they agree with the value, from the top.
		v, ok := s.next(lo)
		return ok && v <= hi
	}
	slo, shi := s.bounds()
	return slo <= hi && lo <= shi
}

// next is the smallest member of a masked set that is at least lo.
func (s set) next(lo uint64) (uint64, bool) {
	if s.has(lo) {
		return lo, true
	}
	// A larger member differs from lo first at some bit that is 0 in lo and
	// 1 in the member; the lowest such bit makes the smallest. Bits above it
	// are lo's and must fit the mask, bits below take the smallest value.
	for bit := range 64 {
		one := uint64(1) << bit
		above := ^(one<<1 - 1)
		if lo&one != 0 || s.mask&one != 0 && s.value&one == 0 || (lo^s.value)&s.mask&above != 0 {
			continue
		}
		return lo&above | one | s.value&(one-1), true
	}
	return 0, false
}
