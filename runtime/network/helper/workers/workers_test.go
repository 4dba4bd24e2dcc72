package workers

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const root = "../../../.."

var update = flag.Bool("update", false, "write docs/host-limits.md's table of workers anew")

// TestDocs: docs/host-limits.md has the list.
func TestDocs(t *testing.T) {
	const head = "| process | while |"
	page := filepath.Join(root, "docs/host-limits.md")
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	if before, rest, ok := strings.Cut(text, "\n"+head); ok && *update {
		_, after, _ := strings.Cut(rest, "\n\n")
		text = before + "\n" + Markdown() + "\n" + after
		if err := os.WriteFile(page, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if !strings.Contains(text, "\n"+Markdown()+"\n") {
		t.Errorf("docs/host-limits.md has another table: go test ./runtime/network/helper/workers -run TestDocs -update")
	}
}

// TestPrograms: every program that is installed is in the list, but for the one that people ask and
// that runs for itself.
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

// TestService: the collector's service has the bounds that the list says.
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
