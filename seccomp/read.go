package seccomp

import (
	"slices"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/seccomp/abi"
)

// region is a filter's behaviour for one call: what it allows except for refuse, and what it
// answers to the rest.
type region struct {
	allow  []args
	refuse []refusal
	def    answer // to what neither allow nor refuse matches
	other  answer // as def, but for a call that the filter is too old to know
	whole  bool   // refuse has a rule without conditions
	vague  bool   // the rules contradict each other, and some of allow went for it
}

// neverKills is true when no arguments end the process.
func (r *region) neverKills() bool {
	if slices.ContainsFunc(r.refuse, func(x refusal) bool { return x.kills() }) {
		return false
	}
	return r.whole || !r.def.kills() || slices.ContainsFunc(r.refuse, func(x refusal) bool { return x.rest }) ||
		slices.Contains(r.allow, args{})
}

// spares is true when no call that a matches ends the process.
func (r *region) spares(a args) bool {
	if slices.ContainsFunc(r.refuse, func(x refusal) bool { return x.kills() && !x.apart(a) }) {
		return false
	}
	return r.neverKills() || slices.ContainsFunc(r.allow, a.subsetOf) ||
		slices.ContainsFunc(r.refuse, func(x refusal) bool { return !x.kills() && (x.rest || a.subsetOf(x.args)) })
}

// spec is a seccomp section read rule by rule.
type spec struct {
	def    answer
	rules  map[string]rules
	notify bool // a rule hands calls to a listener
	arch   string
	newest uint32 // the highest number of a call with rules; see knows
}

// rules are the rules for one call.
type rules struct {
	allow  []args
	refuse []refusal
}

// errnoDefault is what runc and crun answer for ERRNO without a number.
const errnoDefault = ePERM

// answerOf reads an action. Every action but ALLOW and the killing ones refuses: TRACE and NOTIFY
// need a tracer or listener that a jail does not have, and an unknown word must not allow anything.
// Without a tracer the kernel answers TRACE with ENOSYS (seccomp(2)).
func answerOf(a specs.LinuxSeccompAction, errno *uint) answer {
	switch a {
	case specs.ActAllow, specs.ActLog:
		return answer{action: specs.ActAllow}
	case specs.ActKillProcess, specs.ActTrap:
		return answer{action: a}
	case specs.ActKill, specs.ActKillThread:
		return answer{action: specs.ActKillThread}
	case specs.ActTrace:
		return answer{specs.ActErrno, eNOSYS}
	}
	if a == specs.ActErrno && errno != nil {
		return answer{specs.ActErrno, *errno}
	}
	return answer{specs.ActErrno, errnoDefault}
}

// read takes a seccomp section apart.
func read(s *specs.LinuxSeccomp) *spec {
	out := &spec{def: answerOf(s.DefaultAction, s.DefaultErrnoRet), rules: make(map[string]rules, 512)}
	for i := range s.Syscalls {
		sc := &s.Syscalls[i]
		a := answerOf(sc.Action, sc.ErrnoRet)
		out.notify = out.notify || sc.Action == specs.ActNotify
		conds, rest := conditions(sc.Args, a.rank() == 0)
		if len(conds) == 0 {
			continue
		}
		var refuse []refusal
		if a.rank() > 0 {
			for _, c := range conds {
				refuse = append(refuse, refusal{args: c, answer: a, rest: rest})
			}
			conds = nil
		}
		for _, name := range sc.Names {
			r := out.rules[name]
			r.allow, r.refuse = join(r.allow, conds), join(r.refuse, refuse)
			out.rules[name] = r
		}
	}
	return out
}

// join appends. The first slice a call gets is shared between calls and has no
// room, so that what is appended to it never shows at another call.
func join[T any](a, b []T) []T {
	if len(a) == 0 {
		return slices.Clip(b)
	}
	return append(a, b...)
}

