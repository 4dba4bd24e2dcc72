package main

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"agentjail.dev/hack/testlane/outcome"
)

// A result is what became of a step.
type result struct {
	step   step
	status int // the exit status; 124 after its time was up, -1 when the step was not reached
	took   time.Duration
	output string
	tests  []*outcome.Test
	// repeated reports that the machine's own kernel went down in this step, and that this is the
	// second try.
	repeated bool
}

// results unpacks the results disk into out and reads it. The disk is written when the machine is
// done; of one that did not come to its end, the output of the steps is on its console, and the
// verdicts of those that had ended count.
func (m machine) results(out string, steps []step) ([]result, error) {
	console, err := os.ReadFile(m.path("console"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	if err := saveConsole(out, console); err != nil {
		return nil, err
	}
	if err := saveEnded(out, string(console)); err != nil {
		return nil, err
	}
	if err := untar(m.path("results.img"), out); err != nil {
		return nil, fmt.Errorf("read the results disk: %w", err)
	}
	var all []result
	for _, s := range steps {
		r := result{step: s, status: -1}
		if text, err := os.ReadFile(filepath.Join(out, s.name+".status")); err == nil {
			if r.status, err = strconv.Atoi(strings.TrimSpace(string(text))); err != nil {
				r.status = -1
			}
		}
		if text, err := os.ReadFile(filepath.Join(out, s.name+".ms")); err == nil {
			ms, _ := strconv.Atoi(strings.TrimSpace(string(text)))
			r.took = time.Duration(ms) * time.Millisecond
		}
		text, err := os.ReadFile(filepath.Join(out, s.name+".out"))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
		r.output = string(text)
		r.tests = verdicts(r.output)
		all = append(all, r)
	}
	return all, nil
}

// untar unpacks the plain files of a tar archive. An empty disk is an empty archive.
func untar(disk, dir string) error {
	f, err := os.Open(disk)
	if err != nil {
		return err
	}
	defer f.Close()
	tr := tar.NewReader(f)
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		// The guest runs hostile programs: nothing that it writes decides where files go.
		out, err := os.Create(filepath.Join(dir, filepath.Base(h.Name)))
		if err != nil {
			return err
		}
		_, err = io.Copy(out, tr)
		if err := errors.Join(err, out.Close()); err != nil {
			return err
		}
	}
}

// verdicts reads the output of `go test -v`. Of a test that ran twice, the second verdict counts.
func verdicts(output string) []*outcome.Test {
	var r outcome.Reader
	for line := range strings.Lines(output) {
		r.Line(strings.TrimSuffix(line, "\n"))
	}
	return slices.DeleteFunc(r.Rest.Tests, func(t *outcome.Test) bool { return t.Word == "" })
}

func count(tests []*outcome.Test, word string) int {
	n := 0
	for _, t := range tests {
		if t.Word == word {
			n++
		}
	}
	return n
}

// unsteadyLine is what hack/testlane reports, in the machine, of a test that failed and then
// passed.
var unsteadyLine = regexp.MustCompile(`(?m)^testlane: unsteady: \S+(?: (\S+))?$`)

// lane is what became of the steps, as make test keeps it. Of a machine that was stopped from
// outside, the steps count that had ended.
func lane(kind, out string, results []result, err error, stopped bool) outcome.Lane {
	l := outcome.Lane{Name: "test-vm", Part: kind}
	if stopped {
		err, results = nil, slices.DeleteFunc(slices.Clone(results), func(r result) bool { return r.status == -1 })
	}
	if err != nil {
		l.Trouble = strings.SplitN(err.Error(), "\n", 2)[0]
	}
	for _, r := range results {
		file := filepath.Join(out, r.step.name+".out")
		unsteady := map[string]bool{}
		for _, m := range unsteadyLine.FindAllStringSubmatch(r.output, -1) {
			unsteady[m[1]] = true
			l.Unsteady = append(l.Unsteady, outcome.Entry{Package: "agentjail.dev/" + r.step.pkg, Test: m[1], File: file})
		}
		failed := false
		for _, t := range r.tests {
			e := outcome.Entry{Package: "agentjail.dev/" + r.step.pkg, Test: t.Name, File: file}
			switch {
			case !t.Top() || unsteady[t.Name]:
			case t.Word == outcome.Fail:
				l.Failed, failed = append(l.Failed, e), true
			case t.Word == outcome.Pass:
				l.Passed = append(l.Passed, outcome.Entry{Package: e.Package, Test: e.Test})
			}
		}
		if v := r.verdict(); v != "ok" && !failed {
			l.Failed = append(l.Failed, outcome.Entry{Package: "agentjail.dev/" + r.step.pkg, Note: "step " + r.step.name + ": " + v, File: file})
		}
	}
	return l
}

// verdict is what became of a step, in words.
func (r result) verdict() string {
	switch {
	case r.status == -1 && r.output != "":
		return "the machine went down in it"
	case r.status == -1:
		return "not reached"
	case r.status == 124:
		return "took too long"
	case r.status != 0:
		return fmt.Sprintf("failed (exit status %d)", r.status)
	case r.step.pkg != "" && len(r.tests) == 0:
		// A binary that runs nothing is no success.
		return "ran no test"
	case len(r.missing()) > 0:
		return "did not run " + strings.Join(r.missing(), ", ")
	}
	return "ok"
}

// report prints the failed steps' output and a table, and returns how many steps failed.
func report(w io.Writer, o options, results []result) (failed int) {
	for _, r := range results {
		if r.status == 0 && o.script == "" {
			continue
		}
		fmt.Fprintf(w, "\n=== step %s, exit status %d\n%s\n", r.step.name, r.status, relevant(r.output))
	}
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "in the machine (%s)\tpassed\tfailed\tskipped\ttime\tverdict\n", o.kind)
	for _, r := range results {
		verdict := r.verdict()
		if verdict != "ok" {
			failed++
		}
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%v\t%s\n", r.step.name, count(r.tests, outcome.Pass), count(r.tests, outcome.Fail), count(r.tests, outcome.Skip),
			r.took.Round(time.Second), verdict)
	}
	t.Flush()
	for _, r := range results {
		if r.repeated {
			fmt.Fprintf(w, "%s: the second try: the machine's own kernel had gone down in it (see the console)\n", r.step.name)
		}
		if len(r.step.only) > 0 {
			fmt.Fprintf(w, "%s: only %s; not the others: %s\n", r.step.pkg, strings.Join(r.step.only, ", "), r.step.left)
		}
	}
	return failed
}

// missing are the tests that were requested by name and did not run: renamed, perhaps.
func (r result) missing() []string {
	return slices.DeleteFunc(slices.Clone(r.step.only), func(name string) bool {
		return slices.ContainsFunc(r.tests, func(t *outcome.Test) bool { return t.Name == name && t.Word != outcome.Skip })
	})
}

// relevant shortens the output of a step to what a reader needs: no lines of tests that pass.
func relevant(output string) string {
	const most = 60000
	var keep []string
	for line := range strings.SplitSeq(output, "\n") {
		trimmed := strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(trimmed, "=== "), strings.HasPrefix(trimmed, "--- PASS"):
		default:
			keep = append(keep, line)
		}
	}
	text := strings.Join(keep, "\n")
	if len(text) > most {
		text = "[...]\n" + text[len(text)-most:]
	}
	return text
}
