package collector

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentjail.dev/runtime/observe/ebpf"
	"agentjail.dev/runtime/observe/journal"
	"agentjail.dev/runtime/state"
	"agentjail.dev/tests/env"
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

// TestLateMountNamespace: what a jail does right after its start is in its own journal, although its record was read before it had a mount
// namespace, or before the jail was made, or is gone.
func TestLateMountNamespace(t *testing.T) {
	dir := t.TempDir()
	store := state.Store{Root: filepath.Join(dir, "state")}
	const ids = 1 << 20
	w := newWriter(journal.Place{Store: store}, Options{Logf: t.Logf})
	jails := map[string]*state.Brief{}
	make := func(id string) {
		j := &state.Jail{Brief: state.Brief{ID: id, Key: id, Journal: filepath.Join(dir, "1234-"+id+"@20260102T030405.000006.jsonl")}}
		env.Check(t, journal.Of(&j.Brief).Log().Begin(journal.Event{Kind: journal.JailCreate}))
		env.Check(t, store.Create(j))
		known := filepath.Join(store.Root, "ids", fmt.Sprint(ids))
		env.Check(t, errors.Join(os.MkdirAll(known, 0o700), os.WriteFile(filepath.Join(known, id), nil, 0o600)))
		jails[id] = &j.Brief
	}
	// By a process that lives, and is no jail's.
	event := func(number, mounts uint32) {
		w.event(ebpf.Event{Jail: ids << 32, Hook: ebpf.Syscall, Number: number, Mounts: mounts, Time: uint64(time.Second), Pid: uint32(os.Getpid()), Result: -1})
		w.flush()
	}
	make("sandbox")
	make("first")
	event(100, 7) // which has the records read
	env.Check(t, store.First(jails["first"], os.Getpid(), 1, 8))
	event(101, 8)
	make("second")
	env.Check(t, store.First(jails["second"], os.Getpid(), 1, 9))
	event(102, 9)
	env.Check(t, errors.Join(os.Remove(filepath.Join(store.Root, "ids", fmt.Sprint(ids), "first")), store.Remove("first")))
	event(103, 8)
	make("third") // whose namespace has the number of one that ended
	env.Check(t, store.First(jails["third"], os.Getpid(), 2, 9))
	event(104, 9)
	for id, want := range map[string]string{"third": "[104]", "sandbox": "[100]", "first": "[100 101 103]", "second": "[102]"} {
		var got []int
		events, err := journal.Follow(jails[id].Journal, false).Next()
		env.Check(t, err)
		for _, e := range events {
			if e.Number != nil {
				got = append(got, *e.Number)
			}
		}
		if fmt.Sprint(got) != want {
			t.Errorf("%s has the calls %v, not %s", id, got, want)
		}
	}
}
