package remedies

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"agentjail.dev/tests/env"
)

// A site is a place of the product's source that names a remedy.
type site struct {
	file string // from the repository's top
	// text is the remedy: its format, or the expression that has it.
	text string
}

func (s site) String() string { return s.file + ": " + s.text }

// top is the repository's.
var top = filepath.Join("..", "..")

// messages are the answers of agentjail why, and written a remedy in them.
const messages = "runtime/observe/why/messages.toml"

var written = regexp.MustCompile(`(?m)^write = ["']+(.*?)["']+$`)

// sites are all places that name a remedy, in the order of files: the format of WithRemedy, or its argument where the format is a mere %s,
// each string with "(remedy: ", and what agentjail why has to be written. The second of a text in a file begins with "(2) ".
func sites(t *testing.T) (out []site) {
	t.Helper()
	defer func() {
		seen := map[site]int{}
		for i, s := range out {
			s.text = strings.Join(strings.Fields(s.text), " ")
			if out[i] = s; seen[s] > 0 {
				out[i].text = fmt.Sprintf("(%d) %s", seen[s]+1, s.text)
			}
			seen[s]++
		}
	}()
	for _, m := range written.FindAllStringSubmatch(string(env.Read(t, filepath.Join(top, messages))), -1) {
		out = append(out, site{messages, m[1]})
	}
	for _, dir := range []string{"runtime", "cmd", "seccomp", "shim", "apparmor"} {
		env.Check(t, filepath.WalkDir(filepath.Join(top, dir), func(path string, e fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if e.IsDir() && e.Name() == "internal" && strings.HasSuffix(path, filepath.Join("runtime", "internal")) {
				return filepath.SkipDir // for tests
			}
			if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return nil
			}
			set := token.NewFileSet()
			file, err := parser.ParseFile(set, path, nil, 0)
			if err != nil {
				return err
			}
			rel, err := filepath.Rel(top, path)
			ast.Inspect(file, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.CallExpr:
					if f, ok := n.Fun.(*ast.SelectorExpr); ok && f.Sel.Name == "WithRemedy" && len(n.Args) > 0 {
						text := textOf(n.Args[0])
						if text == "%s" && len(n.Args) == 2 {
							text = textOf(n.Args[1])
						}
						out = append(out, site{rel, text})
					}
				case *ast.BasicLit:
					if text, err := strconv.Unquote(n.Value); err == nil && n.Kind == token.STRING && text != " (remedy: " {
						if _, remedy, has := strings.Cut(text, "(remedy: "); has {
							out = append(out, site{rel, strings.TrimSuffix(remedy, ")")})
						}
					}
				}
				return true
			})
			return err
		}))
	}
	return out
}

// textOf is a string of the source, or the expression that has it.
func textOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		if text, err := strconv.Unquote(e.Value); err == nil {
			return text
		}
	case *ast.BinaryExpr:
		return textOf(e.X) + textOf(e.Y)
	case *ast.CallExpr:
		var args []string
		for _, a := range e.Args {
			args = append(args, textOf(a))
		}
		return textOf(e.Fun) + "(" + strings.Join(args, ", ") + ")"
	case *ast.SelectorExpr:
		return textOf(e.X) + "." + e.Sel.Name
	case *ast.Ident:
		return e.Name
	}
	return fmt.Sprintf("%T", e)
}
