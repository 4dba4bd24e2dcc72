package collector

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"agentjail.dev/runtime/internal/budget"
	"agentjail.dev/runtime/observe/ebpf"
	"agentjail.dev/runtime/observe/journal"
	"agentjail.dev/runtime/state"
)

// TestDescribeRefused: what a program refuses is an event of its hook's kind, a refusal with a
// rule.
func TestDescribeRefused(t *testing.T) {
	for _, c := range []struct {
		in   ebpf.Event
		want journal.Kind
	}{
		{ebpf.Event{Hook: ebpf.Module, Text: "dccp"}, journal.ModuleRefused},
		{ebpf.Event{Hook: ebpf.Ptrace}, journal.PtraceRefused},
		{ebpf.Event{Hook: ebpf.IOUring}, journal.Ring0Passed},
		{ebpf.Event{Hook: ebpf.Exec}, journal.ExecBlocked},
		{ebpf.Event{Hook: ebpf.Trace}, journal.TraceBlocked},
		{ebpf.Event{Hook: ebpf.Connect}, journal.ConnectBlocked},
		{ebpf.Event{Hook: ebpf.Bind}, journal.BindBlocked},
	} {
		c.in.Refused, c.in.Program = true, "probe"
		e := describe(&c.in, 2, time.Now(), time.Time{})
		if err := e.Complete(); err != nil {
			t.Errorf("%s: %v", c.want, err)
		}
		if e.Kind != c.want || e.Errno != "EPERM" || e.Count != 2 || e.Program != "probe" || e.Source != journal.SourceEBPF || !e.Refused() && c.want != journal.Ring0Passed || e.Decided() == "" {
			t.Errorf("%v: %+v, decided by %q; want %s", c.in.Hook, e, e.Decided(), c.want)
		}
		if c.in.Text != "" && e.Name != c.in.Text {
			t.Errorf("%s: %+v does not state of what", c.want, e)
		}
	}
}

// TestDescribeProgram: arguments that are not all there end with a mark, and the journal has each
// of a program's.
func TestDescribeProgram(t *testing.T) {
	for name, row := range map[string]struct {
		started ebpf.Started
		argv    []string
	}{
		"whole":                   {ebpf.Started{Argv: "sh\x00-c\x00\x00", ArgvSize: 7}, []string{"sh", "-c", ""}},
		"cut":                     {ebpf.Started{Argv: "sh\x00lo", ArgvSize: 70}, []string{"sh", "lo…"}},
		"none, as no process saw": {ebpf.Started{}, nil},
	} {
		e := describe(&ebpf.Event{Hook: ebpf.Exec, Text: "/bin/sh", Parent: 7, Started: row.started}, 1, time.Now(), time.Time{})
		if !slices.Equal(e.Argv, row.argv) || e.Path != "/bin/sh" || e.PPid != 7 {
			t.Errorf("%s: %+v", name, e)
		}
	}
}

// TestEventIsOfItsJail: an event of a pod's process is of the jail whose mount namespace it was in, also when the
// process is gone, or is no descendant of the jail's first one, as those of exec are not.
func TestEventIsOfItsJail(t *testing.T) {
	pause, main := &state.Brief{ID: "pause", InitPid: 1 << 30, MountNS: 11}, &state.Brief{ID: "main", InitPid: os.Getpid(), MountNS: 12}
	// Their namespace's number was that of others, which have ended.
	before, long := &state.Brief{ID: "before", MountNS: 12, InitStart: 5}, &state.Brief{ID: "long before", MountNS: 12, InitStart: 2}
	main.InitStart = 7
	all := []*state.Brief{pause, main, before, long}
	const tick = uint64(time.Second / state.StartTicks)
	for _, row := range []struct {
		event ebpf.Event
		want  []int
	}{
		{ebpf.Event{Pid: 1, Mounts: 11}, []int{0}},
		{ebpf.Event{Pid: 1, Mounts: 12, Time: 7 * tick}, []int{1}},
		{ebpf.Event{Pid: 1 << 30, Mounts: 12, Time: 9 * tick}, []int{1}},
		{ebpf.Event{Pid: 1, Mounts: 12, Time: 7*tick - 1}, []int{2}},
		{ebpf.Event{Pid: 1, Mounts: 12, Time: 2 * tick}, []int{3}},
		{ebpf.Event{Pid: 1, Mounts: 12}, []int{1, 2, 3}},             // before all of them
		{ebpf.Event{Pid: uint32(os.Getpid()), Mounts: 13}, []int{1}}, // as the parents state
		{ebpf.Event{Pid: uint32(os.Getpid())}, []int{1}},
		{ebpf.Event{Pid: 1, Mounts: 13}, []int{0, 1, 2, 3}}, // no jail's, and lost for none
	} {
		if got := owners(&row.event, all); !slices.Equal(got, row.want) {
			t.Errorf("%+v: of %v", row.event, got)
		}
	}
}

// TestBrief: a jail whose programs have long arguments gets a share of them into its journal,
// others theirs, and time gives some back.
func TestBrief(t *testing.T) {
	w := newWriter(journal.Place{}, Options{})
	long := strings.Repeat("x", 1000)
	const jail, other = 1 << 32, 2 << 32
	kept := func(jail uint64) bool {
		e := journal.Event{Kind: journal.ProcessExec, Path: "/bin/x", Argv: []string{long}, Cwd: "/tmp"}
		w.trimArgs(jail, &e)
		if whole := len(e.Argv) == 1 && e.Cwd == "/tmp"; whole != !e.ArgvOmitted || e.Path != "/bin/x" {
			t.Fatalf("%+v", e)
		}
		return len(e.Argv) == 1
	}
	n := 0
	for n < 10*int(words.Burst)/len(long) && kept(jail) {
		n++
	}
	if n < int(words.Burst)/1100 || n >= 5*int(words.Burst)/len(long) {
		t.Errorf("%d events have theirs", n)
	}
	if !kept(other) {
		t.Error("another jail has none")
	}
	var a budget.Bucket
	now := time.Now()
	for _, row := range []struct {
		after time.Duration
		n     int64
		want  bool
	}{{0, words.Burst, true}, {0, 1, false}, {time.Second, words.Rate, true}, {0, 1, false}, {time.Hour, words.Burst, true}, {0, 1, false}} {
		if now = now.Add(row.after); a.Take(words, row.n, now) != row.want {
			t.Errorf("%+v", row)
		}
	}
}
