package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"

	"agentjail.dev/hack/testlane/outcome"
)

// A place is somewhere tests were run: the machine itself, or a virtual machine.
type place struct {
	name  string
	tests map[string]*outcome.Test // by package and test
}

// optional stands in the reason of a test that is skipped for want of a program that `make deps`
// does not install. Such a test may run nowhere; the table shows it.
const optional = "(hack/npm-tools.sh)"

// printTable prints where the tests ran that were skipped somewhere. args are PLACE=PATH, where
// PATH is the output of `go test -v` over several packages, or a directory with a machine's
// results; a place may be named more than once. A test that ran nowhere is an error.
func printTable(w io.Writer, args []string) error {
	if len(args) == 0 {
		return errors.New("-table: name logs and directories with results (PLACE=PATH)")
	}
	places, err := readPlaces(args)
	if err != nil {
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "skipped in one place")
	for _, p := range places {
		fmt.Fprintf(t, "\t%s", p.name)
	}
	fmt.Fprintln(t)
	var nowhere []string
	for _, n := range skipped(places) {
		if ran, reason := printRow(t, n, places); !ran && !strings.Contains(reason, optional) {
			nowhere = append(nowhere, fmt.Sprintf("  %s: %s", n, reason))
		}
	}
	t.Flush()
	if len(nowhere) > 0 {
		return fmt.Errorf("these tests ran nowhere:\n%s", strings.Join(nowhere, "\n"))
	}
	return nil
}

// readPlaces reads the results of each place, PLACE=PATH; a place can have several.
func readPlaces(args []string) ([]place, error) {
	var places []place
	for _, a := range args {
		name, path, ok := strings.Cut(a, "=")
		if !ok {
			return nil, fmt.Errorf("-table: %q is not of the form PLACE=PATH", a)
		}
		i := slices.IndexFunc(places, func(p place) bool { return p.name == name })
		if i < 0 {
			i = len(places)
			places = append(places, place{name: name, tests: map[string]*outcome.Test{}})
		}
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		if info.IsDir() {
			err = addDir(places[i].tests, path)
		} else {
			err = addLog(places[i].tests, path)
		}
		if err != nil {
			return nil, err
		}
	}
	return places, nil
}

// skipped are the tests that were skipped in one place at least, sorted.
func skipped(places []place) []string {
	names := map[string]bool{}
	for _, p := range places {
		for n, v := range p.tests {
			if v.Word == outcome.Skip {
				names[n] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// printRow prints what became of a test in each place, and reports whether it ran anywhere, or why
// not.
func printRow(w io.Writer, name string, places []place) (ran bool, reason string) {
	fmt.Fprint(w, name)
	for _, p := range places {
		v, ok := p.tests[name]
		switch {
		case !ok:
			fmt.Fprint(w, "\t-")
		case v.Word == outcome.Skip:
			fmt.Fprint(w, "\tskipped")
			reason = v.Reason
		default:
			ran = true
			fmt.Fprintf(w, "\t%s", strings.ToLower(v.Word))
		}
	}
	if twin := twinOf(name); !ran && twin != "" && slices.ContainsFunc(places, func(p place) bool { t := p.tests[twin]; return t != nil && t.Word == outcome.Pass }) {
		ran = true
		fmt.Fprintf(w, "\tpass as %s", twin)
	}
	fmt.Fprintln(w)
	return ran, reason
}

// twins are lists of subtests, the same ones by name, that two tests try in different surroundings:
// what the machine itself has no program for is tried in an image that has, and what a
// distribution's release cannot do yet on the newest.
var twins = map[string]string{
	"seccomp TestRealWork/":                     "tests/e2e TestWorkloads/",
	"tests/cri TestHostUsersFalse/distribution": "tests/cri TestHostUsersFalse/newest",
}

// twinOf names the subtest that tries the same as n, or is "".
func twinOf(n string) string {
	for from, to := range twins {
		if sub, ok := strings.CutPrefix(n, from); ok {
			return to + sub
		}
	}
	return ""
}

// packageLine ends a package's part of the output of `go test -v`.
var packageLine = regexp.MustCompile(`^(?:ok|FAIL|\?)\s+agentjail\.dev/(\S+)`)

// addLog reads the output of `go test -v` over several packages.
func addLog(tests map[string]*outcome.Test, path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var part []string
	found := 0
	for line := range strings.SplitSeq(string(text), "\n") {
		m := packageLine.FindStringSubmatch(line)
		if m == nil {
			part = append(part, line)
			continue
		}
		found += addVerdicts(tests, m[1], strings.Join(part, "\n"))
		part = nil
	}
	if found == 0 {
		return fmt.Errorf("%s holds no results", path)
	}
	return nil
}

// addDir reads a machine's results.
func addDir(tests map[string]*outcome.Test, dir string) error {
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

// addVerdicts reads a package's part and returns how many tests it has.
func addVerdicts(tests map[string]*outcome.Test, pkg, output string) int {
	all := verdicts(output)
	for _, v := range all {
		name := pkg + " " + v.Name
		if old, ok := tests[name]; ok && v.Word == outcome.Skip && old.Word != outcome.Skip {
			continue // it ran there all the same, under other conditions
		}
		tests[name] = v
	}
	return len(all)
}
