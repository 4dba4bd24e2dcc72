package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
	"text/tabwriter"
)

// A place is somewhere tests were run: the machine itself, or a virtual machine.
type place struct {
	name  string
	tests map[string]verdict // by package and test
}

// printTable tells where the tests ran that were skipped somewhere. args are NAME=FILE, the output of `go test -v` over
// several packages, and folders with a machine's results. A test that ran nowhere is an error.
func printTable(w io.Writer, args []string) error {
	if len(args) == 0 {
		return errors.New("-table: name logs (NAME=FILE) and folders with results")
	}
	var places []place
	for _, a := range args {
		name, file, isLog := strings.Cut(a, "=")
		p := place{name: filepath.Base(a), tests: map[string]verdict{}}
		if isLog {
			text, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			p.name = name
			addLog(p.tests, string(text))
		} else if err := addFolder(p.tests, a); err != nil {
			return err
		}
		places = append(places, p)
	}
	names := map[string]bool{}
	for _, p := range places {
		for n, v := range p.tests {
			if v.word == "SKIP" {
				names[n] = true
			}
		}
	}
	sorted := make([]string, 0, len(names))
	for n := range names {
		sorted = append(sorted, n)
	}
	sort.Strings(sorted)

	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "skipped somewhere")
	for _, p := range places {
		fmt.Fprintf(t, "\t%s", p.name)
	}
	fmt.Fprintln(t)
	var nowhere []string
	for _, n := range sorted {
		ran, reason := false, ""
		fmt.Fprint(t, n)
		for _, p := range places {
			v, ok := p.tests[n]
			switch {
			case !ok:
				fmt.Fprint(t, "\t-")
			case v.word == "SKIP":
				fmt.Fprint(t, "\tskipped")
				reason = v.reason
			default:
				ran = true
				fmt.Fprintf(t, "\t%s", strings.ToLower(v.word))
			}
		}
		fmt.Fprintln(t)
		if !ran {
			nowhere = append(nowhere, fmt.Sprintf("  %s: %s", n, reason))
		}
	}
	t.Flush()
	if len(nowhere) > 0 {
		return fmt.Errorf("these tests ran nowhere:\n%s", strings.Join(nowhere, "\n"))
	}
	return nil
}

// packageLine ends a package's part of the output of `go test -v`.
var packageLine = regexp.MustCompile(`^(?:ok|FAIL|\?)\s+agentjail\.dev/(\S+)`)

// addLog reads the output of `go test -v` over several packages.
func addLog(tests map[string]verdict, text string) {
	var part []string
	for _, line := range strings.Split(text, "\n") {
		m := packageLine.FindStringSubmatch(line)
		if m == nil {
			part = append(part, line)
			continue
		}
		addVerdicts(tests, m[1], strings.Join(part, "\n"))
		part = nil
	}
}

// addFolder reads a machine's results.
func addFolder(tests map[string]verdict, dir string) error {
	found := false
	for _, s := range suites {
		for _, st := range s.steps {
			text, err := os.ReadFile(filepath.Join(dir, st.name+".out"))
			if errors.Is(err, os.ErrNotExist) {
				continue
			}
			if err != nil {
				return err
			}
			found = true
			addVerdicts(tests, st.pkg, string(text))
		}
	}
	if !found {
		return fmt.Errorf("%s holds no results", dir)
	}
	return nil
}

func addVerdicts(tests map[string]verdict, pkg, output string) {
	for _, v := range verdicts(output) {
		tests[pkg+" "+v.test] = v
	}
}
