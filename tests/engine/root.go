package engine

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// NeedsRoot skips a test, with the reason, in a process that is not root.
func NeedsRoot(tb testing.TB, why string) {
	tb.Helper()
	if os.Geteuid() != 0 {
		tb.Skip("needs root: " + why)
	}
}

// SuiteNeedsRoot is for the TestMain of suites that set something up as root before any test. As root it returns. Otherwise it skips each
// test of the package, with the reason, and exits: a suite that ran nothing does not look like one that passed.
func SuiteNeedsRoot(why string) {
	if os.Geteuid() == 0 {
		return
	}
	names, err := testNames(".")
	if err != nil || len(names) == 0 {
		fmt.Fprintf(os.Stderr, "needs root (%s), and its tests cannot be listed to skip them: %v\n", why, err)
		os.Exit(1)
	}
	tests := make([]testing.InternalTest, len(names))
	for i, name := range names {
		tests[i] = testing.InternalTest{Name: name, F: func(t *testing.T) { NeedsRoot(t, why) }}
	}
	flag.Parse()
	// testing.Main keeps no log of the files that tests read, which go test needs to know when a result can be used again.
	if f := flag.Lookup("test.testlogfile"); f != nil {
		_ = f.Value.Set("")
	}
	testing.Main(regexp.MatchString, tests, nil, nil) // does not return
}

// testNames lists the tests in a directory's files, in order.
func testNames(dir string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		return nil, err
	}
	var out []string
	for _, path := range files {
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && strings.HasPrefix(fn.Name.Name, "Test") && fn.Name.Name != "TestMain" {
				out = append(out, fn.Name.Name)
			}
		}
	}
	return out, nil
}
