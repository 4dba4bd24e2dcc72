package seccomp

import (
	"slices"

	"github.com/opencontainers/runtime-spec/specs-go"
)

// answer fills in how the call is refused where it is not allowed.
func (c *call) answer(def answer, ours, incoming *region) {
	for _, r := range slices.Concat(incoming.refuse, ours.refuse) {
		if r.kills() && r.rank() > def.rank() {
			c.refuse = append(c.refuse, r)
		}
	}
	if slices.ContainsFunc(c.refuse, func(r refusal) bool { return r.args == args{} && !r.rest }) {
		c.refuseWhole()
		return
	}
	if len(c.refuse) > 0 {
		// Only some arguments kill. Where such rules overlap libseccomp's tree picks one of them,
		// and other answers beside them could win over the kill: all return the strictest, and the
		// default answers the rest.
		worst := c.worst()
		for i := range c.refuse {
			c.refuse[i].answer = worst
		}
		c.settle()
		return
	}
	if def.kills() && !(ours.neverKills() && incoming.neverKills()) {
		// The default kills every other call, except where ours refuses softly and the incoming
		// filter does not kill either.
		for _, r := range ours.refuse {
			if !r.kills() && !r.rest && ours.spares(r.args) && incoming.spares(r.args) {
				c.refuse = append(c.refuse, r)
			}
		}
		some, _ := incoming.softly(ours.allow)
		for _, r := range some {
			if ours.spares(r.args) && incoming.spares(r.args) {
				c.add(r)
			}
		}
		c.settle()
		return
	}
	if unconditional(c.allow) {
		return
	}
	c.answerSoftly(def, ours, incoming)
}

// answerSoftly is answer where neither filter ends the process: ours answers what it refuses, and
// the incoming one what only that refuses.
func (c *call) answerSoftly(def answer, ours, incoming *region) {
	rest := ours.errno(incoming)
	some, theirs := incoming.softly(ours.allow)
	switch {
	case len(ours.allow) == 0 && slices.ContainsFunc(ours.refuse, func(r refusal) bool { return r.rest && !r.kills() }):
		// Refused in more than one way. Neither filter kills, so these are all.
		c.refuse = slices.Clone(ours.refuse)
		c.settle()
	case len(ours.allow) == 0 && rest != def:
		c.refuse = append(c.refuse, refusal{answer: rest})
	case len(ours.allow) > 0 && len(c.allow) == 0:
		if theirs.rank() > 0 {
			rest = theirs
		}
		for _, r := range some {
			c.add(r)
		}
		if rest != def {
			c.refuse = append(c.refuse, refusal{answer: rest, rest: len(some) > 0})
		}
		c.settle()
	case len(c.allow) > 0:
		for _, r := range ours.refuse {
			if !r.kills() {
				c.refuse = append(c.refuse, r)
			}
		}
		for _, r := range some {
			c.add(r)
		}
		if unconditional(ours.allow) && theirs.rank() > 0 {
			rest = theirs
		}
		if (def.kills() || unconditional(ours.allow) && rest != def) && !slices.ContainsFunc(c.refuse, func(r refusal) bool {
			return r.rest
		}) {
			c.refuse = append(c.refuse, refusal{answer: rest, rest: true})
		}
		c.settle()
	}
}

// add adds a refusal that no other with the same answer contains, and drops those that it contains.
func (c *call) add(r refusal) {
	if slices.ContainsFunc(c.refuse, func(o refusal) bool { return !o.rest && o.answer == r.answer && r.args.subsetOf(o.args) }) {
		return
	}
	c.refuse = slices.DeleteFunc(c.refuse, func(o refusal) bool {
		return !o.rest && o.answer == r.answer && o.args.subsetOf(r.args)
	})
	c.refuse = append(c.refuse, r)
}

// maxSoft is how many answers of the incoming filter's are taken over for one call.
const maxSoft = 64

// softly is how a filter refuses, without ending the process, the calls that rules of ours allow:
// some by their arguments, and the rest by an answer of rank 0 where the filter does not refuse
// that softly. A filter that was not read to its end has none.
func (r *region) softly(ours []args) (some []refusal, rest answer) {
	if r.vague {
		return nil, answer{action: specs.ActAllow}
	}
	for _, x := range r.refuse {
		switch {
		case x.kills():
		case x.rest && rest.action == "":
			rest = x.answer
		case x.rest:
		case x.args == args{}:
			return nil, x.answer
		default:
			for _, a := range ours {
				if m, empty, exact := x.args.meet(a); exact && !empty && len(some) < maxSoft {
					some = append(some, refusal{args: m, answer: x.answer})
				}
			}
		}
	}
	if rest.action == "" && !r.other.kills() {
		rest = r.other
	}
	if rest.action == "" {
		rest.action = specs.ActAllow
	}
	return some, rest
}

// worst is the strictest answer among the call's refusals.
func (c *call) worst() answer {
	worst := c.refuse[0].answer
	for _, r := range c.refuse {
		worst = stricter(worst, r.answer)
	}
	return worst
}

// refuseWhole applies the strictest of the call's refusals to all arguments.
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
			c.refuseWhole() // the rules cannot express it beside the allowing ones
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
