package seccomp

import (
	"fmt"
	"slices"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"
)

// Intersect returns a filter that allows only what both filters allow, and
// answers as both stacked in the kernel would: the stricter answer wins, and
// where both merely refuse, ours. The result is for our architectures only; the
// incoming filter's listener, flags and other architectures are not taken over,
// and io_uring never comes in. The incoming filter is judged as runc and crun
// compile it; where its rules contradict each other, or the result cannot be
// said in OCI's JSON, the stricter side is taken.
//
// The notes say in words where the incoming filter was tighter than ours and
// so changed the result, and where exactness was given up. A nil incoming
// filter leaves ours as it is.
//
// Intersect(ours, Intersect(ours, q)) deeply equals Intersect(ours, q), and
// Intersect(ours, ours) deeply equals ours if OCI rendered it.
func Intersect(ours, incoming *specs.LinuxSeccomp) (*specs.LinuxSeccomp, []string) {
	if incoming == nil || ours == nil || incoming.DefaultAction == "" && len(incoming.Syscalls) == 0 {
		// runc takes a section without default action and rules for "off".
		return ours, nil
	}
	a, b := read(ours), read(incoming)
	out := &filter{arches: ours.Architectures, flags: ours.Flags, def: stricter(a.def, b.def)}
	var n notes
	if out.def != a.def {
		n.add("the incoming filter answers unlisted calls more strictly (%s): kept", out.def.action)
	}
	if b.notify || incoming.ListenerPath != "" {
		n.add("calls that the incoming filter hands to a listener are refused: a jail has none")
	}
	if out.def.rank() == 0 {
		out.both(a, b)
		return out.oci(), n.list()
	}
	for _, name := range names(a, b) {
		ra, rb := a.region(name), b.region(name)
		c := combine(name, out.def, &ra, &rb, &n)
		n.compare(&c, &ra, &rb)
		if len(c.allow)+len(c.refuse) > 0 {
			out.calls = append(out.calls, c)
		}
	}
	return out.oci(), n.list()
}

// stricter is what the kernel answers when two filters disagree; ours where
// they are equally strict.
func stricter(ours, incoming answer) answer {
	if incoming.rank() > ours.rank() {
		return incoming
	}
	return ours
}

// both renders two filters that allow by default: the refusals of both. Ours
// never is one; this keeps the result right whatever comes in.
func (f *filter) both(a, b *spec) {
	all := names(a, b)
	defer func() {
		slices.SortFunc(f.calls, func(a, b call) int { return strings.Compare(a.name, b.name) })
	}()
	for _, n := range []string{"io_uring_setup", "io_uring_enter", "io_uring_register"} {
		if !slices.Contains(all, n) {
			all = append(all, n)
		}
	}
	for _, name := range all {
		c := call{name: name}
		for _, s := range []*spec{a, b} {
			c.refuse = append(c.refuse, s.rules[name].refuse...)
		}
		if strings.HasPrefix(name, "io_uring_") {
			c.refuse = append(c.refuse, refusal{answer: answer{specs.ActErrno, eNOSYS}})
		}
		if len(c.refuse) == 0 {
			continue
		}
		if worst := c.worst(); slices.ContainsFunc(c.refuse, func(r refusal) bool { return r.args == (args{}) || r.answer != worst }) {
			c.refuseWhole()
		}
		c.sort()
		if len(c.refuse) > 1 && slices.ContainsFunc(c.refuse, func(r refusal) bool { return r.tangles() }) {
			c.refuseWhole()
		}
		f.calls = append(f.calls, c)
	}
}

