package inspect

import (
	"fmt"
	"io"

	"agentjail.dev/runtime/kernel/printable"
	"agentjail.dev/runtime/spec/rings"
)

// maxValue bounds what one line shows of a value.
const maxValue = 400

// Text writes the result for people, ring by ring from the outside in.
func (r *Result) Text(w io.Writer) error {
	p := &printer{w: w}
	p.line("jail %s: process %d, %s, made by %s", r.ID, r.Pid, printable.Count(r.Processes, "process"), r.Delegate)
	if r.Hostname != "" {
		p.line("host name %s", r.Hostname)
	}
	for _, l := range r.HeldBy.Lines() {
		p.line("%s", l)
	}
	wide := 0
	for _, f := range r.Findings {
		wide = max(wide, len(f.Name))
	}
	tally := map[Verdict]int{}
	for _, ring := range rings.All() {
		p.line("%s", ring)
		for _, f := range r.Findings {
			if f.Ring != ring {
				continue
			}
			tally[f.Verdict]++
			text := f.Seen
			if f.Want != "" {
				text += " (should be: " + f.Want + ")"
			}
			p.line("  %-7s  %-*s  %s", f.Verdict, wide, f.Name, text)
		}
	}
	if len(r.Denied) > 0 {
		p.line("requested and denied")
		for _, c := range r.Denied {
			p.line("  %s", c)
		}
	}
	for _, m := range r.Mounted {
		p.line("%s", m)
	}
	if r.Ways > 0 {
		p.line("of %d ways to learn of the host, %d are closed", r.Ways, r.Ways-len(r.Exposed))
	}
	for _, t := range r.Exposed {
		text := t.Path + ": " + t.Tells
		if t.Why != "" {
			text += " (" + t.Why + ")"
		}
		p.line("  open     %s", text)
	}
	switch {
	case tally[Broken] > 0:
		p.line("BROKEN: %d of %d protections", tally[Broken], len(r.Findings))
	case tally[InGuest]+tally[Void] > 0:
		p.line("%d protections hold, %d missing on this host, %d not seen from it, %d void", tally[Holds], tally[Missing], tally[InGuest], tally[Void])
	case tally[Missing] > 0:
		p.line("%d protections hold, %d missing on this host", tally[Holds], tally[Missing])
	default:
		p.line("all %d protections hold", tally[Holds])
	}
	return p.err
}

// printer keeps the first error, and every line one line.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) line(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintln(p.w, printable.Line(fmt.Sprintf(format, args...), maxValue))
	}
}
