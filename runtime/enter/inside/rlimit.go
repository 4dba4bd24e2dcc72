package inside

import (
	"syscall"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/enter"
)

// setRlimits sets resource limits and reads them back. Without CAP_SYS_RESOURCE a
// hard limit can only be lowered, so one that is lower already stays.
func setRlimits(limits []enter.Rlimit) error {
	for _, r := range limits {
		name := "resource limit " + itoa(uint64(r.Resource))
		var have unix.Rlimit
		if err := unix.Prlimit(0, int(r.Resource), nil, &have); err != nil {
			return &refusal{"reading " + name + ": " + err.Error()}
		}
		want := unix.Rlimit{Max: min(r.Hard, have.Max)}
		want.Cur = min(r.Soft, want.Max)
		// Package syscall otherwise puts the soft limit on open files back, which
		// Go's runtime has raised, when it execs; the filter may refuse that.
		if err := syscall.Setrlimit(int(r.Resource), &syscall.Rlimit{Cur: want.Cur, Max: want.Max}); err != nil {
			return &refusal{"setting " + name + ": " + err.Error()}
		}
		if err := unix.Prlimit(0, int(r.Resource), nil, &have); err != nil {
			return &refusal{"reading " + name + ": " + err.Error()}
		}
		if have != want || r.Resource == unix.RLIMIT_CORE && have.Cur != r.Soft {
			return &refusal{name + " is " + itoa(have.Cur) + " of " + itoa(have.Max) + " and must be " + itoa(r.Soft) + " of " + itoa(r.Hard)}
		}
	}
	return nil
}
