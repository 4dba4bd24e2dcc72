package collector

import (
	"testing"
	"time"

	"agentjail.dev/runtime/ebpf"
	"agentjail.dev/runtime/journal"
)

// TestDescribeRefused: what a program refuses is an event of its hook's kind, a refusal with a rule.
func TestDescribeRefused(t *testing.T) {
	for _, c := range []struct {
		in   ebpf.Event
		want string
	}{
		{ebpf.Event{Hook: ebpf.Module, Text: "dccp"}, "module.refused"},
		{ebpf.Event{Hook: ebpf.Ptrace}, "ptrace.refused"},
		{ebpf.Event{Hook: ebpf.IOUring}, "ring0.passed"},
		{ebpf.Event{Hook: ebpf.Exec}, "exec.blocked"},
		{ebpf.Event{Hook: ebpf.Trace}, "trace.blocked"},
		{ebpf.Event{Hook: ebpf.Connect}, "connect.blocked"},
		{ebpf.Event{Hook: ebpf.Bind}, "bind.blocked"},
	} {
		c.in.Refused, c.in.Program = true, "probe"
		e := describe(&c.in, 2, time.Now(), time.Time{})
		if err := e.Complete(); err != nil {
			t.Errorf("%s: %v", c.want, err)
		}
		if e.Kind != c.want || e.Errno != "EPERM" || e.Count != 2 || e.Program != "probe" || e.Source != journal.SourceEBPF || !e.Refused() && c.want != "ring0.passed" || e.Decided() == "" {
			t.Errorf("%v: %+v, decided by %q; want %s", c.in.Hook, e, e.Decided(), c.want)
		}
		if c.in.Text != "" && e.Name != c.in.Text {
			t.Errorf("%s: %+v does not say of what", c.want, e)
		}
	}
}
