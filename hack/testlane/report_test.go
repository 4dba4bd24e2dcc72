package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentjail.dev/hack/testlane/outcome"
	"agentjail.dev/tests/env"
)

// TestRemembered: a test that is unsteady in two runs is known, one of code that is not this code's
// past is not, and what passes in ten whole runs is forgotten.
func TestRemembered(t *testing.T) {
	file := filepath.Join(t.TempDir(), "new", "unsteady.json")
	entry := outcome.Entry{Package: "p", Test: "TestX", Note: "where it is"}
	unsteady := []outcome.Lane{{Name: "test-e2e", Unsteady: []outcome.Entry{entry}}}
	passed := []outcome.Lane{{Name: "test-e2e", Passed: []outcome.Entry{{Package: "p", Test: "TestX"}}}}
	n := 0
	learn := func(lanes []outcome.Lane, commit string) int {
		t.Helper()
		n++
		var again []remembered
		if err := update(file, func(m *memory) {
			again = m.learn(lanes, run{Began: fmt.Sprint(n), Commit: commit}, func(c string) bool { return c <= commit })
			again = append(again, m.learn(lanes, run{Began: fmt.Sprint(n), Commit: commit}, func(string) bool { return false })...) // the same run
		}); err != nil {
			t.Fatal(err)
		}
		return len(again)
	}
	if learn(unsteady, "b") != 0 || learn(unsteady, "a") != 0 {
		t.Error("what runs for the first time, or on other code, is known")
	}
	if learn(nil, "c") != 0 || learn(unsteady, "c") != 1 {
		t.Error("the second run does not know it")
	}
	for range steady {
		learn(passed, "d")
	}
	if learn(unsteady, "e") != 0 {
		t.Error("it is not forgotten")
	}
	env.Check(t, os.WriteFile(file, []byte("}"), 0o600))
	if err := update(file, func(*memory) {}); err == nil || !strings.Contains(err.Error(), "remedy") {
		t.Errorf("a file that is none: %v", err)
	}
}

// TestReport: the end names what failed, by lane, package and test; what was left out comes first
// and last; and a test that is unsteady for the second time has failed.
func TestReport(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("BUDGET", "")
	t.Setenv("BEGAN", "1")
	env.Check(t, os.WriteFile("commits", []byte("x\ny\n"), 0o644))
	ctx := context.Background()
	lanes := filepath.Join(out, "lanes")
	file := filepath.Join(t.TempDir(), "unsteady.json")
	check := func(red bool, want ...string) {
		t.Helper()
		var shown bytes.Buffer
		err := runReport(&shown, []string{"-memory", file, "-commits", "commits"})
		if (err != nil) != red {
			t.Errorf("red is %v: %v", !red, err)
		}
		text := shown.String()
		for _, w := range want {
			if !strings.Contains(text, w) {
				t.Errorf("no %q in\n%s", w, text)
			}
			_, text, _ = strings.Cut(text, w)
		}
	}
	write := func(l outcome.Lane) {
		t.Helper()
		env.Check(t, l.Write(lanes))
	}
	env.Check(t, runLane(ctx, []string{"lint", "true"}))
	check(false, "all lanes that ran passed")

	write(outcome.Lane{Name: "test-e2e", Part: "e2e", Unsteady: []outcome.Entry{{Package: "agentjail.dev/tests/e2e", Test: "TestX", File: "x.out"}}})
	env.Check(t, os.WriteFile("x.out", []byte("=== RUN   TestX\n=== RUN   TestX/sub\n    x_test.go:1: why it failed\n        its second line\n--- FAIL: TestX (0.00s)\n    --- FAIL: TestX/sub (0.00s)\nonce more:\n=== RUN   TestX\n--- PASS: TestX (0.00s)\n"), 0o644))
	check(false, "tests/e2e TestX (x.out):\n      x_test.go:1: why it failed\n          its second line\nunsteady", "test-e2e e2e: tests/e2e TestX (x.out)", "all lanes that ran passed")
	t.Setenv("BEGAN", "2")
	check(true, "failed:", "test-e2e e2e: tests/e2e TestX (x.out): unsteady in an earlier run, too: test-e2e at x")

	write(outcome.Lane{Name: "test-vm", Part: "engines", Failed: []outcome.Entry{{Package: "agentjail.dev/tests/cri", Test: "TestY"}}})
	for _, name := range []string{"lint", "test-vm"} {
		env.Check(t, runLane(ctx, []string{name, "false"}))
	}
	t.Setenv("BUDGET", "1")
	env.Check(t, runLane(ctx, []string{"bench-smoke", "false"}))
	check(true, "LEFT OUT, since nine tenths of 1 minutes are over: bench-smoke", "failed:\n  lint command: exit status 1", "test-vm engines: tests/cri TestY", "LEFT OUT")
	all, err := outcome.ReadAll(lanes)
	env.Check(t, err)
	for _, l := range all {
		if l.Name == "test-vm" && l.Part == outcome.Whole && l.Red() {
			t.Error("a task whose part reports what failed is reported itself")
		}
	}
}
