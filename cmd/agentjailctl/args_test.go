package main

import (
	"slices"
	"strings"
	"testing"
)

// TestFlagsFirst: flags are understood behind a container's id too, and never taken out of a
// command that is to be run.
func TestFlagsFirst(t *testing.T) {
	for _, row := range []struct{ typed, read string }{
		{"receipt ID --json", "receipt --json ID"},
		{"receipt ID --html FILE", "receipt --html FILE ID"},
		{"receipt ID --html=FILE --json", "receipt --html=FILE --json ID"},
		{"network log ID -f --json", "network log -f --json ID"},
		{"--config FILE network log ID --json", "--config FILE network log --json ID"},
		{"watch A B --denied", "watch --denied A B"},
		{"denied ID --unknown", "denied --unknown ID"}, // which the library reports
		{"why ID -bash:", "why ID -bash:"},
		{"watch --to", "watch --to"},
		{"denied -- --json", "denied -- --json"},
		{"denied ID -- --json", "denied ID -- --json"},
		{"denied ID --help", "denied --help ID"},
		{"receipt ID --html", "receipt --html"}, // the library reports what it lacks
		{"sandbox ls --json", "sandbox ls --json"},
		{"sandbox --workspace . ls -l", "sandbox --workspace . ls -l"},
		{"learn -- ls --json", "learn -- ls --json"},
		{"unheardOf ID --json", "unheardOf ID --json"},
		{"", ""},
	} {
		got := flagsFirst(newApp(), append([]string{"agentjail"}, strings.Fields(row.typed)...))
		if want := append([]string{"agentjail"}, strings.Fields(row.read)...); !slices.Equal(got, want) {
			t.Errorf("%q is read as %q", row.typed, got)
		}
	}
	if got := flagsFirst(newApp(), nil); len(got) != 0 {
		t.Errorf("of nothing it makes %q", got)
	}
}
