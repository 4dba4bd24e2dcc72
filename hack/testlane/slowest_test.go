package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"agentjail.dev/tests/env"
)

// TestSlowest: whole tests of all logs are sorted by their time; subtests and other lines do not count.
func TestSlowest(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"e2e.log":  "=== RUN   TestA\n    --- PASS: TestA/sub (99.00s)\n--- PASS: TestA (2.50s)\n--- FAIL: TestB (7.00s)\n--- SKIP: TestC (50.00s)\n",
		"unit.log": "--- PASS: TestD (3.10s)\nok  \tp\t3.2s\n--- PASS: TestE (0.00s)",
	} {
		env.Check(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	all, err := slowest(dir, 3)
	env.Check(t, err)
	var b bytes.Buffer
	listSlowest(&b, all)
	want := "the slowest tests:\n     7.0 s  e2e: TestB\n     3.1 s  unit: TestD\n     2.5 s  e2e: TestA\n"
	if b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
}
