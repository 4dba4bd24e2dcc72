package account

import (
	"fmt"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/observe/journal"
)

// statusOf adds the exit status of a first process to the event of its end.
func (b Book) statusOf(id string, e *journal.Event) {
	var n uint32
	known := false
	if b.ExitStatus != nil {
		n, known = b.ExitStatus(id)
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
