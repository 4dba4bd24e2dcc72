package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// What the program writes in docs/performance.md stands between these.
const (
	docsBegin = "<!-- measured: written by make bench -->\n"
	docsEnd   = "<!-- /measured -->"
)

// writeDocs draws performance.svg in dir and puts the numbers into performance.md there.
func (r *results) writeDocs(dir string) error {
	path := filepath.Join(dir, "performance.md")
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, found := bytes.Cut(text, []byte(docsBegin))
	_, after, ended := bytes.Cut(rest, []byte(docsEnd))
	if !found || !ended {
		return fmt.Errorf("%s has no place for what was measured: %s", path, strings.TrimSpace(docsBegin))
	}
	var b bytes.Buffer
	b.Write(before)
	b.WriteString(docsBegin)
	r.markdown(&b)
	b.WriteString(docsEnd)
	b.Write(after)
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		return err
	}
	var picture bytes.Buffer
	r.draw(&picture)
	return os.WriteFile(filepath.Join(dir, "performance.svg"), picture.Bytes(), 0o644)
}

// markdown writes the tables for docs/performance.md.
func (r *results) markdown(w io.Writer) {
	fmt.Fprintf(w, "Measured on %s: Linux %s, %d processors, control groups %s, %s, %s; %d rounds (%d of whole engine runs), crowds of %d.\n",
		r.Date.Format(time.DateOnly), r.Host.Kernel, r.Host.CPUs, r.Host.Cgroup, r.Host.Engine, r.Host.Go, r.Rounds, r.DockerRounds, r.Crowd)
	fmt.Fprint(w, "\n### Targets\n\n| what | over | target | measured | |\n|---|---|---|---|---|\n")
	for _, l := range r.lines() {
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s |\n", l.what, l.delegate, l.target, l.measured(), l.verdict())
	}
	r.markdownStarts(w)
	r.markdownOthers(w)
	r.markdownSteps(w)
	if len(r.LeftOut) > 0 {
		fmt.Fprint(w, "\n### Not measured there\n\n")
		for _, l := range r.LeftOut {
			fmt.Fprintf(w, "- `%s`\n", strings.ReplaceAll(l, "`", "'"))
		}
	}
}

// markdownStarts is the table of starts by verb.
func (r *results) markdownStarts(w io.Writer) {
	verbs := []string{"create", "start", "wait", "delete"}
	fmt.Fprint(w, "\n### Starts\n\nMilliseconds, medians of whole lives of `/bin/true`; processor time is that of all processes.\n\n"+
		"| runtime | subject | whole | processor | "+strings.Join(verbs, " | ")+" |\n|---|---|"+strings.Repeat("---:|", 2+len(verbs))+"\n")
	for _, m := range r.Subjects {
		if m.Measure != "cycle" {
			continue
		}
		fmt.Fprintf(w, "| %s | %s | %.1f [%.1f, %.1f] | %.1f |", m.Delegate, m.Kind, m.Median.Value, m.Median.Low, m.Median.High, m.CPU)
		for _, v := range verbs {
			if i, ok := m.Verbs[v]; ok {
				fmt.Fprintf(w, " %.1f", i.Value)
			}
			fmt.Fprint(w, " |")
		}
		fmt.Fprintln(w)
	}
}

// markdownOthers is the table of what has no target: agentjail against its delegate, by measure and variant.
func (r *results) markdownOthers(w io.Writer) {
	fmt.Fprint(w, "\n### Against the same without agentjail\n\n| measure | what | over | ratio | more |\n|---|---|---|---:|---:|\n")
	for _, c := range r.Comparisons {
		if c.Measure == "cycle" || c.Delegate == "" {
			continue
		}
		fmt.Fprintf(w, "| %s | %s | %s | %.2f [%.2f, %.2f] | %+.3g %s |\n", c.Measure, c.name(), c.Delegate, c.Ratio.Value, c.Ratio.Low, c.Ratio.High, c.Difference.Value, c.Unit)
	}
}

// markdownSteps is the table of agentjail's steps, a column for each delegate.
func (r *results) markdownSteps(w io.Writer) {
	type key struct{ measure, verb, step string }
	var rows []key
	var delegates []string
	values := map[key]map[string]float64{}
	put := func(k key, delegate string, ms float64) {
		if values[k] == nil {
			values[k] = map[string]float64{}
			rows = append(rows, k)
		}
		values[k][delegate] = ms
		if !slices.Contains(delegates, delegate) {
			delegates = append(delegates, delegate)
		}
	}
	for _, s := range r.Steps {
		if (s.Measure == "cycle" || s.Measure == "exec") && s.Kind == jailedDocker {
			put(key{s.Measure, s.Verb, s.Step}, s.Delegate, s.Median)
		}
	}
	for _, m := range r.Subjects {
		if (m.Measure == "cycle" || m.Measure == "exec") && m.Kind == jailedDocker {
			for _, v := range verbOrder {
				if cpu, ok := m.OwnCPU[v]; ok {
					put(key{m.Measure, v, "agentjail's own processor time"}, m.Delegate, cpu)
				}
			}
		}
	}
	if len(rows) == 0 {
		return
	}
	slices.SortStableFunc(rows, func(a, b key) int {
		return slices.Index(verbOrder, a.verb) - slices.Index(verbOrder, b.verb)
	})
	fmt.Fprint(w, "\n### Where agentjail's time goes\n\nMilliseconds by step (`agentjail --trace FILE`), with the bundle as Docker makes it.\n\n"+
		"| verb | step | "+strings.Join(delegates, " | ")+" |\n|---|---|"+strings.Repeat("---:|", len(delegates))+"\n")
	for _, k := range rows {
		fmt.Fprintf(w, "| %s | %s |", k.verb, k.step)
		for _, d := range delegates {
			if ms, ok := values[k][d]; ok {
				fmt.Fprintf(w, " %.2f", ms)
			}
			fmt.Fprint(w, " |")
		}
		fmt.Fprintln(w)
	}
}
