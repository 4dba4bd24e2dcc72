package callfilter

import "golang.org/x/sys/unix"

// Arch is this machine, as seccomp_data names it.
const Arch = unix.AUDIT_ARCH_AARCH64

// archCalls are those that this machine has besides.
var archCalls []uint32
