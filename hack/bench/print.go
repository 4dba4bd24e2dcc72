package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// verbOrder is how verbs follow each other in a life.
var verbOrder = []string{"create", "start", "wait", "delete", "exec"}

// print writes the tables for people.
func (r *results) print(w io.Writer) {
	fmt.Fprintf(w, "Linux %s, %d processors, cgroup %s, %s, %s\n", r.Host.Kernel, r.Host.CPUs, r.Host.Cgroup, r.Host.Engine, r.Host.Go)
	fmt.Fprintf(w, "%d rounds (%d of whole docker runs); medians; in brackets the 95 %% interval\n", r.Rounds, r.DockerRounds)
	r.printComparisons(w)
	r.printValues(w)
	r.printVerbs(w)
	r.printSteps(w)
	for i, l := range r.LeftOut {
		if i == 0 {
			fmt.Fprint(w, "\nNot measured here\n")
		}
		fmt.Fprintln(w, l)
	}
}

func (r *results) printComparisons(w io.Writer) {
	fmt.Fprint(w, "\nRatios and differences\n")
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "delegate\twhat\tratio\tmore\t\tmore CPU ms\ttarget")
	for _, c := range r.Comparisons {
		cpu := ""
		if c.CPU != 0 {
			cpu = fmt.Sprintf("%+.1f", c.CPU)
		}
		fmt.Fprintf(t, "%s\t%s\t%.2f [%.2f, %.2f]\t%+.3g [%+.3g, %+.3g]\t%s\t%s\t%s\n", c.Delegate, c.name(),
			c.Ratio.Value, c.Ratio.Low, c.Ratio.High, c.Difference.Value, c.Difference.Low, c.Difference.High, c.Unit, cpu, c.verdict())
	}
	t.Flush()
}

// printValues writes what is no time of verbs.
func (r *results) printValues(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	title := "\nValues, on this machine in this run\nmeasure\tdelegate\tsubject\tvariant\tmedian\t"
	for _, m := range r.Subjects {
		if len(m.Verbs) > 0 {
			continue
		}
		if title != "" {
			fmt.Fprintln(t, title)
			title = ""
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%.4g [%.4g, %.4g]\t%s\n", m.Measure, m.Delegate, m.Kind, m.Variant, m.Median.Value, m.Median.Low, m.Median.High, m.Unit)
	}
	t.Flush()
}

func (r *results) printVerbs(w io.Writer) {
	fmt.Fprint(w, "\nMilliseconds by verb, on this machine in this run\n")
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "measure\tdelegate\tsubject\tvariant\twhole\tCPU\t")
	for _, v := range verbOrder {
		fmt.Fprint(t, v+"\t")
	}
	fmt.Fprintln(t)
	for _, m := range r.Subjects {
		if len(m.Verbs) == 0 {
			continue
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%.1f\t%.1f\t", m.Measure, m.Delegate, m.Kind, m.Variant, m.Median.Value, m.CPU)
		for _, v := range verbOrder {
			if i, ok := m.Verbs[v]; ok {
				fmt.Fprintf(t, "%.1f", i.Value)
			}
			fmt.Fprint(t, "\t")
		}
		fmt.Fprintln(t)
	}
	t.Flush()
}

// printSteps prints where agentjail's own time goes. What a verb took beyond its steps is the start
// of the program, its options and policy, and for verbs that the delegate takes over, the delegate.
func (r *results) printSteps(w io.Writer) {
	if len(r.Steps) == 0 {
		return
	}
	fmt.Fprint(w, "\nWhere agentjail's time goes, in milliseconds (with the bundle as Docker makes it)\n")
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "delegate\tverb\tstep\tmedian")
	for _, m := range r.Subjects {
		if m.Kind != jailedDocker || m.Variant != "" {
			continue
		}
		for _, v := range verbOrder {
			whole, ok := m.Verbs[v]
			if !ok || v == "wait" {
				continue
			}
			own, all := 0.0, 0.0
			for _, s := range r.Steps {
				if s.Measure != m.Measure || s.Delegate != m.Delegate || s.Kind != m.Kind || s.Variant != m.Variant || s.Verb != v {
					continue
				}
				fmt.Fprintf(t, "%s\t%s\t%s\t%.2f\n", s.Delegate, v, s.Step, s.Median)
				all += s.Median
				if !strings.HasPrefix(s.Step, "delegate ") { // the delegate has no part in it
					own += s.Median
				}
			}
			fmt.Fprintf(t, "%s\t%s\t= own steps\t%.2f\n", m.Delegate, v, own)
			if cpu, ok := m.OwnCPU[v]; ok {
				fmt.Fprintf(t, "%s\t%s\t= own processor time\t%.2f\n", m.Delegate, v, cpu)
			}
			fmt.Fprintf(t, "%s\t%s\t= beyond the steps\t%.2f\n", m.Delegate, v, whole.Value-all)
		}
	}
	t.Flush()
}
