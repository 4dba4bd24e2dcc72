package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestTable: a row has a cell for each way out, and what was not run says why.
func TestTable(t *testing.T) {
	out := markdown([]row{
		{subject: subject{name: reference}, start: 5 * time.Millisecond, memory: 3 << 20, tries: map[string]string{"mknod": through, "ptrace": "stopped"}},
		{subject: subject{name: "b", why: "not run here: no such thing"}},
	})
	lines := strings.Split(strings.TrimSpace(out), "\n")
	for _, l := range lines {
		if strings.Count(l, "|") != strings.Count(lines[0], "|") {
			t.Errorf("%q has other columns than %q", l, lines[0])
		}
	}
	if !strings.Contains(out, "| runc | ×1 | 3 MiB |  |  | through | stopped |  |") || !strings.Contains(out, "| b | not run here: no such thing |") {
		t.Error(out)
	}
}

// TestWrite: the table replaces the former one, and nothing else of the page.
func TestWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(path, []byte("before\n"+docsBegin+"old\n"+docsEnd+"\nafter\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := write(path, "new\n"); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(path); string(text) != "before\n"+docsBegin+"new\n"+docsEnd+"\nafter\n" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
	if err := write(filepath.Join(t.TempDir(), "none"), ""); err == nil {
		t.Error("a page that is not there")
	}
}
