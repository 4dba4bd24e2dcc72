package why

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"agentjail.dev/runtime/refusal"
)

// verb is a verb of a format, and filled an argument for it.
var verb = regexp.MustCompile(`%[-+#0-9.]*([a-zA-Z])`)

func filled(format string) string {
	return verb.ReplaceAllStringFunc(format, func(v string) string {
		switch v[len(v)-1] {
		case 'd', 'o', 'x', 'c':
			return "7"
		case 'q':
			return `"/some/path"`
		}
		return "some"
	})
}

// ownTexts are the formats of agentjail's refusals, and of its errors with a remedy, from the
// sources.
func ownTexts(t *testing.T) (refused, remedied []string) {
	t.Helper()
	root := filepath.Join("..", "..", "..")
	for _, dir := range []string{"runtime", "cmd", "seccomp", "shim"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				name := ""
				if s, ok := call.Fun.(*ast.SelectorExpr); ok {
					if x, ok := s.X.(*ast.Ident); ok {
						name = x.Name + "." + s.Sel.Name
					}
				}
				for _, arg := range call.Args {
					lit, ok := arg.(*ast.BasicLit)
					if !ok || lit.Kind != token.STRING {
						continue
					}
					text, err := strconv.Unquote(lit.Value)
					if err != nil {
						continue
					}
					switch {
					case name == "refusal.New":
						refused = append(refused, filled(text))
					case name == "fmt.Errorf" && strings.Contains(text, "(remedy: "):
						remedied = append(remedied, filled(text))
					}
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return refused, remedied
}

// TestOwnRefusals: whatever agentjail refuses, its own text is a question with an answer, which has
// the remedy of the text.
func TestOwnRefusals(t *testing.T) {
	f := &Facts{Network: Network{Mode: "none", Nothing: true}}
	refused, remedied := ownTexts(t)
	if len(refused) < 60 || len(remedied) < 60 {
		t.Fatalf("%d refusals and %d errors with a remedy are found in the sources", len(refused), len(remedied))
	}
	answer := func(text, remedy string) {
		t.Helper()
		a, err := f.Answer(ask(t, text, "amd64"))
		if err != nil || a.Verdict == Unknown || a.Verdict == Passes {
			t.Errorf("%q: %v %+v", text, err, a)
			return
		}
		if remedy != "" && (len(a.Causes) == 0 || len(a.Causes[0].Remedies) == 0 || a.Causes[0].Remedies[0].Write != remedy) {
			t.Errorf("%q: the remedy %q is not the first of %+v", text, remedy, a.Causes)
		}
	}
	for _, why := range refused {
		e := refusal.New(refusal.Spec, "%s", why).About("mount of /a at /b")
		answer(e.Error(), "")
		answer("agentjail: "+e.WithRemedy("policy: some.key").Error(), "policy: some.key")
	}
	for _, text := range remedied {
		_, rest, _ := strings.Cut(text, "(remedy: ")
		answer("agentjail: "+text, rest[:strings.LastIndexByte(rest, ')')])
	}
	for _, c := range refusal.Codes {
		answer(refusal.New(c.Code, "%s", c.Meaning).Error(), "")
	}
}
