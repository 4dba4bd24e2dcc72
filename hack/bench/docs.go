package main

import (
	"bytes"
	"cmp"
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

// markdown writes the table of targets for docs/performance.md: a row for each target, a column for
// each delegate, and what misses its target in bold. The report on standard output has the rest.
func (r *results) markdown(w io.Writer) {
	type row struct{ what, target string }
	var rows []row
	var delegates []string
	cells := map[row]map[string]string{}
	for _, l := range r.lines() {
		k := row{l.what, l.target}
		if cells[k] == nil {
			rows, cells[k] = append(rows, k), map[string]string{}
		}
		if !slices.Contains(delegates, l.delegate) {
			delegates = append(delegates, l.delegate)
		}
		cells[k][l.delegate] = l.measured()
		if l.met != l.all {
			cells[k][l.delegate] = "**" + l.measured() + "**"
		}
	}
	fmt.Fprintf(w, "| what | over %s | target |\n|---|%s---|\n", strings.Join(delegates, " | over "), strings.Repeat("---|", len(delegates)))
	for _, k := range rows {
		fmt.Fprintf(w, "| %s |", k.what)
		for _, d := range delegates {
			fmt.Fprintf(w, " %s |", cmp.Or(cells[k][d], "not measured"))
		}
		fmt.Fprintf(w, " %s |\n", k.target)
	}
	fmt.Fprintf(w, "\nMeasured on %s: Linux %s, %d processors, control groups %s, %s, %s; %d rounds (%d of whole engine runs).\n",
		r.Date.Format(time.DateOnly), r.Host.Kernel, r.Host.CPUs, r.Host.Cgroup, r.Host.Engine, r.Host.Go, r.Rounds, r.DockerRounds)
	for _, l := range r.LeftOut {
		fmt.Fprintf(w, "- not measured: `%s`\n", strings.ReplaceAll(l, "`", "'"))
	}
}
