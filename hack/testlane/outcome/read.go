// Package outcome reads the output of go test -v, and keeps what became of each lane of the tests.
package outcome

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"time"
)

// What go test reports of a test.
const (
	Pass = "PASS"
	Fail = "FAIL"
	Skip = "SKIP"
)

// A Test is what became of one test or subtest.
type Test struct {
	Name   string
	Word   string // Pass, Fail or Skip; "" for one that did not end
	Took   time.Duration
	Reason string   // of a skip: the last line that the test logged
	Output []string // of a test and all its subtests; empty for a subtest
}

// Top reports whether it is no subtest.
func (t *Test) Top() bool { return !strings.Contains(t.Name, "/") }

// Lines is the output without lines that report a beginning or a success.
func (t *Test) Lines() []string {
	return slices.DeleteFunc(slices.Clone(t.Output), func(line string) bool {
		return strings.HasPrefix(line, "=== ") || strings.HasPrefix(strings.TrimSpace(line), "--- PASS")
	})
}

// A Package is what became of the tests of one package.
type Package struct {
	Name  string // "" for a test program that go test did not start
	Tests []*Test
	Took  time.Duration // as go test reports it; 0 where it reports none
	// Other is what came outside of every test.
	Other []string
	// Failed reports that go test took the package for failed.
	Failed bool
	// Built is false where the tests could not be compiled.
	Built bool
	// Ended reports that the test program came to its end by itself: it did not panic, exit, or
	// take too long.
	Ended bool
}

// With lists the tests that are no subtests and have one of these words.
func (p *Package) With(words ...string) []*Test {
	var found []*Test
	for _, t := range p.Tests {
		if t.Top() && slices.Contains(words, t.Word) {
			found = append(found, t)
		}
	}
	return found
}

// test returns the test with this name, which is made where it is not known.
func (p *Package) test(name string) *Test {
	// From the end, where the test is that runs.
	for i := len(p.Tests) - 1; i >= 0; i-- {
		if p.Tests[i].Name == name {
			return p.Tests[i]
		}
	}
	t := &Test{Name: name}
	p.Tests = append(p.Tests, t)
	return t
}

var (
	runLine     = regexp.MustCompile(`^=== (RUN|PAUSE|CONT|NAME)\s+(\S+)`)
	verdictLine = regexp.MustCompile(`^\s*--- (PASS|FAIL|SKIP): (\S+) \((\S+)\)`)
	reasonLine  = regexp.MustCompile(`^\s+\S+_test\.go:\d+: (.*)`)
	tookPart    = regexp.MustCompile(`^\t(\d+\.\d+s)`)
	packageLine = regexp.MustCompile(`^(ok|FAIL|\?)\s*\t(\S+)(.*)`)
)

// A Reader reads the output of go test -v line by line. What is not yet ascribed to a package is in
// Rest.
type Reader struct {
	Rest    Package
	current string // the test whose output it is, "" outside of tests
}

// Line takes the next line. It returns the test that the line has a verdict on, and the package
// that the line ends; nil for none.
func (r *Reader) Line(line string) (*Test, *Package) {
	p := &r.Rest
	if m := runLine.FindStringSubmatch(line); m != nil {
		r.current = m[2]
		t := p.test(r.current)
		if m[1] == "RUN" && t.Word != "" { // once more, and what it did before does not count
			*t = Test{Name: t.Name}
		}
		r.keep(line)
		return nil, nil
	}
	if m := verdictLine.FindStringSubmatch(line); m != nil {
		t := p.test(m[2])
		t.Word = m[1]
		t.Took, _ = time.ParseDuration(m[3])
		r.current = t.Name
		r.keep(line)
		r.current = ""
		return t, nil
	}
	if m := packageLine.FindStringSubmatch(line); m != nil {
		ended := r.Rest
		ended.Name, ended.Failed = m[2], m[1] == Fail
		if t := tookPart.FindStringSubmatch(m[3]); t != nil {
			ended.Took, _ = time.ParseDuration(t[1])
		}
		ended.Built = !strings.Contains(m[3], "[build failed]") && !strings.Contains(m[3], "[setup failed]")
		r.Rest, r.current = Package{}, ""
		return nil, &ended
	}
	if line == Pass || line == Fail {
		p.Ended = true
		r.current = ""
		return nil, nil
	}
	r.keep(line)
	return nil, nil
}

// keep ascribes a line to the test that runs.
func (r *Reader) keep(line string) {
	if r.current == "" {
		r.Rest.Other = append(r.Rest.Other, line)
		return
	}
	if m := reasonLine.FindStringSubmatch(line); m != nil {
		r.Rest.test(r.current).Reason = m[1]
	}
	top, _, _ := strings.Cut(r.current, "/")
	t := r.Rest.test(top)
	t.Output = append(t.Output, line)
}

// How much of a failed test's output Failures returns.
const (
	mostFailures = 12
	mostColumns  = 400
)

// Failures returns what a failed test logged, from the file with its output: of each time that it
// failed, at most a dozen lines. A test without a name, or that logged nothing, has none.
func Failures(e Entry) []string {
	text, err := os.ReadFile(e.File)
	if err != nil || e.Test == "" {
		return nil
	}
	var r Reader
	var lines []string
	for line := range strings.Lines(string(text)) {
		t, _ := r.Line(strings.TrimSuffix(line, "\n"))
		if t == nil || t.Name != e.Test || t.Word != Fail {
			continue
		}
		logged := slices.DeleteFunc(t.Lines(), func(line string) bool {
			return !strings.HasPrefix(line, "    ") || strings.HasPrefix(strings.TrimSpace(line), "--- ")
		})
		for _, line := range logged[:min(len(logged), mostFailures)] {
			lines = append(lines, line[:min(len(line), mostColumns)])
		}
	}
	return lines
}
