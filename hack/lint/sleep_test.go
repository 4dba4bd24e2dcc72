package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"testing"

	"agentjail.dev/tests/env"
)

// sleeper is the package whose functions wait for tests.
const sleeper = "tests/env"

// TestNoSleep: tests wait by polling with a deadline (tests/env) or for an event, and never sleep.
func TestNoSleep(t *testing.T) {
	files := append(goFiles(t, everywhere, true, 200, "hack/tools"), goFiles(t, []string{"tests"}, false, 50)...)
	for _, file := range files {
		if path.Dir(file.rel) == sleeper {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file.path, nil, parser.SkipObjectResolution)
		env.Check(t, err)
		if sleeps(f) {
			t.Errorf("%s sleeps (remedy: env.Eventually, env.Poll or env.AnyMoment of %s; time.Tick for a rate)", file.rel, sleeper)
		}
	}
}

// sleeps reports whether a file uses time.Sleep.
func sleeps(f *ast.File) (found bool) {
	ast.Inspect(f, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok && sel.Sel.Name == "Sleep" {
			x, ok := sel.X.(*ast.Ident)
			found = found || ok && x.Name == "time"
		}
		return true
	})
	return found
}

// TestSleeps: the rule finds what it forbids, and nothing else.
func TestSleeps(t *testing.T) {
	for body, want := range map[string]bool{"time.Sleep(1)": true, "f := time.Sleep; f(1)": true, "<-time.After(1)": false, `s := "time.Sleep(1)"; _ = s`: false} {
		f, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x\nfunc f() {\n"+body+"\n}", 0)
		env.Check(t, err)
		if got := sleeps(f); got != want {
			t.Errorf("%s: %v", body, got)
		}
	}
}
