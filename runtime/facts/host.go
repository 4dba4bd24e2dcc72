package facts

import (
	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/hostfacts"
	"agentjail.dev/runtime/spec/plan"
	"agentjail.dev/runtime/spec/traits"
)

// HostFor returns the host's facts for the jails of a delegate, by its name or path. Protections
// that a sandbox cannot apply to the jail's processes count as absent. HostFor first raises this
// process's hard limit on core files.
func HostFor(delegate string) hostfacts.Facts {
	allowCoreOff()
	f := hostfacts.Read()
	if traits.Of(delegate).Sandbox != "" {
		f.AppArmor, f.SELinux, f.Landlock, f.TimeNS = false, false, 0, false
	}
	return f
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
