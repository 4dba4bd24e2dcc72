package lint

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// otherwise are words that this project has another one for. What is misspelled is misspell's to
// find (make lint).
var otherwise = map[string]string{"folder": "directory", "folders": "directories", "writeable": "writable"}

var word = regexp.MustCompile(`[A-Za-z]+`)

// TestSpelling: no word of the list stands in code, comments, scripts or docs. Data of others' is
// left out.
func TestSpelling(t *testing.T) {
	files, err := exec.Command("git", "-C", top, "ls-files", "-z").Output()
	if err != nil {
		t.Skipf("git lists no files here: %v", err)
	}
	looked := 0
	for rel := range strings.SplitSeq(strings.TrimRight(string(files), "\x00"), "\x00") {
		switch {
		case strings.Contains(rel, "/testdata/"), strings.HasPrefix(rel, "tests/conformance/"), rel == "hack/lint/spelling_test.go":
			continue
		case !strings.Contains(".go.md.sh.json.c.yaml.te.awk.Makefile.", filepath.Ext(rel)+".") && filepath.Base(rel) != "Makefile":
			continue
		}
		text, err := os.ReadFile(filepath.Join(top, rel))
		if err != nil {
			continue // removed, and not yet so for git
		}
		looked++
		for n, line := range strings.Split(string(text), "\n") {
			for _, w := range word.FindAllString(line, -1) {
				if right, bad := otherwise[strings.ToLower(w)]; bad {
					t.Errorf("%s:%d: %q should be %q", rel, n+1, w, right)
				}
			}
		}
	}
	if looked < 500 {
		t.Errorf("only %d files were looked at", looked)
	}
}
