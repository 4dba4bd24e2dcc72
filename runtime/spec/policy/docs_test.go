package policy

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"agentjail.dev/runtime/internal/docpage"
)

// TestDocsAreTheDefault holds the configuration reference in docs to the
// code: it is complete, and it states the defaults.
func TestDocsAreTheDefault(t *testing.T) {
	text, err := os.ReadFile("../../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(text), "```toml\n")
	block, _, ok2 := strings.Cut(rest, "```")
	if !ok || !ok2 {
		t.Fatal("docs/configuration.md has no configuration reference")
	}
	p, err := Parse([]byte(block), "configuration.md", "")
	if err != nil {
		t.Fatal(err)
	}
	noEmptyLists(reflect.ValueOf(&p).Elem())
	if d := Default(); !reflect.DeepEqual(p, d) {
		t.Errorf("the documented values are\n%+v\nthe defaults are\n%+v", p, d)
	}
	for _, key := range keys(reflect.TypeFor[Policy](), "") {
		if !strings.Contains(block, "\n"+key+" = ") && !strings.HasPrefix(block, key+" = ") {
			t.Errorf("docs/configuration.md does not explain %s", key)
		}
	}
}

// TestAnnotationsPage: the page that people read has all annotations.
func TestAnnotationsPage(t *testing.T) {
	table := ""
	for _, a := range annotations {
		table += "- `" + AnnotationPrefix + a.name + "`: " + a.about + "\n"
	}
	docpage.Holds(t, "../../../docs/configuration.md", "annotations", table)
}

// noEmptyLists makes empty lists and tables absent ones, which say the same.
func noEmptyLists(v reflect.Value) {
	for i := range v.NumField() {
		switch f := v.Field(i); {
		case f.Kind() == reflect.Struct:
			noEmptyLists(f)
		case (f.Kind() == reflect.Slice || f.Kind() == reflect.Map) && f.Len() == 0:
			f.SetZero()
		}
	}
}
