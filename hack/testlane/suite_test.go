package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"agentjail.dev/hack/testlane/outcome"
	"agentjail.dev/tests/env"
)

// toys are the packages of a module, each with tests that fail in a way of their own. first reports
// whether a test runs for the first time.
var toys = map[string]string{
	"flaky": `
func TestFine(t *testing.T) {}
func TestOnce(t *testing.T) {
	t.Run("sub", func(t *testing.T) {
		if first(t, "once") { t.Error("the first time") }
		t.Log("and TOY_ARG is", os.Args[len(os.Args)-1])
	})
	t.Run("other", func(t *testing.T) {})
}
func TestSkipped(t *testing.T) { t.Skip("nothing to do") }
func TestSkipsLater(t *testing.T) { if !first(t, "skips") { t.Skip("now it skips") }; t.Error("and failed before") }`,
	"always": `
func TestAlways(t *testing.T) { t.Parallel(); t.Error("as ever") }
func TestBeside(t *testing.T) { t.Parallel() }`,
	"panics": `
func TestBefore(t *testing.T) {}
func TestPanic(t *testing.T) { if first(t, "panic") { panic("boom") } }
func TestAfter(t *testing.T) {}
func TestAfterFails(t *testing.T) { t.Error("it had not begun") }`,
	"exits": `
func TestExit(t *testing.T) { if first(t, "exit") { os.Exit(3) } }`,
	"hangs": `
func TestHang(t *testing.T) { if first(t, "hang") { select {} } }`,
	"broken": `
func TestBroken(t *testing.T) { undefined() }`,
	"setup": `
func TestMain(m *testing.M) { if first(nil, "setup") { fmt.Println("no engine"); os.Exit(1) }; os.Exit(m.Run()) }
func TestInside(t *testing.T) {}`,
	"leaves": `
func TestMain(m *testing.M) { m.Run(); fmt.Println("something is left"); os.Exit(1) }
func TestInside(t *testing.T) {}`,
}

const toyHead = `package toy

import ("fmt"; "os"; "path/filepath"; "testing")

var _ = fmt.Sprint

func first(t *testing.T, name string) bool {
	f, err := os.OpenFile(filepath.Join(os.Getenv("TOY_STATE"), name), os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil { f.Close() }
	return err == nil
}
`

// toyModule writes the toys to a directory, which the test then works in.
func toyModule(t *testing.T) {
	t.Helper()
	if os.Getenv("AGENTJAIL_AS_USER") != "" {
		t.Skip("needs the Go tool's caches, which this user cannot read")
	}
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("needs the Go tool")
	}
	dir := t.TempDir()
	files := map[string]string{"go.mod": "module toy\n\ngo 1.24\n"}
	for name, text := range toys {
		files[name+"/toy_test.go"] = toyHead + text
	}
	for name, text := range files {
		env.Check(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755))
		env.Check(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	t.Chdir(dir)
	t.Setenv("GOFLAGS", "-trimpath")
	t.Setenv("GOWORK", "off")
	t.Setenv("TOY_STATE", t.TempDir())
	t.Setenv("BUDGET", "")
}

// brief is a lane's outcome in words.
func brief(l outcome.Lane) string {
	var words []string
	for title, entries := range map[string][]outcome.Entry{"failed": l.Failed, "unsteady": l.Unsteady} {
		for _, e := range entries {
			e.Note, e.File = "", ""
			words = append(words, title+" "+e.String())
		}
	}
	if l.Trouble != "" {
		words = append(words, "trouble "+l.Trouble)
	}
	return strings.Join(words, ", ")
}