// conditions reads the arguments of one OCI rule. Several conditions on one argument make runc and
// crun add one rule for each, so that any of them is enough. An argument that cannot be read makes
// an allowing rule match nothing and a refusing rule match everything. rest is set for a refusal of
// all that no other rule matches (see refusal.rest).
func conditions(in []specs.LinuxSeccompArg, allows bool) (out []args, rest bool) {
	if !allows && len(in) == 1 && in[0].Index == 0 && in[0].Op == specs.OpGreaterEqual && in[0].Value == 0 {
		return []args{{}}, true
	}
	var all args
	var seen [6]bool
	twice, none := false, false
	for _, a := range in {
		s, empty, ok := toSet(a.Op, a.Value, a.ValueTwo)
		switch {
		case (!ok || a.Index >= uint(len(all))) && allows:
			return nil, false
		case !ok || a.Index >= uint(len(all)):
			return []args{{}}, false
		}
		// libseccomp cuts the value of a masked comparison to the mask, so
		// that "matches nothing" would match: never take that to allow.
		none = none || empty && (allows || a.Op != specs.OpMaskedEqual)
		twice = twice || seen[a.Index]
		seen[a.Index] = true
		all[a.Index] = s
	}
	if !twice {
		if none {
			return nil, false
		}
		return []args{all}, false
	}
	for _, a := range in {
		s, empty, _ := toSet(a.Op, a.Value, a.ValueTwo)
		if empty && (allows || a.Op != specs.OpMaskedEqual) {
			continue
		}
		var one args
		one[a.Index] = s
		out = append(out, one)
	}
	return out, false
}

// region reports what the filter does with one call.
func (s *spec) region(name string) region {
	r := s.rules[name]
	out := regionOf(r.allow, r.refuse, s.def)
	if nr, ok := abi.Number(name, s.arch); ok && nr > s.newest && s.def.action == specs.ActErrno {
		out.other = answer{specs.ActErrno, eNOSYS}
	}
	return out
}

// knows notes for which of an architecture's calls the filter was written: programs take ENOSYS
// alone for the answer of a kernel without a call, and runc returns it for each call newer than any
// that a filter lists.
func (s *spec) knows(arch string) {
	s.arch = arch
	for name := range s.rules {
		if nr, ok := abi.Number(name, arch); ok {
			s.newest = max(s.newest, nr)
		}
	}
}

// maxRules is how many rules for one call are looked at. Real profiles have a
// handful; comparing each with each of thousands would take long.
const maxRules = 512

// regionOf judges one call's rules under a default action.
func regionOf(allow []args, refuse []refusal, def answer) region {
	if len(allow)+len(refuse) > maxRules {
		worst := answer{specs.ActErrno, errnoDefault}
		for _, r := range refuse {
			worst = stricter(worst, r.answer)
		}
		return region{def: def, other: def, refuse: []refusal{{answer: worst}}, whole: true, vague: true}
	}
	out := region{def: def, other: def, refuse: refuse}
	rest := false
	for _, x := range refuse {
		out.whole = out.whole || !x.rest && x.args == args{}
		rest = rest || x.rest
	}
	if def.rank() == 0 {
		allow = always
	}
	if out.whole {
		return out
	}
	if rest {
		// The refusal of the rest comes last, except beside comparisons of
		// its own kind on the same argument, and beside a rule without
		// conditions. There it wins.
		clash := func(a args) bool { return a == (args{}) || a.runs(0) }
		if slices.ContainsFunc(allow, clash) {
			allow = slices.DeleteFunc(slices.Clone(allow), clash)
			out.vague = len(allow) > 0
		}
	}
	out.allow = maximal(allow)
	return out
}

// without takes refusals out of allowing rules. Where what is left is not
// itself a rule, the whole allowing rule goes and exact is false.
func without(allow []args, refuse []refusal) (out []args, exact bool) {
	if !slices.ContainsFunc(allow, func(a args) bool { return overlaps(a, refuse) }) {
		return allow, true
	}
	exact = true
	for _, a := range allow {
		rest, ok := subtract(a, refuse)
		exact = exact && ok
		out = append(out, rest...)
	}
	return maximal(out), exact
}

// overlaps reports whether a rule that allows and one that refuses contradict
// each other.
func overlaps(a args, refuse []refusal) bool {
	for _, r := range refuse {
		if !r.rest && !a.apart(r.args) {
			return true
		}
	}
	return false
}

// subtract takes refusals out of one allowing rule; see without.
func subtract(a args, refuse []refusal) (out []args, exact bool) {
	out = []args{a}
	for _, r := range refuse {
		if r.rest {
			continue
		}
		var next []args
		for _, b := range out {
			if b.apart(r.args) {
				next = append(next, b)
				continue
			}
			if b.subsetOf(r.args) {
				continue
			}
			// Beyond r in exactly one argument: exclude r there.
			axis, many := -1, false
			for i := range b {
				if !b[i].subsetOf(r.args[i]) {
					many = many || axis >= 0
					axis = i
				}
			}
			n, ok := r.args[axis].not()
			if many || !ok {
				return nil, false
			}
			s, empty, ok := b[axis].meet(n)
			if !ok {
				return nil, false
			}
			if !empty {
				b[axis] = s
				next = append(next, b)
			}
		}
		out = next
	}
	return out, true
}
