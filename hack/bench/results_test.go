package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentjail.dev/tests/env"
)

// sampleResults are of a run in which agentjail takes factor times its delegate's time.
func sampleResults(factor float64) *results {
	r := &results{}
	for _, m := range []measured{
		{Measure: "cycle", Delegate: "runc 1", Kind: bareDocker, CPU: 10},
		{Measure: "cycle", Delegate: "runc 1", Kind: jailedDocker, CPU: 10 * factor, OwnCPU: map[string]float64{"create": 3}},
		{Measure: "cycle", Delegate: "crun 1", Kind: bareDocker, CPU: 5},
		{Measure: "cycle", Delegate: "crun 1", Kind: jailedDocker, CPU: 5 * factor, OwnCPU: map[string]float64{"create": 5}},
		{Measure: "cycle", Delegate: "a <peer>", Kind: alone},
		{Measure: "calls", Variant: "read", Delegate: "runc 1", Kind: bareDocker, CPU: 100},
		{Measure: "calls", Variant: "read", Delegate: "runc 1", Kind: jailedDocker, CPU: 100},
		{Measure: "calls", Variant: "open", Delegate: "runc 1", Kind: bareDocker, CPU: 100},
		{Measure: "calls", Variant: "open", Delegate: "runc 1", Kind: jailedDocker, CPU: 400},
		{Measure: "cycle", Delegate: "crun 1", Kind: bareJail, CPU: 4},
	} {
		m.Unit = "ms"
		m.Samples = []float64{m.CPU, m.CPU, m.CPU}
		r.addValues(m)
	}
	r.compare()
	return r
}

// A comparison is one of the same delegate and variant, unless it differs.
func TestCompare(t *testing.T) {
	var got []string
	for _, c := range sampleResults(1.5).Comparisons {
		if c.Gross > 0 {
			got = append(got, c.Delegate+" "+c.name())
		}
	}
	want := "runc 1 create to delete\ncrun 1 create to delete\ncrun 1 : runc 1 create to delete over crun, against runc\nrunc 1 system call, read\nrunc 1 system call, open"
	if strings.Join(got, "\n") != want {
		t.Errorf("compared:\n%s\nwant:\n%s", strings.Join(got, "\n"), want)
	}
}

// The smoke test fails on a delegate that takes some times as long, on nothing else, and where
// nothing was measured.
func TestTooSlow(t *testing.T) {
	for factor, want := range map[float64]int{1.2: 0, 8: 3} {
		r := sampleResults(factor)
		r.Subjects = r.Subjects[:5]
		r.compare()
		if bad, err := r.tooSlow(); err != nil || len(bad) != want {
			t.Errorf("%v times as slow: %v, %v", factor, bad, err)
		}
	}
	if _, err := (&results{}).tooSlow(); err == nil {
		t.Error("nothing measured is no error")
	}
}

// A line of the table has the mean of a measure's variants, and the worst.
func TestLines(t *testing.T) {
	var b bytes.Buffer
	sampleResults(1.05).markdown(&b)
	for _, want := range []string{
		"| what | over runc 1 | over crun 1 |",
		"| create to delete | 1.05 | 1.05 | not measured | at most 1.10 |",
		"| agentjail's own cost | not measured | 5.00 ms |",
		"| system call | **2.00 in the mean of 2; worst 4.00 (open)** | not measured |",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}

// The picture is well-formed whatever the names are, and the numbers go into their place and leave
// the rest as it is.
func TestDocs(t *testing.T) {
	dir := t.TempDir()
	page := filepath.Join(dir, "performance.md")
	r := sampleResults(2)
	env.Check(t, os.WriteFile(page, []byte("no place"), 0o600))
	if err := r.writeDocs(dir); err == nil {
		t.Error("a page without a place for the numbers is no error")
	}
	env.Check(t, os.WriteFile(page, []byte("before\n"+docsBegin+"old\n"+docsEnd+"\nafter\n"), 0o600))
	for range 2 {
		env.Check(t, r.writeDocs(dir))
	}
	text := env.Read(t, page)
	if s := string(text); !strings.HasPrefix(s, "before\n"+docsBegin+"| what |") || !strings.HasSuffix(s, docsEnd+"\nafter\n") || strings.Contains(s, "old") {
		t.Errorf("the page is\n%s", s)
	}
	picture := env.Read(t, filepath.Join(dir, "performance.svg"))
	d := xml.NewDecoder(bytes.NewReader(picture))
	bars := 0
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		env.Check(t, err)
		if e, ok := token.(xml.StartElement); ok && e.Name.Local == "rect" {
			bars++
		}
	}
	if bars < 9 { // five starts, three ratios, the background
		t.Errorf("%d rectangles", bars)
	}
}
