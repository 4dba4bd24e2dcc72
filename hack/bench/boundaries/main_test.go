package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentjail.dev/tests/env"
)

// TestTable: a row names each way out that is not stopped, and a boundary that was not run its reason.
func TestTable(t *testing.T) {
	out := markdown([]row{
		{subject: subject{name: reference}, start: 5 * time.Millisecond, exec: time.Millisecond, memory: 3 << 20, files: 1234, calls: 300, shown: 7, tries: map[string]string{"double chroot": "stopped", "fchdir": "stopped", "mknod": through, "ptrace": "stopped", "/proc/1/root": "by the machine"}},
		{subject: subject{name: "b", why: "not run here: no such thing"}},
	})
	lines := strings.Split(strings.TrimSpace(out), "\n")
	for _, l := range lines {
		if strings.Count(l, "|") != strings.Count(lines[0], "|") {
			t.Errorf("%q has other columns than %q", l, lines[0])
		}
	}
	if !strings.Contains(out, "| runc | ×1 | ×1 | 3 MiB | 1200 | 300 | 7 | mknod (through), /proc/1/root (by the machine) |") || !strings.Contains(out, "| b | not run here: no such thing |") {
		t.Error(out)
	}
}

// TestWrite: the table replaces the former one, and nothing else of the page.
func TestWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "page.md")
	env.Check(t, os.WriteFile(path, []byte("before\n"+docsBegin+"old\n"+docsEnd+"\nafter\n"), 0o644))
	env.Check(t, write(path, "new\n"))
	if text, err := os.ReadFile(path); string(text) != "before\n"+docsBegin+"new\n"+docsEnd+"\nafter\n" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
	if err := write(filepath.Join(t.TempDir(), "none"), ""); err == nil {
		t.Error("a page that is not there")
	}
}

// TestCompared: each probe names the side with the better value, and what did not run has none.
func TestCompared(t *testing.T) {
	out := compared([]row{
		{subject: subject{name: "runc"}, start: 100, memory: 10 << 20, files: 1000, calls: 400, shown: 20, tries: map[string]string{"mknod": "stopped"}},
		{subject: subject{name: "agentjail"}, start: 180, memory: 11 << 20, files: 900, calls: 300, shown: 3, tries: map[string]string{"mknod": "stopped"}},
		{subject: subject{name: "crun", why: "not run here"}},
		{subject: subject{name: "gVisor alone"}, calls: -1, files: 2},
		{subject: subject{name: "agentjail, gVisor"}, calls: 90, files: 1},
	})
	for _, want := range []string{
		"| start | worse: 0 ms, 0 ms | not run here | same:", "| memory | same: 11 MiB, 10 MiB |", "| files a second | same:", "| worse: 1, 2 |",
		"| system calls of the host | better: 300, 400 | not run here | not known:", "| shown of the host | better: 3, 20 |", "| attacks stopped | same: 1, 1 |",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing:\n%s", want, out)
		}
	}
}
