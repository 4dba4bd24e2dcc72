package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"agentjail.dev/hack/testlane/outcome"
)

// read reads the output to its end.
func (s *suite) read(from io.Reader, reader *outcome.Reader) []*outcome.Package {
	var all []*outcome.Package
	meter := outcome.NewMeter()
	in := bufio.NewReader(from)
	for {
		line, err := in.ReadString('\n')
		if line != "" {
			if s.log != nil {
				_, _ = io.WriteString(s.log, line)
			}
			line = strings.TrimSuffix(line, "\n")
			test, pkg := reader.Line(line)
			s.brief(line, test, pkg)
			if pkg != nil {
				all = append(all, pkg)
				cost := meter.Next()
				if !s.oneByOne() {
					cost = outcome.Cost{Took: pkg.Took}
				}
				s.costs = append(s.costs, outcome.PackageCost{Package: pkg.Name, Cost: cost})
			}
		}
		if err != nil {
			return all
		}
	}
}

// slow is how long a test takes that is shown although it passes.
const slow = 10 * time.Second

// brief shows a line if it matters: what failed, with its output, packages, and what takes long.
// The output of a test program is shown as it is.
func (s *suite) brief(line string, test *outcome.Test, pkg *outcome.Package) {
	switch {
	case s.program:
		fmt.Fprintln(s.show, line)
	case test != nil && test.Word == outcome.Fail && test.Top():
		s.showLines(test.Lines())
	case test != nil && (test.Word == outcome.Fail || test.Top() && test.Took >= slow):
		fmt.Fprintln(s.show, line)
	case pkg != nil && pkg.Failed:
		for _, t := range pkg.With("") {
			s.showLines(t.Lines())
		}
		s.showLines(pkg.Other)
		fmt.Fprintln(s.show, line)
	case pkg != nil && !strings.HasPrefix(line, "?"):
		fmt.Fprintln(s.show, line)
	}
}

func (s *suite) showLines(lines []string) {
	for _, line := range lines {
		fmt.Fprintln(s.show, line)
	}
}

// summary shows, last, what was skipped, what failed and what is unsteady.
func (s *suite) summary(lane outcome.Lane, all []*outcome.Package) {
	if s.skipped {
		fmt.Fprintln(s.show, "\nskipped:")
		for _, p := range all {
			for _, t := range p.Tests {
				if t.Word == outcome.Skip {
					fmt.Fprintf(s.show, "  %s: %s\n", outcome.Entry{Package: p.Name, Test: t.Name}, t.Reason)
				}
			}
		}
	}
	if lane.Trouble != "" {
		fmt.Fprintf(s.show, "testlane: failed: %s\n", lane.Trouble)
	}
	for _, e := range lane.Failed {
		fmt.Fprintf(s.show, "testlane: failed: %s\n", e)
	}
	for _, e := range lane.Unsteady {
		fmt.Fprintf(s.show, "testlane: unsteady: %s\n", e)
	}
}

// keep writes the output of a failed test, and of its second run, to a file of its own, and returns
// the test's entry.
func (s *suite) keep(p *outcome.Package, t *outcome.Test, second *outcome.Package, note string) outcome.Entry {
	e := outcome.Entry{Package: p.Name, Test: t.Name, Note: note}
	if s.program { // whose whole output is kept
		return e
	}
	text := t.Output
	if !p.Ended {
		text = append(append(text[:len(text):len(text)], "outside of tests:"), p.Other...)
	}
	if second != nil {
		text = append(text[:len(text):len(text)], "once more:")
		for _, again := range second.Tests {
			text = append(text, again.Output...)
		}
		text = append(text, second.Other...)
	}
	name := strings.NewReplacer("/", "-").Replace(strings.TrimPrefix(p.Name, "agentjail.dev/"))
	file := filepath.Join(s.out, "lanes", strings.TrimSuffix(s.lane+"."+s.part, "."), strings.TrimSuffix(name+"."+t.Name, ".")+".out")
	err := os.MkdirAll(filepath.Dir(file), 0o755)
	if err == nil {
		err = os.WriteFile(file, []byte(strings.Join(text, "\n")+"\n"), 0o644)
	}
	if err != nil {
		e.Note = err.Error()
		return e
	}
	e.File = file
	return e
}
