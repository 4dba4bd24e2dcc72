package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"testing"

	"agentjail.dev/runtime/spec/traits"
	"agentjail.dev/tests/env"
)

// named are the directories whose code may request a low-level runtime's name: the
// delegates' own, and the installers, who find such names in engines' files.
var named = []string{"runtime/delegate", "runtime/install", "hack", "tests"}

// TestDelegateNames: no behaviour depends on a delegate's name but by its traits.
func TestDelegateNames(t *testing.T) {
	each(t, named, func(rel string, f *ast.File) {
		for _, name := range comparedNames(f) {
			t.Errorf("%s compares with %q (remedy: a trait in runtime/spec/traits)", rel, name)
		}
	})
}

// modesNamed are the directories whose code may name a network mode: policy, whose
// values they are, the modes' own, and tests.
var modesNamed = []string{"runtime/spec/policy", "runtime/spec/network", "hack", "tests"}

// TestNetworkModeNames: behaviour depends on a network mode's methods, never on its name.
func TestNetworkModeNames(t *testing.T) {
	each(t, modesNamed, func(rel string, f *ast.File) {
		ast.Inspect(f, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok && (sel.Sel.Name == "NetworkNone" || sel.Sel.Name == "NetworkEngine" || sel.Sel.Name == "NetworkNames") {
				t.Errorf("%s names %s (remedy: a method of runtime/network/modes.Mode, or a field of network.Terms)", rel, sel.Sel.Name)
			}
			return true
		})
	})
}

// each parses the product's files, but those below the directories of skip.
func each(t *testing.T, skip []string, look func(rel string, f *ast.File)) {
	t.Helper()
	for _, file := range goFiles(t, everywhere, false, 200, skip...) {
		f, err := parser.ParseFile(token.NewFileSet(), file.path, nil, 0)
		env.Check(t, err)
		look(file.rel, f)
	}
}

// comparedNames lists the delegates' names that a file compares something with.
func comparedNames(f *ast.File) []string {
	var out []string
	add := func(exprs ...ast.Expr) {
		for _, e := range exprs {
			if lit, ok := e.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				if s, err := strconv.Unquote(lit.Value); err == nil && slices.Contains(traits.Names(), s) {
					out = append(out, s)
				}
			}
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BinaryExpr:
			if n.Op == token.EQL || n.Op == token.NEQ {
				add(n.X, n.Y)
			}
		case *ast.CaseClause:
			add(n.List...)
		case *ast.IndexExpr:
			add(n.Index)
		}
		return true
	})
	return out
}

// TestComparedNames: the rule finds what it forbids, and nothing else.
func TestComparedNames(t *testing.T) {
	for _, c := range []struct {
		body string
		bad  bool
	}{
		{`return d.Name == "crun"`, true},
		{`return "runc" != d.Name`, true},
		{`switch d.Name { case "youki", "crun": return true }`, true},
		{`return table["runc"]`, true},
		{`return d.Name == "youki"`, false},
		{`log("install runc", "runc")`, false},
	} {
		f, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x\nfunc f() bool {\n"+c.body+"\n}", 0)
		env.Check(t, err)
		if got := comparedNames(f); len(got) > 0 != c.bad {
			t.Errorf("%s: %v", c.body, got)
		}
	}
}
