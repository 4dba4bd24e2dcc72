package callfilter

import "golang.org/x/sys/unix"

// Arch is this machine, as seccomp_data names it.
const Arch = unix.AUDIT_ARCH_X86_64

// archCalls are those that this machine has besides.
var archCalls = []uint32{unix.SYS_EPOLL_WAIT, unix.SYS_POLL, unix.SYS_ARCH_PRCTL}
