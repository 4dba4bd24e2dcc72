package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"

	"agentjail.dev/tests/env"
)

// grants are settings that give a jail more, as messages write them.
var grants = []string{
	"binds.allow", "binds.root =", "binds.setid =", "in binds.unprotect", "devices.allow", "apparmor.required = false", "landlock.required = false", "network.filter =",
}

// TestRemediesNameWhatTheyOpen: a message that advises a setting that gives a jail more states in the
// same breath what that opens: an advice is followed as it stands.
func TestRemediesNameWhatTheyOpen(t *testing.T) {
	n := 0
	for _, f := range goFiles(t, []string{"runtime", "cmd", "shim"}, false, 200) {
		if strings.HasPrefix(f.rel, "runtime/spec/policy/") || strings.HasPrefix(f.rel, "runtime/observe/why/") {
			continue // keys as such, and remedies that have a field for it
		}
		set := token.NewFileSet()
		tree, err := parser.ParseFile(set, f.path, nil, 0)
		env.Check(t, err)
		ast.Inspect(tree, func(node ast.Node) bool {
			lit, ok := node.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING {
				return true
			}
			text, err := strconv.Unquote(lit.Value)
			env.Check(t, err)
			if granted := grantIn(text); granted != "" {
				n++
				if _, after, _ := strings.Cut(text, granted); !strings.Contains(after, "which ") {
					t.Errorf("%s: %q advises %s and does not state what it opens (\"..., which opens ...\")", set.Position(lit.Pos()), text, granted)
				}
			}
			return true
		})
	}
	if n < 5 {
		t.Errorf("only %d such messages were found", n)
	}
}

// grantIn is the setting that a message advises; "" for none, and for a key or a value alone.
func grantIn(text string) string {
	for _, g := range grants {
		if strings.Contains(text, g) && strings.Contains(text, " ") && !strings.HasSuffix(text, "nobody\"") {
			return g
		}
	}
	return ""
}
