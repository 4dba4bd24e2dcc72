package refusal

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"testing"

	"agentjail.dev/runtime/internal/docpage"
)

// TestError: the text, and that an error is taken apart however deep it is wrapped.
func TestError(t *testing.T) {
	e := New(BindSystem, "the host's settings are in %s", "it").WithRemedy("policy: %s", "binds.allow").About("mount of %s at %s", "/etc", "/w")
	if want := "mount of /etc at /w: refused: the host's settings are in it (remedy: policy: binds.allow)"; e.Error() != want {
		t.Errorf("%q, want %q", e, want)
	}
	other := New(Filter, "it ends early")
	if got := other.Error(); got != "refused: it ends early" {
		t.Errorf("%q", got)
	}
	if (*Error)(nil).About("x") != nil {
		t.Error("a refusal is made of none")
	}
	if Join(nil) != nil || any(Join([]*Error{e})) != any(e) {
		t.Error("none and one")
	}
	both := Join([]*Error{e, other})
	if text := both.Error(); text != e.Error()+"; "+other.Error() {
		t.Errorf("%q", text)
	}
	wrapped := fmt.Errorf("create: %w", errors.Join(both, errors.New("x")))
	if got := All(wrapped); len(got) != 2 || got[0] != e || got[1] != other || !errors.Is(wrapped, Err) {
		t.Errorf("%v", got)
	}
	if got := All(errors.New("x")); got != nil || All(nil) != nil || errors.Is(errors.New("refused"), Err) {
		t.Errorf("%v", got)
	}
	text, err := json.Marshal(e)
	if want := `{"code":"bind.system","of":"mount of /etc at /w","why":"the host's settings are in it","remedy":"policy: binds.allow"}`; err != nil || string(text) != want {
		t.Errorf("%s, %v", text, err)
	}
}

// TestCodes: every code is in the table once, with a meaning, and in docs/why.md with the same one.
func TestCodes(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "codes.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	consts := 0
	for _, d := range f.Decls {
		if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.CONST {
			consts += len(g.Specs)
		}
	}
	seen, list := map[Code]bool{}, ""
	for _, c := range Codes {
		if seen[c.Code] || c.Meaning == "" {
			t.Errorf("%s: twice, or without a meaning", c.Code)
		}
		seen[c.Code] = true
		list += fmt.Sprintf("- `%s`: %s\n", c.Code, c.Meaning)
	}
	if len(seen) != consts {
		t.Errorf("%d codes are in the table of %d", len(seen), consts)
	}
	docpage.Holds(t, "../../docs/why.md", "refusals", list)
}
