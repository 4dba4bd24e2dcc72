package main

import (
	"path/filepath"
	"strings"
	"testing"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// TestReasonsHaveCauses: each reason of the lists of engines' suites names one cause, which a policy removes, or which tests of this module show.
func TestReasonsHaveCauses(t *testing.T) {
	root := env.Get(t, engine.ModuleRoot)
	used := map[string]bool{}
	for _, suite := range []string{"moby", "podman", "critest"} {
		known, err := readList(filepath.Join(root, "tests/conformance", suite+".md"))
		env.Check(t, err)
		if len(known) == 0 {
			t.Errorf("%s has no rows", suite)
		}
		for row, reason := range known {
			c := causeOf(reason)
			if c == nil {
				t.Errorf("%s: %s: its reason has not one cause: %s", suite, row, reason)
				continue
			}
			used[c.reason] = true
		}
	}
	for _, c := range causes {
		if !used[c.reason] {
			t.Errorf("no row has the cause %q", c.reason)
		}
		if (c.policy == "") == (c.design == "") {
			t.Errorf("%q needs a switch, or a test that shows it", c.reason)
		}
		pkg, name, ok := strings.Cut(c.design, ".")
		if c.design == "" {
			continue
		}
		files, err := filepath.Glob(filepath.Join(root, pkg, "*_test.go"))
		env.Check(t, err)
		found := false
		for _, f := range files {
			found = found || strings.Contains(string(env.Read(t, f)), "\nfunc "+name+"(t *testing.T)")
		}
		if !ok || !found {
			t.Errorf("%q: there is no %s", c.reason, c.design)
		}
	}
}

// TestGoPattern: the pattern chooses the rows' tests, by the levels that all rows have.
func TestGoPattern(t *testing.T) {
	for want, names := range map[string][]string{
		"(^TestA$|^TestB.*$)":           {"TestA/one", "TestB*"},
		"(^TestA$)/(^one$|^two.*$)":     {"TestA/one", "TestA/two*"},
		"(^TestA.*Nat$)":                {"TestA*Nat"},
		"(^TestA$)/(^x=false$)/(^y.*$)": {"TestA/x=false/y*"},
	} {
		if got := goPattern(names); got != want {
			t.Errorf("%v: %s, not %s", names, got, want)
		}
	}
}
