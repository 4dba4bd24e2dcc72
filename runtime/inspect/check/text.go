package check

import (
	"fmt"
	"io"
	"strings"

	"agentjail.dev/runtime/kernel/printable"
)

// width is that of a terminal. maxDetail bounds what was found in Text, of which Lines has all.
const (
	width     = 80
	maxDetail = 400
)

// Text writes the verdict, what is missing with its remedy, a line for each warning, and the number
// of the other probes.
func (r *Report) Text(w io.Writer) error {
	if err := r.verdict(w); err != nil {
		return err
	}
	for _, status := range []Status{Missing, Warning} {
		for _, x := range r.Results {
			if x.Status != status {
				continue
			}
			if _, err := fmt.Fprintln(w, x.problem()); err != nil {
				return err
			}
		}
	}
	_, err := fmt.Fprintf(w, "%-9s%s; `agentjail check -v` has all, in full\n", OK, printable.Count(r.count(OK), "further check"))
	return err
}

// problem is a result in Text. All mistakes of the policy file are in it.
func (x *Result) problem() string {
	head := fmt.Sprintf("%-9s", x.Status)
	switch {
	case x.Name == namePolicy:
		return printable.Wrap(head, x.What+": "+printable.Line(x.Detail, 0), width)
	case x.Status == Missing:
		text := fmt.Sprintf("%s: %s -> %s", x.What, printable.Line(x.Detail, maxDetail), printable.Line(x.Remedy, maxDetail))
		return printable.Wrap(head, text, width)
	}
	return head + printable.Line(x.What+": "+x.Detail, width-len(head))
}

// Lines writes one line for each probe: the answer, the ring, the feature, what was found, and what
// can be done where it is not well.
func (r *Report) Lines(w io.Writer) error {
	wide := 0
	for _, x := range r.Results {
		wide = max(wide, len(x.What))
	}
	for _, x := range r.Results {
		ring := "ring " + x.Ring
		if x.Ring == allRings {
			ring = allRings
		}
		line := fmt.Sprintf("%-7s  %-6s  %-*s  %s", x.Status, ring, wide, x.What, printable.Line(x.Detail, 0))
		if x.Remedy != "" {
			line += " -> " + printable.Line(x.Remedy, 0)
		}
		if _, err := fmt.Fprintln(w, strings.TrimRight(line, " ")); err != nil {
			return err
		}
	}
	return r.verdict(w)
}

// count is how many probes answered so.
func (r *Report) count(status Status) (n int) {
	for _, x := range r.Results {
		if x.Status == status {
			n++
		}
	}
	return n
}

// verdict writes whether jails can start.
func (r *Report) verdict(w io.Writer) error {
	verdict := "jails can start on this host"
	if !r.CanStart {
		verdict = fmt.Sprintf("no jail can start on this host: %d missing", r.count(Missing))
	}
	if warnings := r.count(Warning); warnings > 0 {
		verdict += ", " + printable.Count(warnings, "warning")
	}
	_, err := fmt.Fprintln(w, verdict)
	return err
}
