package compiler

import (
	"math/bits"
	"slices"
)

// accumulator reports what the BPF accumulator holds: word&mask of the call. The
// zero value is "anything", mask 0 never being loaded.
type accumulator struct {
	word uint8
	mask uint32
}

// maxNodes bounds the work for a section with very many argument rules.
const maxNodes = 1 << 14

// decide emits code that answers as the first rule whose tests all hold, and
// returns where it starts. The last rule has no tests.
func (a *assembler) decide(rules []rule, acc accumulator) target {
	if i := slices.IndexFunc(rules, func(r rule) bool { return len(r.tests) == 0 }); i >= 0 {
		rules = rules[:i+1] // the rest is never reached
	}
	if same(rules) {
		return verdictTarget(rules[0].ret)
	}
	a.key(rules, acc)
	if t, ok := a.memo[string(a.buf)]; ok {
		return t
	}
	k := string(a.buf)
	if a.nodes++; a.nodes > maxNodes || a.err != nil {
		a.fail("too many argument rules to compile")
		return verdictTarget(0)
	}
	first := rules[0].tests[0]
	var t target
	if cuts, ok := cutsOf(rules, first.word); ok {
		t = a.byRange(rules, first.word, cuts, acc)
	} else {
		t = a.byTest(rules, first, acc)
	}
	a.memo[k] = t
	return t
}

// same reports whether all rules answer alike.
func same(rules []rule) bool {
	for i := range rules {
		if rules[i].ret != rules[0].ret {
			return false
		}
	}
	return true
}

// key writes into a.buf what distinguishes two sets of rules .
func (a *assembler) key(rules []rule, acc accumulator) {
	b := a.buf[:0]
	word := func(v uint32) { b = append(b, byte(v), byte(v>>8), byte(v>>16), byte(v>>24)) }
	b = append(b, acc.word)
	word(acc.mask)
	for i := range rules {
		b = append(b, byte(len(rules[i].tests)))
		word(rules[i].ret)
		for _, t := range rules[i].tests {
			flags := t.word << 2
			if t.atLeast {
				flags |= 1
			}
			if t.not {
				flags |= 2
			}
			b = append(b, flags)
			word(t.mask)
			word(t.value)
		}
	}
	a.buf = b
}

// byTest splits at one test.
func (a *assembler) byTest(rules []rule, t test, acc accumulator) target {
	t.not = false
	code, k, mask := jumpEqual, t.value, t.mask
	switch {
	case t.atLeast:
		code, mask = jumpAtLeast, ^uint32(0)
	case t.value == 0 && t.mask != ^uint32(0):
		code, k, mask = jumpAny, t.mask, ^uint32(0)
	}
	have := accumulator{t.word, mask}
	yes := a.decide(given(rules, t, true), have)
	no := a.decide(given(rules, t, false), have)
	if code == jumpAny {
		yes, no = no, yes
	}
	at := a.jump(code, k, yes, no)
	if have != acc && at.code {
		at = a.fetch(have, at)
	}
	return at
}

// given is what is left of rules where the outcome of a test is known.
func given(rules []rule, t test, holds bool) []rule {
	out := make([]rule, 0, len(rules))
rules:
	for _, r := range rules {
		var keep []test
		for i, x := range r.tests {
			known, value := implied(x, t, holds)
			switch {
			case known && !value:
				continue rules
			case known && keep == nil:
				keep = append(make([]test, 0, len(r.tests)-1), r.tests[:i]...)
			case !known && keep != nil:
				keep = append(keep, x)
			}
		}
		if keep != nil {
			r.tests = keep
		}
		out = append(out, r)
		if len(r.tests) == 0 {
			break
		}
	}
	return out
}

// implied reports whether test x is decided by the outcome of test t, and how. It
// may miss some, which costs instructions but is not wrong.
func implied(x, t test, holds bool) (known, value bool) {
	if x.word != t.word {
		return false, false
	}
	switch {
	case x.atLeast && t.atLeast:
		known, value = holds && t.value >= x.value, true
		if !holds && x.value >= t.value {
			known, value = true, false
		}
	case x.atLeast || t.atLeast:
		return false, false
	case holds && (x.value^t.value)&x.mask&t.mask != 0:
		known, value = true, false
	case holds:
		known, value = x.mask&^t.mask == 0, true
	default: // x would imply t, which does not hold
		known, value = t.mask&^x.mask == 0 && x.value&t.mask == t.value, false
	}
	return known, value != x.not
}

// cutsOf lists where on the line of a word's values the outcome of some test
// changes, the first being 0. ok is false when there are tests that a handful
// of runs of values does not describe.
func cutsOf(rules []rule, word uint8) (cuts []uint32, ok bool) {
	cuts = append(make([]uint32, 0, 4*len(rules)), 0)
	add := func(v uint64) {
		if v < 1<<32 {
			cuts = append(cuts, uint32(v))
		}
	}
	for i := range rules {
		for _, t := range rules[i].tests {
			switch {
			case t.word != word:
			case t.atLeast:
				add(uint64(t.value))
			default:
				low := uint32(1)<<bits.TrailingZeros32(t.mask) - 1 // free bits at the bottom
				free := ^t.mask &^ low                             // free bits above fixed ones
				if bits.OnesCount32(free) > 1 {
					return nil, false
				}
				for _, v := range []uint32{t.value, t.value | free} {
					add(uint64(v))
					add(uint64(v|low) + 1)
				}
			}
		}
	}
	slices.Sort(cuts)
	return slices.Compact(cuts), true
}

// has reports whether the test holds for a value of its word.
func (t test) has(v uint32) bool {
	if t.atLeast {
		return v >= t.value != t.not
	}
	return v&t.mask == t.value != t.not
}

// byRange splits by the runs of values of one word.
func (a *assembler) byRange(rules []rule, word uint8, cuts []uint32, acc accumulator) target {
	have := accumulator{word, ^uint32(0)}
	leaves := make([]leaf, 0, len(cuts))
	for _, v := range cuts {
		to := a.decide(at(rules, word, v), have)
		if n := len(leaves); n == 0 || leaves[n-1].to != to {
			leaves = append(leaves, leaf{v, to})
		}
	}
	start := a.search(leaves)
	if have != acc && start.code {
		start = a.fetch(have, start)
	}
	return start
}

// at is what is left of rules where a word is known, or any other value of the
// run that begins with it.
func at(rules []rule, word uint8, v uint32) []rule {
	out := make([]rule, 0, 4)
rules:
	for _, r := range rules {
		rest, first := 0, 0 // tests of other words, and where they begin
		for i, t := range r.tests {
			switch {
			case t.word != word:
				if rest == 0 {
					first = i
				}
				rest++
			case !t.has(v):
				continue rules
			}
		}
		switch {
		case rest == 0:
			r.tests = nil
		case first+rest == len(r.tests):
			r.tests = r.tests[first:]
		default:
			keep := make([]test, 0, rest)
			for _, t := range r.tests {
				if t.word != word {
					keep = append(keep, t)
				}
			}
			r.tests = keep
		}
		out = append(out, r)
		if rest == 0 {
			break
		}
	}
	return out
}
