package inspect

import (
	"fmt"

	"agentjail.dev/runtime/observe/journal"
	"agentjail.dev/runtime/spec/report"
)

// Events are what a jail's journal keeps of a result: how many protections of each ring hold, and
// each that is missing or broken.
func (r *Result) Events() []journal.Event {
	all := journal.Event{Kind: "jail.inspected", Pid: r.Pid}
	var broken []journal.Event
	for _, ring := range []report.Ring{report.Resources, report.Access, report.Kernel} {
		holding := 0
		for _, f := range r.Findings {
			if f.Ring != ring {
				continue
			}
			switch f.Verdict {
			case Holds:
				holding++
			case Broken:
				broken = append(broken, journal.Event{Kind: "protection.broken", Ring: int(ring), Target: f.Name, Reason: f.Seen + " (should be: " + f.Want + ")"})
			case Missing, InGuest, Void:
				all.Facts = append(all.Facts, fmt.Sprintf("ring%d.missing=%s: %s", ring, f.Name, f.Seen))
			}
		}
		all.Facts = append(all.Facts, fmt.Sprintf("ring%d.holds=%d", ring, holding))
	}
	return append([]journal.Event{all}, broken...)
}
