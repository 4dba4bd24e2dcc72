package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"agentjail.dev/tests/env"
)

const bareLog = `=== RUN   TestBoth
--- PASS: TestBoth (0.00s)
=== RUN   TestThere
    x_test.go:7: needs AppArmor
--- SKIP: TestThere (0.00s)
=== RUN   TestParent
=== RUN   TestParent/sub
    x_test.go:9: needs a disk
--- PASS: TestParent (0.00s)
    --- SKIP: TestParent/sub (0.00s)
ok  	agentjail.dev/apparmor	0.1s
=== RUN   TestBoth
--- PASS: TestBoth (0.00s)
ok  	agentjail.dev/seccomp	0.1s
`

// TestTable: a test that was skipped in one place and ran in another is shown, and one that ran
// nowhere fails the run.
func TestTable(t *testing.T) {
	dir := t.TempDir()
	vm := filepath.Join(dir, "vm")
	env.Check(t, os.Mkdir(vm, 0o755))
	log := filepath.Join(dir, "bare.log")
	write := func(path, text string) {
		t.Helper()
		env.Check(t, os.WriteFile(path, []byte(text), 0o644))
	}
	write(log, bareLog)
	machine := filepath.Join(vm, "apparmor.out")

	write(machine, "--- PASS: TestThere (0.10s)\n--- PASS: TestParent (0.10s)\n    --- PASS: TestParent/sub (0.10s)\n")
	var out bytes.Buffer
	if err := printTable(&out, []string{"bare=" + log, "vm=" + vm}); err != nil {
		t.Errorf("%v\n%s", err, &out)
	}
	for _, want := range []string{"apparmor TestThere       skipped  pass", "apparmor TestParent/sub  skipped  pass"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
	if strings.Contains(out.String(), "TestBoth") {
		t.Errorf("a test that ran everywhere is shown:\n%s", &out)
	}

	write(machine, "--- PASS: TestThere (0.10s)\n")
	err := printTable(&out, []string{"bare=" + log, "vm=" + vm})
	if err == nil || !strings.Contains(err.Error(), "TestParent/sub: needs a disk") || strings.Contains(err.Error(), "TestThere") {
		t.Errorf("a test that ran nowhere: %v", err)
	}

	// A test of an optional program may run nowhere.
	write(machine, strings.ReplaceAll(bareLog, "needs", "not installed (hack/npm-tools.sh): needs"))
	if err := printTable(&out, []string{"vm=" + vm}); err != nil {
		t.Error(err)
	}
	write(machine, "--- PASS: TestThere (0.10s)\n")

	// Two logs of one place: what ran in one of them ran there.
	again := filepath.Join(dir, "again.log")
	write(again, strings.ReplaceAll(strings.ReplaceAll(bareLog, "PASS", "SKIP"), "SKIP: TestParent/sub", "PASS: TestParent/sub"))
	if err := printTable(&out, []string{"bare=" + log, "bare=" + again, "vm=" + vm}); err != nil {
		t.Error(err)
	}

	for _, args := range [][]string{nil, {log}, {"bare=" + filepath.Join(dir, "no")}, {"vm=" + dir}} {
		if err := printTable(&out, args); err == nil {
			t.Errorf("%q: no error", args)
		}
	}
}

// TestTwins: what one test lacks a program for and its twin tries in an image has run; what the
// twin skips too has not.
func TestTwins(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	const unit = "    --- SKIP: TestRealWork/nginx (0.00s)\n--- PASS: TestRealWork (0.00s)\nok  \tagentjail.dev/seccomp\t0.1s\n"
	for word, fails := range map[string]bool{"PASS": false, "SKIP": true, "FAIL": true} {
		text := unit + "    --- " + word + ": TestWorkloads/nginx (0.00s)\n--- PASS: TestWorkloads (0.00s)\nok  \tagentjail.dev/tests/e2e\t0.1s\n"
		env.Check(t, os.WriteFile(log, []byte(text), 0o644))
		var out bytes.Buffer
		if err := printTable(&out, []string{"bare=" + log}); (err != nil) != fails {
			t.Errorf("the twin's verdict is %s: %v\n%s", word, err, &out)
		}
	}
}

// TestLane: make test hears of a machine's failed and unsteady tests by name, and of a step that
// failed without one.
func TestLane(t *testing.T) {
	const twice = "=== RUN   TestA\n--- FAIL: TestA (0.00s)\nFAIL\ntestlane: once more: a TestA\n=== RUN   TestA\n--- PASS: TestA (0.00s)\nPASS\ntestlane: unsteady: a TestA\n"
	var results []result
	for name, output := range map[string]string{"a": twice, "b": "=== RUN   TestB\n--- FAIL: TestB (0.00s)\nFAIL\n", "c": ""} {
		r := result{step: step{name: name, pkg: name}, output: output, tests: verdicts(output)}
		if name != "a" {
			r.status = 1
		}
		results = append(results, r)
	}
	results = append(results, result{step: step{name: "d", pkg: "d"}, status: -1})
	l := lane("engines", "dist/vm/engines", results, errors.New("stopped"), true)
	if l.Trouble != "" || len(l.Failed) != 2 {
		t.Errorf("of a machine that was stopped: %+v", l)
	}
	if down := lane("engines", "dist/vm/engines", results, errors.New("it went down\nmore"), false); down.Trouble != "it went down" || len(down.Failed) != 3 {
		t.Errorf("of a machine that went down: %+v", down)
	}
	var failed []string
	for _, e := range l.Failed {
		failed = append(failed, e.String())
	}
	slices.Sort(failed)
	if strings.Join(failed, ", ") != "b TestB (dist/vm/engines/b.out), c (step c: failed (exit status 1): dist/vm/engines/c.out)" {
		t.Errorf("failed: %q", failed)
	}
	if len(l.Unsteady) != 1 || l.Unsteady[0].String() != "a TestA (dist/vm/engines/a.out)" || len(l.Passed) != 0 {
		t.Errorf("unsteady: %v; passed: %v", l.Unsteady, l.Passed)
	}
}

// TestStepsExist: what is named in suites is in the tree.
func TestStepsExist(t *testing.T) {
	for _, s := range suites {
		for _, st := range s.steps {
			files, err := filepath.Glob(filepath.Join("../..", st.pkg, "*_test.go"))
			if err != nil || len(files) == 0 {
				t.Errorf("%s has no tests", st.pkg)
			}
			var text strings.Builder
			for _, f := range files {
				b := env.Read(t, f)
				text.Write(b)
			}
			for _, name := range st.only {
				if !strings.Contains(text.String(), "\nfunc "+name+"(t *testing.T)") {
					t.Errorf("%s has no %s", st.pkg, name)
				}
			}
		}
	}
}
