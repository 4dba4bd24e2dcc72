package journal

import (
	"flag"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/journal.md's tables anew")

const page = "../../../docs/journal.md"

// kindTable is the page's table of kinds.
func kindTable() string {
	var b strings.Builder
	b.WriteString("| kind | ring | verdict | OCSF | what happened | source |\n|---|---|---|---|---|---|\n")
	for _, kind := range Kinds() {
		k := kind.Info()
		ring := fmt.Sprint(k.Ring)
		switch k.Ring {
		case None:
			ring = ""
		case Varies:
			ring = "its own"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %d/%d/%d | %s | %s |\n", k.Name, ring, k.Verdict, k.Class, k.Activity, k.Disposition, k.Meaning,
			strings.Join(k.Sources, ", "))
	}
	return b.String()
}

// TestDocs holds the page against the code: the table of kinds, and a row for each field.
func TestDocs(t *testing.T) {
	const begin, end = "<!-- kinds -->\n", "<!-- /kinds -->"
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	before, rest, ok := strings.Cut(text, begin)
	table, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatal("the page has no place for the kinds")
	}
	if want := kindTable(); table != want {
		if *update {
			if err := os.WriteFile(page, []byte(before+begin+want+end+after), 0o644); err != nil {
				t.Fatal(err)
			}
		} else {
			t.Error("docs/journal.md has other kinds: go test ./runtime/observe/journal -run TestDocs -update")
		}
	}
	for f := range reflect.TypeFor[Event]().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !strings.Contains(text, "`"+name+"`") {
			t.Errorf("docs/journal.md does not explain the field %s", name)
		}
	}
}
