package lint

import (
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"agentjail.dev/tests/env"
)

// A file is one of the repository's Go files.
type file struct {
	path string // to read it by
	rel  string // below the repository's root, with slashes
}

// built are the directories that make fills.
var built = []string{"bin", "dist"}

// everywhere is the whole repository.
var everywhere = []string{"."}

// goFiles lists the Go files below the directories dirs that are tests, or those that are not. Left
// out are the directories of skip, what is built, and what begins with a dot. Directories are named
// from the repository's root. The test fails if there are fewer files than atLeast: a rule that
// looks at nothing finds nothing.
func goFiles(t *testing.T, dirs []string, tests bool, atLeast int, skip ...string) []file {
	t.Helper()
	var out []file
	add := func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(top, path)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		switch {
		case d.IsDir() && rel != "." && (d.Name()[0] == '.' || slices.Contains(built, rel) || slices.Contains(skip, rel)):
			return filepath.SkipDir
		case !d.IsDir() && strings.HasSuffix(rel, ".go") && strings.HasSuffix(rel, "_test.go") == tests:
			out = append(out, file{path, rel})
		}
		return nil
	}
	for _, dir := range dirs {
		env.Check(t, filepath.WalkDir(filepath.Join(top, dir), add))
	}
	if len(out) < atLeast {
		t.Errorf("only %d files were looked at", len(out))
	}
	return out
}
