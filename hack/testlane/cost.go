package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"agentjail.dev/hack/testlane/outcome"
)

// slowestPackages is how many of the slowest packages the end of a run lists.
const slowestPackages = 10

// listCosts prints, in minutes, what each lane cost, and the packages that took longest.
func listCosts(w io.Writer, all []outcome.Lane) {
	type row struct {
		name string
		outcome.Cost
	}
	var lanes, packages []row
	for _, l := range all {
		if l.Part == outcome.Whole && l.Took > 0 {
			lanes = append(lanes, row{l.Name, l.Cost})
		}
		for _, p := range l.Packages {
			packages = append(packages, row{l.Part + ": " + strings.TrimPrefix(p.Package, "agentjail.dev/"), p.Cost})
		}
	}
	list := func(title string, rows []row, most int) {
		if len(rows) == 0 {
			return
		}
		slices.SortStableFunc(rows, func(a, b row) int { return cmp.Compare(b.Took, a.Took) })
		fmt.Fprintf(w, "minutes  processor  %s\n", title)
		for _, r := range rows[:min(most, len(rows))] {
			processor := "-"
			if r.Processor > 0 {
				processor = fmt.Sprintf("%.1f", r.Processor.Minutes())
			}
			fmt.Fprintf(w, "%7.1f  %9s  %s\n", r.Took.Minutes(), processor, r.name)
		}
	}
	list("lane (the processor time is the machine's, with that of lanes at the same time)", lanes, len(lanes))
	list("package", packages, slowestPackages)
}
