package jail

import "agentjail.dev/runtime/internal/fork"

// CloseInherited marks the files that this process was started with, beyond the
// standard ones, so that neither the delegate nor a jail gets them.
func CloseInherited() error { return fork.CloseOnExec() }