// names lists the calls that either filter has rules for.
func names(a, b *spec) []string {
	out := make([]string, 0, len(a.rules)+len(b.rules))
	for n := range a.rules {
		out = append(out, n)
	}
	for n := range b.rules {
		if _, ok := a.rules[n]; !ok {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return out
}

// combine is the rules for one call in a filter with default action def. What
// it returns is a fixed point: combining it with ours again changes nothing.
func combine(name string, def answer, ours, incoming *region, n *notes) call {
	c := combineOnce(name, def, ours, incoming, n)
	if c.plain() || len(c.allow)+len(c.refuse) == 0 {
		return c
	}
	if incoming.def == def && slices.Equal(c.allow, incoming.allow) && slices.Equal(c.refuse, incoming.refuse) {
		return c
	}
	for range 4 {
		r := regionOf(c.allow, c.refuse, def)
		next := combineOnce(name, def, ours, &r, n)
		if slices.Equal(next.allow, c.allow) && slices.Equal(next.refuse, c.refuse) {
			return c
		}
		c = next
	}
	// It would take longer to settle: refuse. No real filter comes here.
	n.inexact = append(n.inexact, name)
	c.allow = nil
	if len(c.refuse) > 0 && c.worst().kills() {
		c.refuseWhole()
	} else {
		c.refuse = nil
	}
	return c
}

func combineOnce(name string, def answer, ours, incoming *region, n *notes) call {
	c := call{name: name}
	if !strings.HasPrefix(name, "io_uring_") {
		met, exact := meet(ours.allow, incoming.allow)
		met, exact2 := without(met, incoming.refuse)
		met, exact3 := without(met, ours.refuse)
		if !exact || !exact2 || !exact3 {
			n.inexact = append(n.inexact, name)
		}
		c.allow = met
	}
	c.answer(def, ours, incoming, n)
	c.untangle(n)
	c.sort()
	return c
}

// meet is what two lists of allowing rules both let through. exact is false
// when some of it cannot be said in rules and is left out.
func meet(ours, incoming []args) (out []args, exact bool) {
	switch {
	case len(ours) == 0 || len(incoming) == 0:
		return nil, true
	case unconditional(ours):
		return incoming, true
	case unconditional(incoming) || slices.Equal(ours, incoming):
		return ours, true
	}
	return meetEach(ours, incoming)
}

func meetEach(ours, incoming []args) (out []args, exact bool) {
	var lost []args
	for _, a := range ours {
		if covered(a, incoming) {
			out = append(out, a)
			continue
		}
		for _, b := range incoming {
			m, empty, ok := a.meet(b)
			switch {
			case !ok:
				lost = append(lost, a)
			case !empty:
				out = append(out, m)
			}
		}
	}
	out = maximal(out)
	for _, a := range lost {
		if !slices.ContainsFunc(out, a.within) {
			return out, false
		}
	}
	return out, true
}

// covered says whether the rules together allow all of a although none of them
// may do so alone: "socket" with a family below 38, equal to 39 or above 40
// covers every rule for families other than 38 and 40. Rules that differ in
// one argument are looked at together.
func covered(a args, rules []args) bool {
	if slices.ContainsFunc(rules, a.within) {
		return true
	}
	for axis := range a {
		var in []set
		for _, r := range rules {
			r := r
			s := r[axis]
			r[axis] = set{}
			if a.within(r) {
				in = append(in, s)
			}
		}
		if len(in) > 1 && coveredBy(a[axis], in) {
			return true
		}
	}
	return false
}

// coveredBy says whether the union of the runs of numbers among in contains
// all of s. Masks with gaps are left out, which can only make it say no.
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
	slices.SortFunc(spans, func(a, b span) int {
		switch {
		case a.lo < b.lo:
			return -1
		case a.lo > b.lo:
			return 1
		}
		return 0
	})
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

// meets says whether s has a member from lo to hi.
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
	// 1 in the member; the lowest such bit gives the smallest. Bits above it
	// are lo's and must fit the mask, bits below take the smallest value.
	for bit := 0; bit < 64; bit++ {
		one := uint64(1) << bit
		above := ^(one<<1 - 1)
		if lo&one != 0 || s.mask&one != 0 && s.value&one == 0 || (lo^s.value)&s.mask&above != 0 {
			continue
		}
		return lo&above | one | s.value&(one-1), true
	}
	return 0, false
}

// answer fills in how the call is refused where it is not allowed.
func (c *call) answer(def answer, ours, incoming *region, n *notes) {
	for _, r := range incoming.refuse {
		if r.kills() && r.rank() > def.rank() {
			c.refuse = append(c.refuse, r)
		}
	}
	for _, r := range ours.refuse {
		if r.kills() && r.rank() > def.rank() {
			c.refuse = append(c.refuse, r)
		}
	}
	if slices.ContainsFunc(c.refuse, func(r refusal) bool { return r.args == args{} && !r.rest }) {
		c.refuseWhole()
		return
	}
	if len(c.refuse) > 0 {
		// Only some arguments kill. Where such rules overlap libseccomp's
		// tree picks one of them, and other answers beside them could win
		// over the kill: all give the strictest, and the default answers
		// the rest.
		worst := c.worst()
		for i := range c.refuse {
			c.refuse[i].answer = worst
		}
		c.settle()
		return
	}
	if def.kills() && !(ours.neverKills() && incoming.neverKills()) {
		// What is not allowed the default kills, except where ours refuses
		// softly and the incoming filter does not kill either.
		for _, r := range ours.refuse {
			if !r.kills() && !r.rest && ours.spares(r.args) && incoming.spares(r.args) {
				c.refuse = append(c.refuse, r)
			}
		}
		c.settle()
		return
	}
	if unconditional(c.allow) {
		return
	}
	rest := ours.errno(incoming)
	switch {
	case len(c.allow) == 0 && rest != def:
		c.refuse = append(c.refuse, refusal{answer: rest})
	case len(c.allow) > 0:
		for _, r := range ours.refuse {
			if !r.kills() {
				c.refuse = append(c.refuse, r)
			}
		}
		if def.kills() && !slices.ContainsFunc(c.refuse, func(r refusal) bool { return r.rest }) {
			c.refuse = append(c.refuse, refusal{answer: rest, rest: true})
		}
		c.settle()
	}
}

// worst is the strictest answer among the call's refusals.
func (c *call) worst() answer {
	worst := c.refuse[0].answer
	for _, r := range c.refuse {
		worst = stricter(worst, r.answer)
	}
	return worst
}

// refuseWhole gives the strictest of the call's refusals to all arguments.
func (c *call) refuseWhole() {
	c.refuse = []refusal{{answer: c.worst()}}
	c.allow = nil
}

// errno is the plain refusal of a call that neither filter kills.
func (r *region) errno(incoming *region) answer {
	for _, x := range []*region{r, incoming} {
		for _, ref := range x.refuse {
			if ref.args == (args{}) && !ref.rest && !ref.kills() {
				return ref.answer
			}
		}
		if !x.def.kills() && x.def.rank() > 0 {
			return x.def
		}
	}
	return answer{specs.ActErrno, errnoDefault}
}

// settle drops the answers that libseccomp could mix up with the allowing
// rules: its tree compares 64-bit arguments in two halves, and < and >= with
// different actions on one argument share nodes there.
func (c *call) settle() {
	runs := [6]bool{}
	for _, a := range c.allow {
		for i := range a {
			runs[i] = runs[i] || a.runs(i)
		}
	}
	clash := func(r refusal) bool {
		if r.rest && runs[0] {
			return true
		}
		for i := range r.args {
			if runs[i] && r.args[i].kind != everything || r.args.runs(i) {
				return true
			}
		}
		return false
	}
	for _, r := range c.refuse {
		if clash(r) && r.kills() {
			c.refuseWhole() // not sayable beside the allowing rules
			return
		}
	}
	c.refuse = slices.DeleteFunc(c.refuse, clash)
}

// untangle drops the rules that libseccomp may not get over beside others.
func (c *call) untangle(n *notes) {
	if len(c.allow)+len(c.refuse) < 2 {
		return
	}
	before := len(c.allow)
	c.allow = slices.DeleteFunc(slices.Clone(c.allow), args.tangles)
	if len(c.allow) < before {
		n.inexact = append(n.inexact, c.name)
	}
	if slices.ContainsFunc(c.refuse, func(r refusal) bool { return r.kills() && r.tangles() }) {
		c.refuseWhole()
		return
	}
	c.refuse = slices.DeleteFunc(c.refuse, func(r refusal) bool { return r.tangles() })
}

// notes collects what to tell about an intersection.
type notes struct {
	lines   []string
	refused []string // calls that ours allows and the incoming filter does not
	fewer   []string // calls with fewer arguments allowed than in ours
	inexact []string
	killed  []string
}

func (n *notes) add(format string, a ...any) { n.lines = append(n.lines, fmt.Sprintf(format, a...)) }

// compare notes how the result for one call differs from ours.
func (n *notes) compare(c *call, ours, incoming *region) {
	if slices.ContainsFunc(incoming.refuse, func(r refusal) bool { return r.kills() }) &&
		slices.ContainsFunc(c.refuse, func(r refusal) bool { return r.kills() }) {
		n.killed = append(n.killed, c.name)
	}
	if ours.vague || incoming.vague && len(ours.allow) > 0 {
		n.inexact = append(n.inexact, c.name)
	}
	before, _ := without(ours.allow, ours.refuse)
	switch {
	case len(before) == 0 || slices.Equal(c.allow, before):
	case len(c.allow) == 0:
		n.refused = append(n.refused, c.name)
	default:
		n.fewer = append(n.fewer, c.name)
	}
}

func (n *notes) list() []string {
	say := func(names []string, text string) {
		if len(names) == 0 {
			return
		}
		slices.Sort(names)
		names = slices.Compact(names)
		more := ""
		if const12 := 12; len(names) > const12 {
			more = fmt.Sprintf(" and %d more", len(names)-const12)
			names = names[:const12]
		}
		n.lines = append(n.lines, text+": "+strings.Join(names, ", ")+more)
	}
	say(n.refused, "refused since the incoming filter does not allow them")
	say(n.fewer, "allowed with fewer arguments since the incoming filter allows fewer")
	say(n.killed, "the incoming filter ends the process on these, kept")
	say(n.inexact, "cannot be combined exactly with the incoming filter, so less is allowed than either does")
	return n.lines
}
