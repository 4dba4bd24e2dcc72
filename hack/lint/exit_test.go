package lint

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// exitsAsPassed is what a TestMain says to end a suite of which nothing ran. It is in two parts, so that this file does not have it.
const exitsAsPassed = "os.Exit" + "(0)"

// TestNoSilentPass: no suite below tests ends as one that passed without saying that it skipped its tests (tests/engine.SuiteNeedsRoot does).
func TestNoSilentPass(t *testing.T) {
	n := 0
	err := filepath.WalkDir(filepath.Join(top, "tests"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if bytes.Contains(text, []byte("func TestMain(")) {
			n++
			if bytes.Contains(text, []byte(exitsAsPassed)) {
				t.Errorf("%s: %s in a package with a TestMain: skip the tests, with the reason", path, exitsAsPassed)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if n < 10 {
		t.Errorf("only %d suites were looked at", n)
	}
}
