package why

import (
	"strings"
	"testing"

	"agentjail.dev/runtime/observe/journal"
)

// TestPast: what a jail was refused last that fits the question is seen, and nothing else is.
func TestPast(t *testing.T) {
	events := []journal.Event{
		{Kind: journal.JailStart, Time: "0"},
		{Kind: journal.SyscallRefused, Syscall: "bpf", Time: "1", Program: "a"},
		{Kind: journal.SyscallRefused, Syscall: "bpf", Time: "2", Count: 4, Program: "b"},
		{Kind: journal.NameRefused, Name: "pypi.org", Time: "3"},
		{Kind: journal.ConnectRefused, Name: "pypi.org", Port: 25, Time: "4"},
		{Kind: journal.NameAllowed, Name: "go.dev", Time: "4"},
		{Kind: journal.ApparmorDenied, Path: "/proc/sysrq-trigger", Time: "5"},
		{Kind: journal.LimitPids, Count: 9, Time: "6"},
	}
	for i := range events {
		if err := events[i].Complete(); err != nil {
			t.Fatal(err)
		}
	}
	for question, want := range map[string]string{
		"bpf": "refused 5 times so far, last at 2: syscall.refused bpf() by seccomp.profile program b", "mount": "",
		"pypi.org:443": "refused 1 times so far, last at 3", "pypi.org:25": "refused 2 times so far, last at 4", "go.dev:443": "",
		"/proc": "last at 5: apparmor.denied /proc/sysrq-trigger", "/proc/sys": "", "/proc/sysrq-trigger": "last at 5",
		"bash: fork: retry: Resource temporarily unavailable": "refused 9 times so far, last at 6: limit.pids by limits.pids",
		"Could not resolve host: pypi.org":                    "refused 2 times so far, last at 4: connect.refused pypi.org:25",
		"Killed":                                              "", "no message at all of this kind": "",
	} {
		q, err := ParseQuestion(question, "amd64")
		if err != nil {
			t.Fatal(err)
		}
		a := &Answer{}
		a.Past(q, events)
		if got := strings.Join(a.Seen, "; "); want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", question, got, want)
		}
	}
}
