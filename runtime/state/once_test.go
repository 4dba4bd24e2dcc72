package state

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// TestOncePerBoot: what was reported is not reported again, what cannot be recorded is, and the
// record is bounded.
func TestOncePerBoot(t *testing.T) {
	s := Store{Root: t.TempDir()}
	for i, c := range []struct {
		text string
		want bool
	}{{"a", true}, {"b", true}, {"a", false}, {"b", false}} {
		if got := s.OncePerBoot(c.text); got != c.want {
			t.Errorf("%d: %s: %v", i, c.text, got)
		}
	}
	for i := range mostReported + 8 {
		s.OncePerBoot(fmt.Sprint(i))
	}
	if names, err := os.ReadDir(filepath.Join(s.Root, "reported")); err != nil || len(names) > mostReported {
		t.Errorf("%d files, %v", len(names), err)
	}
	nowhere := Store{Root: "/proc/nowhere"}
	for range 2 {
		if !s.OncePerBoot("more") {
			t.Error("what is beyond the bound is not reported")
		}
		if !nowhere.OncePerBoot("a") {
			t.Error("what cannot be recorded is not reported")
		}
	}
}
