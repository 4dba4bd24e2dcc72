package changes

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"agentjail.dev/runtime/kernel/filetime"
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
	got, more, err := First(context.Background(), layer, below, time.Time{}, 100)
	want := []Change{{Added, "/a"}, {Added, "/a/b"}, {Added, "/a/b/c"}, {Changed, "/a/b/file"}, {Added, "/link"}}
	if err != nil || more || !slices.Equal(got, want) {
		t.Errorf("%v, %v, %v", got, more, err)
	}
	for most := range len(want) {
		if got, more, err := First(context.Background(), layer, below, time.Time{}, most); err != nil || !more || len(got) != most {
			t.Errorf("of at most %d: %v, %v, %v", most, got, more, err)
		}
	}
	for i := range 1000 {
		must(t, os.WriteFile(filepath.Join(top, fmt.Sprintf("a/%d", i)), nil, 0o644))
	}
	if got, more, err := First(context.Background(), layer, below, time.Time{}, 50); err != nil || !more || len(got) != 50 {
		t.Errorf("of a thousand: %d, %v, %v", len(got), more, err)
	}
}

// TestPrepared: what was in the layer before the jail ran is agentjail's and not listed, but what the jail changed
// of it, and what it made below.
func TestPrepared(t *testing.T) {
	top := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(top, "etc/apt"), 0o755))
	must(t, os.WriteFile(filepath.Join(top, "etc/shadow"), nil, 0o644))
	must(t, os.WriteFile(filepath.Join(top, "etc/apt/conf"), nil, 0o644))
	layer, err := os.Open(top)
	must(t, err)
	defer layer.Close()
	since := filetime.Moment(top)
	none := func(string) bool { return false }
	both := func(want ...Change) {
		t.Helper()
		got, _, err := First(t.Context(), layer, none, since, 100)
		all, lerr := list(t.Context(), layer, none, since)
		slices.SortFunc(all, func(a, b Change) int { return strings.Compare(a.Path, b.Path) })
		if err != nil || lerr != nil || !slices.Equal(got, want) || !slices.Equal(all, want) {
			t.Errorf("%v, %v, %v, %v, want %v", got, err, all, lerr, want)
		}
	}
	both()
	for !filetime.Moment(top).After(since) { // the clock's next tick
		runtime.Gosched()
	}
	must(t, os.Chtimes(filepath.Join(top, "etc/shadow"), time.Unix(1, 0), time.Unix(1, 0)))
	must(t, os.WriteFile(filepath.Join(top, "etc/apt/conf"), []byte("x"), 0o644))
	both(Change{Added, "/etc/apt/conf"}, Change{Added, "/etc/shadow"})
}
