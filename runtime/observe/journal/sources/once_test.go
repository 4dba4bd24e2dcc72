package sources

import (
	"fmt"
	"strings"
	"testing"

	"agentjail.dev/runtime/observe/journal"
)

// TestTwoSourcesCountOnce: what a counter and the kernel's log both report is counted once, with what each knows.
func TestTwoSourcesCountOnce(t *testing.T) {
	counter := func(kind journal.Kind, n uint64) journal.Event {
		return journal.Event{Kind: kind, Source: journal.SourceCgroup, Count: n, Limit: "64", Seq: 9, Prev: "x"}
	}
	record := func(kind journal.Kind, source, program string) journal.Event {
		return journal.Event{Kind: kind, Source: source, Program: program, Reason: "the kernel reports only the first time"}
	}
	kernel, other := journal.SourceKernel, journal.SourceEBPF
	for _, c := range []struct {
		name string
		in   []journal.Event
		want string
	}{
		{"the counter alone", []journal.Event{counter(journal.LimitPids, 7)}, "limit.pids 7 of 64 by cgroup"},
		{"the log alone", []journal.Event{record(journal.LimitOOM, kernel, "a"), record(journal.LimitOOM, kernel, "b")}, "limit.oom 1 of  by kernel a, limit.oom 1 of  by kernel b"},
		{"both", []journal.Event{record(journal.LimitOOM, kernel, "a"), counter(journal.LimitOOM, 2), record(journal.LimitOOM, kernel, "b")}, "limit.oom 1 of 64 by kernel a, limit.oom 1 of 64 by kernel b"},
		{"the log reports the first only", []journal.Event{record(journal.LimitPids, kernel, ""), counter(journal.LimitPids, 40)}, "limit.pids 40 of 64 by kernel"},
		{"the counter's group is gone", []journal.Event{counter(journal.LimitOOM, 1), record(journal.LimitOOM, kernel, "a"), record(journal.LimitOOM, kernel, "b")}, "limit.oom 1 of 64 by kernel a, limit.oom 1 of 64 by kernel b"},
		{"three sources", []journal.Event{counter(journal.LimitOOM, 3), record(journal.LimitOOM, kernel, "a"), record(journal.LimitOOM, other, "a"), record(journal.LimitOOM, other, "b")}, "limit.oom 2 of 64 by ebpf a, limit.oom 1 of 64 by ebpf b"},
		{"other kinds stay", []journal.Event{counter(journal.LimitMemory, 3), record(journal.ApparmorDenied, kernel, "a")}, "limit.memory 3 of 64 by cgroup, apparmor.denied 1 of  by kernel a"},
	} {
		before := fmt.Sprint(c.in)
		var got []string
		for _, e := range Once(c.in) {
			got = append(got, strings.TrimSpace(fmt.Sprintf("%s %d of %s by %s %s", e.Kind, max(1, e.Count), e.Limit, e.Source, e.Program)))
		}
		if strings.Join(got, ", ") != c.want || fmt.Sprint(c.in) != before {
			t.Errorf("%s: %s, want %s", c.name, strings.Join(got, ", "), c.want)
		}
	}
}
