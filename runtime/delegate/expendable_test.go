package delegate

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"agentjail.dev/runtime/kernel/oomscore"
)

// TestRunIntoScore: what a delegate starts is killed before the host's own, whatever the delegate
// knows of it.
func TestRunIntoScore(t *testing.T) {
	dir := t.TempDir()
	path, said := filepath.Join(dir, "delegate"), filepath.Join(dir, "said")
	if err := os.WriteFile(path, []byte("#!/bin/sh\nsh -c 'cat /proc/$$/oom_score_adj' > \"$1\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	score := func() int {
		text, err := os.ReadFile("/proc/self/oom_score_adj")
		n, cerr := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil || cerr != nil {
			t.Fatal(err, cerr)
		}
		return n
	}
	own := score()
	r := &Runtime{Path: path}
	for want, run := range map[int]func() (int, error){
		oomscore.Jail: func() (int, error) { return r.RunInto(nil, []string{said}, Time{}, oomscore.Jail, false) },
		own:           func() (int, error) { return r.RunInto(nil, []string{said}, Time{}, 0, false) },
	} {
		if code, err := run(); code != 0 || err != nil {
			t.Fatalf("status %d, %v", code, err)
		}
		text, err := os.ReadFile(said)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.TrimSpace(string(text)); got != strconv.Itoa(want) {
			t.Errorf("the delegate's child has %s, not %d", got, want)
		}
	}
	if now := score(); now != own {
		t.Errorf("this process had %d and has %d", own, now)
	}
}
