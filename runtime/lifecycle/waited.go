package lifecycle

import (
	"fmt"
	"sync"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/observe/journal"
)

// waited are the exit statuses that this process knows of jails' first processes, by the container's id: only who waits for a process learns it.
var waited sync.Map

// Waited reports how the first process of a jail ended, for its journal: for a caller that waits for it in this process, as the shim does, and
// calls delete afterwards. status is that of a shell: 128 and the signal's number for one that a signal ended.
func Waited(id string, status uint32) { waited.Store(id, status) }

// statusOf is what is known of a first process that has ended.
func statusOf(id string, e *journal.Event) {
	status, known := waited.LoadAndDelete(id)
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