// TestToys: what fails once is unsteady, what fails twice has failed, and what surrounds it is
// known by name.
func TestToys(t *testing.T) {
	toyModule(t)
	for name, want := range map[string][]string{
		"flaky":  {"unsteady toy/flaky TestOnce", "failed toy/flaky TestSkipsLater"},
		"always": {"failed toy/always TestAlways"},
		"panics": {"unsteady toy/panics TestPanic", "failed toy/panics TestAfterFails"},
		"exits":  {"unsteady toy/exits TestExit"},
		"hangs":  {"unsteady toy/hangs TestHang"},
		"broken": {"failed toy/broken"},
		"setup":  {"unsteady toy/setup"},
		"leaves": {"failed toy/leaves"},
		"none":   {"failed toy/none"},
	} {
		t.Run(name, func(t *testing.T) {
			var shown, log bytes.Buffer
			s := suite{
				lane: "toys", out: "dist", show: &shown, log: &log, packages: []string{"toy/" + name}, args: []string{"argument"},
				command: []string{"env", "CGO_ENABLED=0", "go", "test", "-v", "-timeout=4s"},
			}
			lane, err := s.run(context.Background())
			got := brief(lane)
			for _, w := range want {
				got = strings.Replace(got, w, "", 1)
			}
			if err != nil || strings.Trim(got, ", ") != "" {
				t.Errorf("%v: %s, and not %q; shown:\n%s\nlog:\n%s", err, brief(lane), want, &shown, &log)
			}
			if name == "flaky" {
				checkFlaky(t, lane, shown.String(), log.String())
			}
		})
	}
}

// checkFlaky looks at what is shown and kept of a test that failed once.
func checkFlaky(t *testing.T, lane outcome.Lane, shown, log string) {
	t.Helper()
	for _, part := range []string{"the first time", "--- FAIL: TestOnce/sub", "once more: toy/flaky TestOnce", "testlane: unsteady: toy/flaky TestOnce (dist/lanes/toys/toy-flaky.TestOnce.out)"} {
		if !strings.Contains(shown, part) {
			t.Errorf("%q is not shown:\n%s", part, shown)
		}
	}
	if strings.Contains(shown, "TestFine") || strings.Count(log, "=== RUN   TestFine") != 1 || strings.Count(log, "=== RUN   TestOnce/sub") != 2 {
		t.Errorf("more than what failed ran once more, or is shown:\n%s\n%s", shown, log)
	}
	kept, err := os.ReadFile("dist/lanes/toys/toy-flaky.TestOnce.out")
	if before, after, _ := strings.Cut(string(kept), "once more:"); err != nil || !strings.Contains(before, "the first time") || !strings.Contains(after, "TOY_ARG is argument") {
		t.Errorf("%v: kept is %s", err, kept)
	}
	if len(lane.Packages) != 3 || lane.Packages[0].Package != "toy/flaky" || lane.Packages[0].Took <= 0 {
		t.Errorf("the package's cost: %+v", lane.Packages)
	}
	if len(lane.Passed) != 1 || lane.Passed[0].Test != "TestFine" {
		t.Errorf("passed at once: %v", lane.Passed)
	}
}

// TestProgram: the compiled tests of a package are run as they are in a virtual machine.
func TestProgram(t *testing.T) {
	toyModule(t)
	for _, name := range []string{"flaky", "panics"} {
		if text, err := exec.Command("go", "test", "-c", "-o", name+".test", "./"+name).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
	}
	for name, want := range map[string]string{
		"-test.run=^(TestFine|TestOnce)$/^sub$": "unsteady flaky TestOnce", "-test.run=^(TestBefore|TestPanic|TestAfter)$": "unsteady panics TestPanic", "-test.run=TestAfterFails": "failed panics TestAfterFails",
	} {
		pkg := strings.Fields(want)[1]
		var shown bytes.Buffer
		s := suite{show: &shown, program: true, packages: []string{pkg}, command: []string{"./" + pkg + ".test", "-test.v", name}}
		lane, err := s.run(context.Background())
		if err != nil || brief(lane) != want || !strings.Contains(shown.String(), "\ntestlane: "+strings.Replace(want, " ", ": ", 1)+"\n") || strings.Contains(shown.String(), "/other") {
			t.Errorf("%v: %s, and not %s:\n%s", err, brief(lane), want, &shown)
		}
	}
}

// TestNoMore: past the budget, and where much fails, nothing runs once more.
func TestNoMore(t *testing.T) {
	toyModule(t)
	t.Setenv("BUDGET", "1")
	t.Setenv("BEGAN", "1")
	s := suite{lane: "toys", out: "dist", show: &bytes.Buffer{}, packages: []string{"./flaky"}, command: []string{"go", "test", "-v", "-run", "TestOnce"}}
	lane, err := s.run(context.Background())
	if err != nil || brief(lane) != "failed toy/flaky TestOnce" || !strings.Contains(lane.Failed[0].Note, "not once more") {
		t.Errorf("%v, %v", err, lane)
	}
}
