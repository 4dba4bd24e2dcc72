package lifecycle

import (
	"os"
	"slices"
	"strings"
	"testing"
)

func TestKillOne(t *testing.T) {
	for args, want := range map[string]string{
		"kill --all id KILL":    "kill id KILL",
		"kill --all id SIGKILL": "kill id SIGKILL",
		"kill --all id 9":       "kill id 9",
		"kill --all id TERM":    "kill --all id TERM",
		"kill --all id":         "kill --all id",
		"kill id KILL":          "kill id KILL",
	} {
		if got := withoutAll(strings.Fields(args)); !slices.Equal(got, strings.Fields(want)) {
			t.Errorf("%s: got %q", args, got)
		}
	}
}

func TestOwnsProcesses(t *testing.T) {
	if ownsProcesses(os.Getpid()) {
		t.Error("a test is the first process of no namespace of its own")
	}
}
