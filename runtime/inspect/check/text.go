package check

import (
	"fmt"
	"io"
	"strings"

	"agentjail.dev/runtime/kernel/printable"
)

// Text writes one line for each probe: the answer, the ring, the feature, what
// was found, and what can be done where it is not well.
func (r *Report) Text(w io.Writer) error {
	var warnings, missing int
	wide := 0
	for _, x := range r.Results {
		wide = max(wide, len(x.What))
	}
	for _, x := range r.Results {
		switch x.Status {
		case Warning:
			warnings++
		case Missing:
			missing++
		}
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
	verdict := "jails can start on this host"
	if !r.CanStart {
		verdict = fmt.Sprintf("no jail can start on this host: %d missing", missing)
	}
	if warnings > 0 {
		verdict += fmt.Sprintf(", %s", count(warnings, "warning"))
	}
	_, err := fmt.Fprintln(w, verdict)
	return err
}

// count is "1 thing" or "N things".
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
