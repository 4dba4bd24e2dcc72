package seccomp

import (
	"maps"
	"slices"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"
)

// Intersect returns a filter that allows only what both filters allow, and answers as both stacked
// in the kernel would: the stricter answer wins, and where both merely refuse, ours. A call that
// ours allows and the incoming filter refuses has the incoming filter's errno, or ENOSYS where that
// cannot stand beside the other rules. The result is for our architectures only; the incoming
// filter's listener, flags and other architectures are not taken over, and io_uring never comes in.
// The incoming filter is judged as runc and crun compile it; where its rules contradict each other,
// or the result cannot be expressed in OCI's JSON, the stricter side is taken.
//
// The notes describe where the incoming filter was tighter than ours and so changed the result, and
// where exactness was given up. A nil incoming filter leaves ours as it is.
//
// Intersect(ours, Intersect(ours, q)) deeply equals Intersect(ours, q), and
// Intersect(ours, ours) deeply equals ours if OCI rendered it.
func Intersect(ours, incoming *specs.LinuxSeccomp) (*specs.LinuxSeccomp, []string) {
	if incoming == nil || ours == nil || incoming.DefaultAction == "" && len(incoming.Syscalls) == 0 {
		// runc takes a section without default action and rules for "off".
		return ours, nil
	}
	a, b := read(ours), read(incoming)
	b.knows(archName(ours.Architectures))
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

// archName is the name of the first architecture as package abi has it; "" for another one.
func archName(of []specs.Arch) string {
	for _, name := range []string{"amd64", "arm64"} {
		if arch, err := archOf(name); err == nil && slices.Contains(of, arch) {
			return name
		}
	}
	return ""
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
	defer f.sort()
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
	out := slices.AppendSeq(slices.Collect(maps.Keys(a.rules)), maps.Keys(b.rules))
	slices.Sort(out)
	return slices.Compact(out)
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
	c.answer(def, ours, incoming)
	c.untangle(n)
	c.sort()
	return c
}

// meet is what two lists of allowing rules both let through. exact is false when some of it cannot
// be expressed in rules and is left out.
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
		if !slices.ContainsFunc(out, a.subsetOf) {
			return out, false
		}
	}
	return out, true
}
