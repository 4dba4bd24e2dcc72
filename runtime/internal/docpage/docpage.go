// Package docpage holds pages of docs to what the code has. Only tests import it.
package docpage

import (
	"flag"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the parts of docs that are made of code")

// Holds fails the test unless a page has text between the lines <!--name--> and <!--/name-->.
// With the option -update it writes the page.
func Holds(t *testing.T, page, name, text string) {
	t.Helper()
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	begin, end := "<!--"+name+"-->\n", "<!--/"+name+"-->"
	before, rest, ok := strings.Cut(string(data), begin)
	have, after, ok2 := strings.Cut(rest, end)
	switch {
	case !ok || !ok2:
		t.Fatalf("%s has no place for the %s", page, name)
	case have == text:
	case !*update:
		t.Errorf("%s has other %s (remedy: go test -run %s -update, in this directory)", page, name, t.Name())
	default:
		if err := os.WriteFile(page, []byte(before+begin+text+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
