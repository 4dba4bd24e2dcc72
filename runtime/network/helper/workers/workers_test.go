package workers

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"agentjail.dev/runtime/internal/docpage"
)

const root = "../../../.."

// TestDocs: docs/host-limits.md has the list.
func TestDocs(t *testing.T) {
	docpage.Holds(t, filepath.Join(root, "docs/host-limits.md"), "workers", markdown())
}

// TestPrograms: every program that is installed is in the list, but for the command line, which
// people run.
func TestPrograms(t *testing.T) {
	found, err := os.ReadDir(filepath.Join(root, "cmd"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		if !slices.ContainsFunc(All, func(w Worker) bool { return w.Name == f.Name() }) {
			t.Errorf("what bounds %s?", f.Name())
		}
	}
	seen := map[string]bool{}
	for _, w := range All {
		if _, err := os.Stat(filepath.Join(root, "cmd", w.Name)); err != nil || seen[w.String()] {
			t.Errorf("%s: twice, or no program: %v", w, err)
		}
		seen[w.String()] = true
		for _, text := range []string{w.While, string(w.Group), w.Processor, w.Memory, w.Sockets, w.Files, w.Full} {
			if text == "" || strings.Contains(text, "|") {
				t.Errorf("%s: a column has %q", w, text)
			}
		}
	}
}

// TestService: the collector's service has the bounds that the list states.
func TestService(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "hack/systemd/agentjail-journal.service"))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"CPUQuota=" + collectorCPU, "MemoryMax=" + collectorMemory, "TasksMax=" + collectorTasks} {
		if !strings.Contains(string(text), "\n"+line+"\n") {
			t.Errorf("the service has no %s", line)
		}
	}
}
