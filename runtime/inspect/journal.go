package inspect

import (
	"agentjail.dev/runtime/observe/journal"
	"agentjail.dev/runtime/spec/rings"
)

// Events are what a jail's journal keeps of a result: how many protections of each ring hold, and
// each that is missing or broken.
func (r *Result) Events() []journal.Event {
	all := journal.Event{Kind: journal.JailInspected, Pid: r.Pid}
	var broken []journal.Event
	var seen journal.Inspected
	for _, ring := range rings.All() {
		state := &seen.Rings[ring]
		for _, f := range r.Findings {
			if f.Ring != ring {
				continue
			}
			switch f.Verdict {
			case Holds:
				state.Holds++
			case Broken:
				broken = append(broken, journal.Event{
					Kind: journal.ProtectionBroken, Ring: ring, Target: f.Name,
					Reason: f.Seen + " (should be: " + f.Want + ")",
				})
			case Missing, InGuest, Void:
				state.Missing = append(state.Missing, f.Name+": "+f.Seen)
			}
		}
	}
	all.Detail = seen
	return append([]journal.Event{all}, broken...)
}
