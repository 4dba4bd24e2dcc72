package changes

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestFirst: no more is listed, or read, than was requested, and nothing below a link.
func TestFirst(t *testing.T) {
	top := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(top, "a/b/c"), 0o755))
	must(t, os.WriteFile(filepath.Join(top, "a/b/file"), nil, 0o644))
	must(t, os.Symlink("/", filepath.Join(top, "link")))
	layer, err := os.Open(top)
	must(t, err)
	defer layer.Close()
	below := func(path string) bool { return path == "a/b/file" }
	got, more, err := First(context.Background(), layer, below, 100)
	want := []Change{{Added, "/a"}, {Added, "/a/b"}, {Added, "/a/b/c"}, {Changed, "/a/b/file"}, {Added, "/link"}}
	if err != nil || more || !slices.Equal(got, want) {
		t.Errorf("%v, %v, %v", got, more, err)
	}
	for most := range len(want) {
		if got, more, err := First(context.Background(), layer, below, most); err != nil || !more || len(got) != most {
			t.Errorf("of at most %d: %v, %v, %v", most, got, more, err)
		}
	}
	for i := range 1000 {
		must(t, os.WriteFile(filepath.Join(top, fmt.Sprintf("a/%d", i)), nil, 0o644))
	}
	if got, more, err := First(context.Background(), layer, below, 50); err != nil || !more || len(got) != 50 {
		t.Errorf("of a thousand: %d, %v, %v", len(got), more, err)
	}
}
