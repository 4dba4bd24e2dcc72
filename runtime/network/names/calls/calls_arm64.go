package calls

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_AARCH64

// archCalls are those that this machine has besides.
var archCalls []uint32
