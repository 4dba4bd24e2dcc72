package policy

import (
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"agentjail.dev/runtime/internal/docpage"
	"agentjail.dev/runtime/kernel/idmap"
)

// TestDocsAreTheDefault holds the configuration reference in docs to the
// code: it is complete, and it states the defaults.
func TestDocsAreTheDefault(t *testing.T) {
	docpage.Holds(t, "../../../docs/configuration.md", "keys", "```toml\n"+Reference()+"```\n")
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
}

// TestKeys: the table of keys and the fields of a policy are the same.
func TestKeys(t *testing.T) {
	var fields func(t reflect.Type, prefix string) []string
	fields = func(t reflect.Type, prefix string) (out []string) {
		for f := range t.Fields() {
			switch name := prefix + f.Tag.Get("toml"); {
			case f.Tag.Get("toml") == "-":
			case f.Type.Kind() == reflect.Struct && f.Type != reflect.TypeFor[idmap.Pool]():
				out = append(out, fields(f.Type, name+".")...)
			default:
				out = append(out, name)
			}
		}
		return out
	}
	want, have := fields(reflect.TypeFor[Policy](), ""), keyNames()
	slices.Sort(want)
	slices.Sort(have)
	if !slices.Equal(want, have) {
		t.Errorf("fields %q\nkeys %q", want, have)
	}
	for _, k := range Keys {
		v := valueAt(reflect.ValueOf(Default()), k.Name)
		for _, value := range k.OneOf {
			if value != v.String() && !strings.Contains(k.About, value) {
				t.Errorf("%s: its text does not explain %q", k.Name, value)
			}
		}
		if k.OneOf != nil && v.Kind() != reflect.String || k.About == "" || strings.Contains(k.About, "\n") {
			t.Errorf("%+v", k)
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

// noEmptyLists makes empty lists and tables absent ones, which state the same.
func noEmptyLists(v reflect.Value) {
	for _, field := range v.Fields() {
		switch f := field; {
		case f.Kind() == reflect.Struct:
			noEmptyLists(f)
		case (f.Kind() == reflect.Slice || f.Kind() == reflect.Map) && f.Len() == 0:
			f.SetZero()
		}
	}
}
