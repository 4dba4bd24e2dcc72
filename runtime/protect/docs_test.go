package protect

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// TestDocs: the documentation names each path of the table, and the bounds.
func TestDocs(t *testing.T) {
	text, err := os.ReadFile("../../docs/protected-paths.md")
	if err != nil {
		t.Fatal(err)
	}
	_, inConfig, _ := strings.Cut(string(text), "`.config/{")
	inConfig, _, _ = strings.Cut(inConfig, "}")
	for _, e := range Table {
		if name, is := strings.CutPrefix(e.Path, ".config/"); !strings.Contains(string(text), "`"+e.Path+"`") && e.Why != lefthook && !(is && slices.Contains(strings.Split(inConfig, ","), name)) {
			t.Errorf("docs/protected-paths.md does not name %s", e.Path)
		}
	}
	l := DefaultLimits
	if l.Entries != 3_000_000 || l.Ignored != 12_000_000 || l.Depth != 128 || l.Paths != 10_000 {
		t.Errorf("the documented bounds of the search are others than %+v", l)
	}
}
