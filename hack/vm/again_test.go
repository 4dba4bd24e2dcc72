package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentjail.dev/tests/env"
)

// A boot of a machine that is made up: what is on its console, and how it ends.
type fakeBoot struct{ console, sign string }

const (
	firstEnds   = "vm: up\nvm: step one begins, at most 9 s\n=== RUN   TestA\n--- PASS: TestA (0.00s)\nvm: step one ends with status 0 after 12 ms\n"
	inSecond    = "vm: step two begins, at most 9 s\n=== RUN   TestB\n"
	resetBegins = "vm: step reset begins, at most 9 s\n=== RUN   TestC\n"
	resetEnds   = "--- PASS: TestC (0.00s)\nvm: step reset ends with status 0 after 7 ms\n"
	secondEnd   = "--- PASS: TestB (0.00s)\nvm: step two ends with status 0 after 7 ms\n"
)

// runFake runs steps one and two in boots that are made up, and returns the results, what is
// printed and the steps of each boot.
func runFake(t *testing.T, boots ...fakeBoot) (results []result, printed string, orders []string, err error) {
	t.Helper()
	m := machine{dir: t.TempDir(), kind: "fake"}
	steps := []step{{name: "one", pkg: "a"}, {name: "two", pkg: "b"}}
	if strings.Contains(boots[0].console, "reset") {
		steps[1] = step{name: "reset", pkg: "b", resets: true}
	}
	o := options{kind: "fake", out: filepath.Join(t.TempDir(), "out")}
	env.Check(t, os.MkdirAll(m.path("work"), 0o755))
	put := func(path, text string) {
		env.Check(t, os.WriteFile(path, []byte(text), 0o644))
	}
	env.Check(t, writeOrder(m.path("work"), steps))
	put(m.path("results.img"), "")
	put(m.path(rootDisk), "")
	results, err = m.runSteps(o, steps, func() error {
		if len(orders) == len(boots) {
			t.Fatal("the machine is started once more than it may be")
		}
		order := env.Read(t, filepath.Join(m.path("work"), "steps.order"))
		b := boots[len(orders)]
		if _, err := os.Lstat(m.path(rootDisk)); len(orders) == 1 && (err == nil) != steps[1].resets {
			t.Errorf("the root disk of the second boot: %v", err)
		}
		orders = append(orders, string(order))
		put(m.path("console"), b.console)
		if strings.HasSuffix(b.console, "vm: off\n") {
			return nil
		}
		return &downError{sign: b.sign}
	}, func() error { return nil })
	var out bytes.Buffer
	report(&out, o, results)
	return results, out.String(), orders, err
}

// TestMachineGoesDown: steps that ended keep their verdicts, and a machine that went down by its
// own kernel is started once more from the step that it had reached.
func TestMachineGoesDown(t *testing.T) {
	oops := "Kernel panic - not syncing: Fatal exception in interrupt"
	results, printed, orders, err := runFake(t, fakeBoot{firstEnds + inSecond + oops + "\n", oops}, fakeBoot{inSecond + secondEnd + "vm: off\n", ""})
	if err != nil || len(orders) != 2 || orders[1] != "two 0\n" {
		t.Errorf("%v, boots with %q", err, orders)
	}
	for i, test := range []string{"TestA", "TestB"} {
		r := results[i]
		if r.status != 0 || len(r.tests) != 1 || r.tests[0].Name != test || r.tests[0].Word != "PASS" {
			t.Errorf("step %s: %+v", r.step.name, r)
		}
	}
	if results[0].took.Milliseconds() != 12 || !strings.Contains(printed, "two: the second try: the machine's own kernel had gone down") {
		t.Errorf("%v\n%s", results[0].took, printed)
	}
}

// TestMachineResets: a machine that a step resets goes on in that step with the same root disk, and one that resets once more is down.
func TestMachineResets(t *testing.T) {
	results, printed, orders, err := runFake(t, fakeBoot{firstEnds + resetBegins, ""}, fakeBoot{resetBegins + resetEnds + "vm: off\n", ""})
	if err != nil || len(orders) != 2 || orders[1] != "reset 0\n" || results[1].status != 0 || strings.Contains(printed, "second try") {
		t.Errorf("%v, boots with %q, %+v\n%s", err, orders, results, printed)
	}
	var de *downError
	if _, _, orders, err = runFake(t, fakeBoot{firstEnds + resetBegins, ""}, fakeBoot{resetBegins, ""}); !errors.As(err, &de) || len(orders) != 2 {
		t.Errorf("twice: %v, %d boots", err, len(orders))
	}
}

// TestMachineStaysDown: a kernel that fails again, and a machine that is switched off from inside,
// are errors; the verdicts of the steps that ended stay.
func TestMachineStaysDown(t *testing.T) {
	down := fakeBoot{firstEnds + inSecond, ""}
	results, printed, orders, err := runFake(t, down)
	var de *downError
	if !errors.As(err, &de) || len(orders) != 1 || results[0].status != 0 || results[1].status != -1 {
		t.Errorf("switched off: %v, %d boots, %+v", err, len(orders), results)
	}
	if !strings.Contains(printed, "the machine went down in it") || strings.Contains(printed, "not reached") {
		t.Errorf("switched off:\n%s", printed)
	}
	results, printed, orders, err = runFake(t, fakeBoot{firstEnds + inSecond, "int3: 0000 [#1]"}, fakeBoot{inSecond, "int3: 0000 [#1]"})
	if !errors.As(err, &de) || len(orders) != 2 || results[0].status != 0 || results[1].status != -1 {
		t.Errorf("failed twice: %v, %d boots, %+v\n%s", err, len(orders), results, printed)
	}
}

// TestKernelFailed: the watcher notices what a kernel states of its own failure, and takes nothing
// else for it.
func TestKernelFailed(t *testing.T) {
	for console, want := range map[string]string{
		"vm: up\n[  301.5] int3: 0000 [#1] PREEMPT SMP NOPTI\nmore\n[  301.6] Kernel panic - not syncing: x\n": "[  301.5] int3: 0000 [#1] PREEMPT SMP NOPTI",
		"vm: up\nBUG: unable to handle page fault for address: 1\n":                                            "BUG: unable to handle page fault for address: 1",
		"vm: up\n--- FAIL: TestX\n    x_test.go:1: Kernel panic is what it expects\n":                          "",
	} {
		w := watcher{name: "fake"}
		var log bytes.Buffer
		env.Check(t, w.lines(strings.NewReader(console), &log, nil))
		if w.sign != want || log.String() != console {
			t.Errorf("%q: %q", console, w.sign)
		}
	}
}
