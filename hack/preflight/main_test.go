package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentjail.dev/tests/env"
)

// fakeProc is a /proc with n kernel workers in state D, and one that sleeps.
func fakeProc(t *testing.T, n int, name string) string {
	t.Helper()
	dir := t.TempDir()
	put := func(pid int, comm, state string) {
		at := filepath.Join(dir, fmt.Sprint(pid))
		env.Check(t, os.Mkdir(at, 0o755))
		for file, text := range map[string]string{
			"comm": comm + "\n", "stat": fmt.Sprintf("%d (%s) %s 2 0", pid, comm, state),
			"status": "Name:\t" + comm + "\nvoluntary_ctxt_switches:\t7\nnonvoluntary_ctxt_switches:\t0\n",
		} {
			env.Check(t, os.WriteFile(filepath.Join(at, file), []byte(text), 0o644))
		}
	}
	for i := range n {
		put(100+i, name, "D")
	}
	put(99, "kworker/0:0 ) D", "I")
	return dir
}

// TestWorkers: many workers that stay in uninterruptible sleep are reported, few are not, nor other
// processes.
func TestWorkers(t *testing.T) {
	if got := workers(fakeProc(t, stuckWorkers, "kworker/1:2+events"), 0); !strings.Contains(got, fmt.Sprintf("%d have been", stuckWorkers)) {
		t.Errorf("many: %q", got)
	}
	if got := workers(fakeProc(t, stuckWorkers-1, "kworker/1:2+events"), 0); got != "" {
		t.Errorf("few: %q", got)
	}
	if got := workers(fakeProc(t, stuckWorkers, "dd"), 0); got != "" {
		t.Errorf("others: %q", got)
	}
	if got := workers(filepath.Join(t.TempDir(), "none"), 0); got == "" {
		t.Error("no /proc at all is not reported")
	}
}

// TestAttempt: a probe that hangs is reported and ended, one that fails or succeeds is not
// reported.
func TestAttempt(t *testing.T) {
	if got := attempt("hangs", 50*time.Millisecond, "sleep", "1000"); !strings.HasPrefix(got, "hangs: no answer in 50ms") {
		t.Errorf("a probe that hangs: %q", got)
	}
	for _, command := range []string{"true", "false"} {
		if got := attempt(command, time.Minute, command); got != "" {
			t.Errorf("%s: %q", command, got)
		}
	}
	if got := attempt("missing", time.Minute, "/no/such/program"); !strings.Contains(got, "cannot be started") {
		t.Errorf("a missing probe: %q", got)
	}
}
