package facts

import (
	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/hostfacts"
	"agentjail.dev/runtime/spec/plan"
)

// Host returns the host's facts. It first raises this process's hard limit on core files.
func Host() hostfacts.Facts {
	allowCoreOff()
	return hostfacts.Read()
}

// allowCoreOff raises this process's hard limit on core files to the one that a jail is to have, if
// the engine was started with less. The host's facts show a failure: only CAP_SYS_RESOURCE raises a
// hard limit (setrlimit(2)).
func allowCoreOff() {
	var l unix.Rlimit
	if unix.Prlimit(0, unix.RLIMIT_CORE, nil, &l) == nil && l.Max < plan.CoreOff {
		l.Max = plan.CoreOff
		_ = unix.Prlimit(0, unix.RLIMIT_CORE, &l, nil)
	}
}
