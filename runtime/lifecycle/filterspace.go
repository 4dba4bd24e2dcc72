package lifecycle

import (
	"errors"

	"agentjail.dev/runtime/jailinit"
	"agentjail.dev/runtime/kernel/thread"
	"agentjail.dev/seccomp/bpf"
)

// delegateFailed is the exit status of runc and crun for errors of their own
// when they execute in a container.
const delegateFailed = 255

// explainFilterError returns a delegate's error, and logs the cause if that is an errno for which
// no C library has a name: the host takes no further filter.
func (r *Runtime) explainFilterError(err error) error {
	if err == nil {
		return nil
	}
	if room := thread.Own(bpf.Room); errors.Is(room, bpf.ErrNoRoom) {
		r.Log.Error("agentjail: the delegate could not load a filter: " + jailinit.NoFilterSpace)
	}
	return err
}
