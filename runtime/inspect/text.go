package inspect

import (
	"fmt"
	"io"
	"strings"

	"agentjail.dev/runtime/kernel/printable"
	"agentjail.dev/runtime/spec/rings"
)

// maxValue bounds what one line shows of a value.
const maxValue = 400

// Text writes the result for people, ring by ring from the outside in.
func (r *Result) Text(w io.Writer) error {
	var b strings.Builder
	line := func(format string, args ...any) {
		b.WriteString(printable.Line(fmt.Sprintf(format, args...), maxValue) + "\n")
	}
	line("jail %s: process %d, %s, made by %s", r.ID, r.Pid, printable.Count(r.Processes, "process"), r.Delegate)
	if r.Earlier {
		line("made by an earlier release: what it had no protection for is BROKEN (remedy: start it anew)")
	}
	if r.Hostname != "" {
		line("host name %s", r.Hostname)
	}
	for _, l := range r.HeldBy.Lines() {
		line("%s", l)
	}
	wide := 0
	for _, f := range r.Findings {
		wide = max(wide, len(f.Name))
	}
	tally := map[Verdict]int{}
	for _, ring := range rings.All() {
		line("%s", ring)
		for _, f := range r.Findings {
			if f.Ring != ring {
				continue
			}
			tally[f.Verdict]++
			text := f.Seen
			if f.Want != "" {
				text += " (should be: " + f.Want + ")"
			}
			line("  %-7s  %-*s  %s", f.Verdict, wide, f.Name, text)
		}
	}
	if len(r.Denied) > 0 {
		line("requested and denied")
		for _, c := range r.Denied {
			line("  %s", c)
		}
	}
	for _, m := range r.Mounted {
		line("%s", m)
	}
	if r.Ways > 0 {
		line("of %d ways to learn of the host, %d are closed", r.Ways, r.Ways-len(r.Exposed))
	}
	for _, t := range r.Exposed {
		text := t.Path + ": " + t.Reveals
		if t.Why != "" {
			text += " (" + t.Why + ")"
		}
		line("  open     %s", text)
	}
	switch {
	case tally[Broken] > 0:
		line("BROKEN: %d of %d protections", tally[Broken], len(r.Findings))
	case tally[InGuest]+tally[Void] > 0:
		line("%d protections hold, %d missing on this host, %d not seen from it, %d void", tally[Holds], tally[Missing], tally[InGuest], tally[Void])
	case tally[Missing] > 0:
		line("%d protections hold, %d missing on this host", tally[Holds], tally[Missing])
	default:
		line("all %d protections hold", tally[Holds])
	}
	_, err := io.WriteString(w, b.String())
	return err
}
