package firstproc

import (
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/internal/ringfault"
	"agentjail.dev/runtime/jailinit/host"
	"agentjail.dev/runtime/kernel/procstatus"
)

// AwaitProgram waits until a jail's first process has become its program. Two callers need this: a
// start without the delegate, and an exec over a delegate that enters the jail's user namespace
// first and the others from there, for which it must have power over that process. No process in a
// jail has power over the init step. Before the init step the process is still the delegate's own,
// with at most one filter, and the delegate's `start` does not wait for its end either. The step
// adds the inner filter. dir is the directory of the step's copies.
//
// AwaitProgram polls: no event reports that a process becomes another program but inotify on the
// program's file, and closing that takes 20 ms (a grace period of SRCU). The step needs some
// milliseconds, and this machine's processors.
func AwaitProgram(pid int, dir string) {
	const most, first, pause = 5 * time.Second, 2 * time.Millisecond, 200 * time.Microsecond
	begin := time.Now()
	for sleep := first; ; sleep = pause {
		// A process that runs the step has not ended. Its program is checked first, which costs a
		// tenth, and again after its filters, which the step may have loaded meanwhile.
		if !host.Runs(pid, dir) {
			ended, filters := State(pid)
			if ended || (filters >= 2 || ringfault.Ring(0)) && !host.Runs(pid, dir) {
				return
			}
		}
		if time.Since(begin) > most {
			return
		}
		// Not Go's own sleep, which wakes other threads as well.
		t := unix.NsecToTimespec(int64(sleep))
		_ = unix.Nanosleep(&t, nil)
	}
}

// State reports whether a process has ended, and how many system call filters it has.
func State(pid int) (ended bool, filters int) {
	s, err := procstatus.Read(pid)
	if err != nil {
		return true, 0
	}
	filters, _ = strconv.Atoi(s.Field("Seccomp_filters"))
	return s.Ended(), filters
}
