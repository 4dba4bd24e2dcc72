package refusal

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
)

// A Matrix is which rows each driver's journal showed.
type Matrix struct {
	// Drivers are the columns.
	Drivers []Driver
	seen    map[string]map[Driver]bool
}

func (m *Matrix) shown(r *Row, d Driver) {
	if m.seen == nil {
		m.seen = map[string]map[Driver]bool{}
	}
	if m.seen[r.Name] == nil {
		m.seen[r.Name] = map[Driver]bool{}
	}
	m.seen[r.Name][d] = true
}

// String prints refusals × drivers: "yes" for one that is shown, "-" and a number for one that the driver cannot be requested, with the
// reasons below.
func (m *Matrix) String() string {
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "\t")
	for _, d := range m.Drivers {
		fmt.Fprintf(w, "%s\t", d)
	}
	fmt.Fprintln(w)
	var reasons []string
	sum := map[Driver]int{}
	for _, r := range Rows {
		fmt.Fprintf(w, "%s\t", r.Name)
		for _, d := range m.Drivers {
			switch why := r.Lacks[d]; {
			case m.seen[r.Name][d]:
				fmt.Fprint(w, "yes\t")
				sum[d]++
			case why == "":
				fmt.Fprint(w, "NO\t")
			default:
				at := slices.Index(reasons, why)
				if at < 0 {
					at, reasons = len(reasons), append(reasons, why)
				}
				fmt.Fprintf(w, "-%d\t", at+1)
			}
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintf(w, "shown of %d\t", len(Rows))
	for _, d := range m.Drivers {
		fmt.Fprintf(w, "%d\t", sum[d])
	}
	fmt.Fprintln(w)
	w.Flush()
	for i, why := range reasons {
		fmt.Fprintf(&out, "-%d: %s\n", i+1, why)
	}
	return out.String()
}
