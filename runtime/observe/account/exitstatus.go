package account

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/observe/enginerecord"
	"agentjail.dev/runtime/observe/journal"
	"agentjail.dev/runtime/state"
)

// statusOf adds the exit status of a first process to the event of its end.
func (b Book) statusOf(j *state.Brief, e *journal.Event) {
	n, known := enginerecord.PodmanStatus(j.EngineEvents, j.ID, time.Unix(0, j.MountedSince))
	if b.ExitStatus != nil {
		n, known = b.ExitStatus(j.ID)
	}
	if !known {
		e.Reason = "found when the jail was deleted; its exit status is not known: the engine waited for it"
		return
	}
	const signaled = 128
	if name := unix.SignalName(unix.Signal(n - signaled)); n > signaled && name != "" {
		e.Status, e.Reason = fmt.Sprint(n), "by its number ended by "+name+", if it did not itself exit with it"
		return
	}
	e.Status = fmt.Sprint(n)
}
