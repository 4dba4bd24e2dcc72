package lifecycle

import "agentjail.dev/runtime/kernel/fork"

// CloseInherited marks the files that this process was started with, beyond the
// standard ones, so that neither the delegate nor a jail gets them.
func CloseInherited() error { return fork.CloseOnExec() }

// SetReaper has to be called, before anything else, where something else in this
// process waits for all children. watch is called before each start of one; of
// what it returns, wait tells a child's status (128 and the signal's number if
// it was killed), or stop says that it will not be asked.
func SetReaper(watch func() (wait func(pid int) (int, error), stop func())) { fork.Reaper = watch }
