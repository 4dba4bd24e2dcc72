package check

import (
	"fmt"
	"io"
	"strings"

	"agentjail.dev/runtime/kernel/printable"
)

// Bounds of a problem in Text: the width of a terminal, and the length of what was found, of which
// Lines has all.
const (
	width     = 80
	maxDetail = 400
)

// Text writes the problems, the gravest first, each with its remedy, and the number of the others.
func (r *Report) Text(w io.Writer) error {
	for _, status := range []Status{Missing, Warning} {
		for _, x := range r.Results {
			if x.Status != status {
				continue
			}
			most := maxDetail
			if x.Name == namePolicy {
				most = 0 // all mistakes of the file
			}
			text := fmt.Sprintf("%s: %s", x.What, printable.Line(x.Detail, most))
			if x.Remedy != "" {
				text += " -> " + printable.Line(x.Remedy, maxDetail)
			}
			if _, err := fmt.Fprintln(w, printable.Wrap(fmt.Sprintf("%-9s", x.Status), text, width)); err != nil {
				return err
			}
		}
	}
	if _, err := fmt.Fprintf(w, "%-9s%s; `agentjail check -v` has all, in full\n", OK,
		printable.Count(r.count(OK), "further check")); err != nil {
		return err
	}
	return r.verdict(w)
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

// verdict writes the last line.
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
