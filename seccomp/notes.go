package seccomp

import (
	"fmt"
	"slices"
	"strings"
)

// notes collects the notes about an intersection.
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

// maxNames is how many calls a note names.
const maxNames = 12

// list puts the notes in words.
func (n *notes) list() []string {
	note := func(names []string, text string) {
		if len(names) == 0 {
			return
		}
		slices.Sort(names)
		names = slices.Compact(names)
		more := ""
		if len(names) > maxNames {
			more = fmt.Sprintf(" and %d more", len(names)-maxNames)
			names = names[:maxNames]
		}
		n.lines = append(n.lines, text+": "+strings.Join(names, ", ")+more)
	}
	note(n.refused, "refused since the incoming filter does not allow them")
	note(n.fewer, "allowed with fewer arguments since the incoming filter allows fewer")
	note(n.killed, "the incoming filter ends the process on these, kept")
	note(n.inexact, "cannot be combined exactly with the incoming filter, so less is allowed than either does")
	return n.lines
}
