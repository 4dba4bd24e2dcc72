package lifecycle

import "agentjail.dev/runtime/kernel/fork"

// CloseInherited marks the files that this process was started with, beyond the
// standard ones, so that neither the delegate nor a jail gets them.
func CloseInherited() error { return fork.CloseOnExec() }

// SetReaper installs watch for a process of which another part waits for all children. It has to be
// called before anything else. watch is called before each start of a child. Of the functions that
// it returns, wait returns a child's status (128 and the signal's number if the child was killed),
// and stop announces that wait will not be called.
func SetReaper(watch func() (wait func(pid int) (int, error), stop func())) { fork.Reaper = watch }
