package form

import (
	"strings"
	"testing"
)

// TestCheck: forms from the oldest to this build's are read, and an error has the remedy.
func TestCheck(t *testing.T) {
	for n, read := range map[int]bool{0: Reads(Unnumbered), Oldest: true, Number: true, Oldest - 1: false, Number + 1: false} {
		err := Check(n, "start anew")
		if (err == nil) != read || err != nil && !strings.HasSuffix(err.Error(), "(remedy: the release that made it, or start anew)") {
			t.Errorf("form %d: %v", n, err)
		}
	}
	if err := Check(Number+1, ""); !strings.HasSuffix(err.Error(), "(remedy: the release that made it)") {
		t.Error(err)
	}
}
