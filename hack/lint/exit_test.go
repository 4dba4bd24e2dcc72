package lint

import (
	"bytes"
	"testing"

	"agentjail.dev/tests/env"
)

// exitsAsPassed is what a TestMain states to end a suite of which nothing ran. It is in two parts, so
// that this file does not have it.
const exitsAsPassed = "os.Exit" + "(0)"

// TestNoSilentPass: no suite below tests ends as one that passed without stating that it skipped its
// tests (tests/engine.SuiteNeedsRoot does).
func TestNoSilentPass(t *testing.T) {
	n := 0
	for _, f := range goFiles(t, []string{"tests"}, true, 10) {
		text := env.Read(t, f.path)
		if !bytes.Contains(text, []byte("func TestMain(")) {
			continue
		}
		n++
		if bytes.Contains(text, []byte(exitsAsPassed)) {
			t.Errorf("%s: %s in a package with a TestMain: skip the tests, with the reason", f.rel, exitsAsPassed)
		}
	}
	if n < 10 {
		t.Errorf("only %d suites were looked at", n)
	}
}
