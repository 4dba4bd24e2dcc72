package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"

	"agentjail.dev/tests/env"
)

// documented are the directories whose exported names have doc comments.
var documented = []string{"runtime", "seccomp", "apparmor", "shim", "cmd", "tests/engine"}

// TestDocComments: every exported name of the product, and of what tests share, reports what it is
// for.
func TestDocComments(t *testing.T) {
	for _, file := range goFiles(t, documented, false, 200) {
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, file.path, nil, parser.ParseComments|parser.SkipObjectResolution)
		env.Check(t, err)
		if ast.IsGenerated(f) {
			continue
		}
		for _, name := range undocumented(f) {
			t.Errorf("%s:%d: %s has no doc comment", file.rel, set.Position(name.Pos()).Line, name.Name)
		}
	}
}

// undocumented lists a file's exported names without a comment.
func undocumented(f *ast.File) []*ast.Ident {
	var out []*ast.Ident
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Doc == nil && d.Name.IsExported() && (d.Recv == nil || receiverExported(d.Recv)) {
				out = append(out, d.Name)
			}
		case *ast.GenDecl:
			if d.Doc == nil {
				out = append(out, undocumentedSpecs(d.Specs)...)
			}
		}
	}
	return out
}

// undocumentedSpecs lists the exported names of a declaration that has no comment of its own.
func undocumentedSpecs(specs []ast.Spec) []*ast.Ident {
	var out []*ast.Ident
	for _, s := range specs {
		switch s := s.(type) {
		case *ast.TypeSpec:
			if s.Doc == nil && s.Comment == nil && s.Name.IsExported() {
				out = append(out, s.Name)
			}
		case *ast.ValueSpec:
			for _, name := range s.Names {
				if s.Doc == nil && s.Comment == nil && name.IsExported() {
					out = append(out, name)
				}
			}
		}
	}
	return out
}

// receiverExported reports whether a method's type is exported.
func receiverExported(recv *ast.FieldList) bool {
	typ := recv.List[0].Type
	for {
		switch t := typ.(type) {
		case *ast.StarExpr:
			typ = t.X
		case *ast.IndexExpr:
			typ = t.X
		case *ast.Ident:
			return t.IsExported()
		default:
			return false
		}
	}
}

// TestUndocumented: names without a comment are found, and no others.
func TestUndocumented(t *testing.T) {
	const code = `package p

func A() {}

// B is documented.
func B() {}

func c() {}

type T struct{}

func (t *T) M() {}

type u struct{}

func (u) M() {}

const X, y = 1, 2

var (
	Z = 1
	W = 2 // W is documented.
)

// All are documented.
const (
	P = 1
	Q = 2
)
`
	f, err := parser.ParseFile(token.NewFileSet(), "p.go", code, parser.ParseComments)
	env.Check(t, err)
	var got []string
	for _, name := range undocumented(f) {
		got = append(got, name.Name)
	}
	if want := "A T M X Z"; strings.Join(got, " ") != want {
		t.Errorf("found %q, not %q", strings.Join(got, " "), want)
	}
}
