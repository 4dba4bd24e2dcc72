package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"agentjail.dev/hack/testlane/outcome"
)

// TestListCosts: lanes and packages are sorted by their time, and what is not known of the processor is not printed as none.
func TestListCosts(t *testing.T) {
	cost := func(took, processor time.Duration) outcome.Cost {
		return outcome.Cost{Took: took, Processor: processor}
	}
	var b bytes.Buffer
	listCosts(&b, []outcome.Lane{
		{Name: "lint", Part: outcome.Whole, Cost: cost(time.Minute, 90*time.Second)},
		{Name: "test-e2e", Part: outcome.Whole, Cost: cost(3*time.Minute, 2*time.Minute)},
		{Name: "test-e2e", Part: "e2e", Cost: cost(3*time.Minute, 2*time.Minute), Packages: []outcome.PackageCost{{Package: "agentjail.dev/tests/leak", Cost: cost(30*time.Second, 0)}}},
	})
	want := "minutes  processor  lane (the processor time is the machine's, with that of lanes at the same time)\n    3.0        2.0  test-e2e\n    1.0        1.5  lint\n" +
		"minutes  processor  package\n    0.5          -  e2e: tests/leak\n"
	if b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
}

// TestMeter: a lane records the time and the processor time of its command.
func TestMeter(t *testing.T) {
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("needs a shell")
	}
	t.Chdir(t.TempDir())
	t.Setenv("BUDGET", "")
	if err := runLane(t.Context(), []string{"busy", shell, "-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"}); err != nil {
		t.Fatal(err)
	}
	all, err := outcome.ReadAll(filepath.Join(out, "lanes"))
	if err != nil || len(all) != 1 || all[0].Took <= 0 {
		t.Fatalf("%v: %+v", err, all)
	}
	if _, err := os.Stat("/proc/stat"); err == nil && all[0].Processor <= 0 {
		t.Errorf("a busy command took no processor time: %+v", all[0])
	}
}
