package lifecycle

import (
	"fmt"
	"sync"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/observe/journal"
)

// exitStatuses holds the exit statuses of jails' first processes that this process has waited for,
// by the container's id.
var exitStatuses sync.Map

// RecordExitStatus records how the first process of a jail ended, for its journal. It is for a
// caller that waits for that process, as the shim does, and calls delete afterwards. status is that
// of a shell: 128 and the signal's number if a signal ended the process.
func RecordExitStatus(id string, status uint32) { exitStatuses.Store(id, status) }

// statusOf adds the exit status of a first process to the event of its end.
func statusOf(id string, e *journal.Event) {
	status, known := exitStatuses.LoadAndDelete(id)
	if !known {
		e.Reason = "found when the jail was deleted; its exit status is not known: the engine waited for it"
		return
	}
	const signaled = 128
	n := status.(uint32)
	if name := unix.SignalName(unix.Signal(n - signaled)); n > signaled && name != "" {
		e.Status, e.Reason = fmt.Sprint(n), "by its number ended by "+name+", if it did not itself exit with it"
		return
	}
	e.Status = fmt.Sprint(n)
}
