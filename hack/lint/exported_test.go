package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strings"
	"testing"

	"agentjail.dev/tests/env"
)

// exporting are the directories whose exported names are for other packages.
var exporting = []string{"runtime", "seccomp", "apparmor", "shim"}

// called are methods that only the standard library calls.
var called = []string{"GoString", "MarshalJSON", "UnmarshalJSON", "UnmarshalText"}

// TestExportedNamesAreUsed: each exported function, method and variable of the product is named in
// another directory, or by a test of another package. Types and constants belong to those.
func TestExportedNamesAreUsed(t *testing.T) {
	set := token.NewFileSet()
	parse := func(f file) *ast.File {
		tree, err := parser.ParseFile(set, f.path, nil, parser.SkipObjectResolution)
		env.Check(t, err)
		return tree
	}
	used := map[string][]string{} // directories by the names that they select
	for _, f := range append(goFiles(t, everywhere, false, 500), goFiles(t, everywhere, true, 500)...) {
		tree := parse(f)
		dir := path.Dir(f.rel)
		if strings.HasSuffix(tree.Name.Name, "_test") {
			dir += "_test"
		}
		for name := range selected(tree) {
			if !slices.Contains(used[name], dir) {
				used[name] = append(used[name], dir)
			}
		}
	}
	for _, f := range goFiles(t, exporting, false, 300) {
		tree := parse(f)
		if ast.IsGenerated(tree) {
			continue
		}
		for _, name := range exports(tree) {
			elsewhere := func(dir string) bool { return dir != path.Dir(f.rel) }
			if !slices.Contains(called, name.Name) && !slices.ContainsFunc(used[name.Name], elsewhere) {
				t.Errorf("%s:%d: no other package uses %s (remedy: unexport it)", f.rel, set.Position(name.Pos()).Line, name.Name)
			}
		}
	}
}

// selected returns the names that a file selects, as in x.Name, and those of the methods that its
// interfaces have.
func selected(f *ast.File) map[string]bool {
	out := map[string]bool{}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			out[n.Sel.Name] = true
		case *ast.InterfaceType:
			for _, m := range n.Methods.List {
				for _, name := range m.Names {
					out[name.Name] = true
				}
			}
		}
		return true
	})
	return out
}

// exports returns the exported functions, methods of exported types, and variables of a file.
func exports(f *ast.File) (out []*ast.Ident) {
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Name.IsExported() && (d.Recv == nil || receiverExported(d.Recv)) {
				out = append(out, d.Name)
			}
		case *ast.GenDecl:
			if d.Tok != token.VAR {
				continue
			}
			for _, s := range d.Specs {
				for _, name := range s.(*ast.ValueSpec).Names {
					if name.IsExported() {
						out = append(out, name)
					}
				}
			}
		}
	}
	return out
}

// TestExports: names are found that a file exports and selects, and no others.
func TestExports(t *testing.T) {
	const code = `package p

var A, b = x.C, 1

const D = 1

func E() {}

func (t *T) F() {}

func (u) G() {}

type T interface{ H() }
`
	f, err := parser.ParseFile(token.NewFileSet(), "p.go", code, 0)
	env.Check(t, err)
	var got []string
	for _, name := range exports(f) {
		got = append(got, name.Name)
	}
	if want := []string{"A", "E", "F"}; !slices.Equal(got, want) {
		t.Errorf("exported: %v, not %v", got, want)
	}
	if got := selected(f); len(got) != 2 || !got["C"] || !got["H"] {
		t.Errorf("selected: %v", got)
	}
}
