package journal

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"agentjail.dev/runtime/internal/docpage"
	"agentjail.dev/runtime/spec/rings"
)

const page = "../../../docs/journal.md"

// kindList is the page's list of kinds, below the sources that can see them.
func kindList() string {
	var order []string
	of := make(map[string]string)
	for _, kind := range Kinds() {
		k := kind.Info()
		ring := fmt.Sprintf(" %d,", k.Ring)
		switch k.Ring {
		case rings.None:
			ring = ""
		case Varies:
			ring = " its ring,"
		}
		sources := strings.Join(k.Sources, ", ")
		if of[sources] == "" {
			order = append(order, sources)
		}
		of[sources] += fmt.Sprintf("- `%s`,%s %s: %s\n", k.Name, ring, k.Verdict, k.Meaning)
	}
	var b strings.Builder
	for _, sources := range order {
		fmt.Fprintf(&b, "\nFrom %s:\n\n%s", sources, of[sources])
	}
	return b.String() + "\n"
}

// detailList is the page's list of payloads.
func detailList() string {
	var b strings.Builder
	for _, k := range Kinds() {
		if decode := details[k]; decode != nil {
			d, _ := decode([]byte("{}"))
			fmt.Fprintf(&b, "- `%s`: `{%s}`\n", k, strings.Join(fieldsOf(reflect.TypeOf(d)), ","))
		}
	}
	return b.String()
}

// fieldsOf are the names of a struct's fields, those of a struct or of a list of them in braces.
func fieldsOf(t reflect.Type) (out []string) {
	for f := range t.Fields() {
		below := f.Type
		for below.Kind() == reflect.Slice || below.Kind() == reflect.Array || below.Kind() == reflect.Pointer {
			below = below.Elem()
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous:
			out = append(out, fieldsOf(f.Type)...)
		case below.Kind() == reflect.Struct:
			out = append(out, name+"{"+strings.Join(fieldsOf(below), ",")+"}")
		default:
			out = append(out, name)
		}
	}
	return out
}

// TestDocs holds the page against the code: the kinds, the payloads, and a row for each field.
func TestDocs(t *testing.T) {
	docpage.Holds(t, page, "kinds", kindList())
	docpage.Holds(t, page, "details", detailList())
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	for f := range reflect.TypeFor[Event]().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !strings.Contains(text, "`"+name+"`") {
			t.Errorf("docs/journal.md does not explain the field %s", name)
		}
	}
}
