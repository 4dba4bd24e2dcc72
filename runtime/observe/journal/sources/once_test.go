package sources

import (
	"fmt"
	"strings"
	"testing"

	"agentjail.dev/runtime/observe/journal"
)

// TestOnce: what a counter and the kernel's log both tell is counted once, with what each knows.
func TestOnce(t *testing.T) {
	counter := func(kind string, n uint64) journal.Event {
		return journal.Event{Kind: kind, Source: journal.SourceCgroup, Count: n, Limit: "64", Seq: 9, Prev: "x"}
	}
	record := func(kind, source, program string) journal.Event {
		return journal.Event{Kind: kind, Source: source, Program: program, Reason: "the kernel tells the first time only"}
	}
	kernel, other := journal.SourceKernel, journal.SourceEBPF
	for _, c := range []struct {
		name string
		in   []journal.Event
		want string
	}{
		{"the counter alone", []journal.Event{counter("limit.pids", 7)}, "limit.pids 7 of 64 by cgroup"},
		{"the log alone", []journal.Event{record("limit.oom", kernel, "a"), record("limit.oom", kernel, "b")}, "limit.oom 1 of  by kernel a, limit.oom 1 of  by kernel b"},
		{"both", []journal.Event{record("limit.oom", kernel, "a"), counter("limit.oom", 2), record("limit.oom", kernel, "b")}, "limit.oom 1 of 64 by kernel a, limit.oom 1 of 64 by kernel b"},
		{"the log tells the first only", []journal.Event{record("limit.pids", kernel, ""), counter("limit.pids", 40)}, "limit.pids 40 of 64 by kernel"},
		{"the counter's group is gone", []journal.Event{counter("limit.oom", 1), record("limit.oom", kernel, "a"), record("limit.oom", kernel, "b")}, "limit.oom 1 of 64 by kernel a, limit.oom 1 of 64 by kernel b"},
		{"three sources", []journal.Event{counter("limit.oom", 3), record("limit.oom", kernel, "a"), record("limit.oom", other, "a"), record("limit.oom", other, "b")}, "limit.oom 2 of 64 by ebpf a, limit.oom 1 of 64 by ebpf b"},
		{"other kinds stay", []journal.Event{counter("limit.memory", 3), record("apparmor.denied", kernel, "a")}, "limit.memory 3 of 64 by cgroup, apparmor.denied 1 of  by kernel a"},
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
