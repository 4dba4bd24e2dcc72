package sources

import (
	"slices"

	"agentjail.dev/runtime/observe/journal"
)

// counted are the kinds that a control group counts and that others report one by one.
var counted = []journal.Kind{journal.LimitOOM, journal.LimitPids}

// Once is for callers that count: of what a control group's counter counts and other sources report
// one by one, it leaves one account. The events of the source that reports most stay, for they know
// when and which program, and the first of them stands for those that no source reported. Changed
// events are in no chain anymore.
func Once(in []journal.Event) []journal.Event {
	out := in
	for _, kind := range counted {
		out = once(out, kind)
	}
	return out
}

func once(in []journal.Event, kind journal.Kind) []journal.Event {
	var n uint64
	limit, reported := "", map[string]uint64{}
	for i := range in {
		switch e := &in[i]; {
		case e.Kind != kind:
		case e.Source == journal.SourceCgroup:
			n, limit = n+max(1, e.Count), e.Limit
		default:
			reported[e.Source] += max(1, e.Count)
		}
	}
	best := ""
	for _, s := range []string{journal.SourceKernel, journal.SourceEBPF} {
		if reported[s] > reported[best] {
			best = s
		}
	}
	if best == "" {
		return in
	}
	out := slices.DeleteFunc(slices.Clone(in), func(e journal.Event) bool { return e.Kind == kind && e.Source != best })
	more := n - min(n, reported[best])
	for i := range out {
		e := &out[i]
		if e.Kind != kind {
			continue
		}
		if n > 0 {
			e.Seq, e.Prev, e.Limit, e.Reason = 0, "", limit, ""
		}
		if more > 0 {
			e.Count, more = max(1, e.Count)+more, 0
		}
	}
	return out
}
