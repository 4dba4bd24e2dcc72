package collector

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentjail.dev/runtime/observe/journal"
	"agentjail.dev/runtime/state"
)

// TestPrintedIsWritten: an event that is printed is in its jail's journal, and one of a jail without
// a journal is printed, too.
func TestPrintedIsWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "1234-jail@20260102T030405.000006.jsonl")
	with, without := &state.Brief{ID: "jail", Journal: path}, &state.Brief{ID: "other"}
	if err := journal.Of(with).Log().Begin(journal.Event{Kind: journal.JailCreate}); err != nil {
		t.Fatal(err)
	}
	printed := map[string]bool{}
	w := newWriter(journal.Place{}, Options{Logf: t.Logf, Print: func(e journal.Event) {
		printed[e.Jail] = true
		if text, err := os.ReadFile(path); e.Jail == with.ID && (err != nil || !strings.Contains(string(text), e.Program)) {
			t.Errorf("an event is printed and not in the journal: %v\n%s", err, text)
		}
	}})
	for _, b := range []*state.Brief{with, without} {
		w.append(b, journal.Event{Kind: journal.ProcessExec, Path: "/bin/true", Program: "a-program"})
	}
	if !printed[with.ID] || !printed[without.ID] {
		t.Errorf("printed: %v", printed)
	}
}
