package inside

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/enter"
)

// stack loads a further seccomp filter: of several, the kernel takes the
// strictest answer (seccomp(2)). The flag is the one that engines set; without
// one, runc and libseccomp leave out the processor's mitigation.
func stack(filter []byte) error {
	if len(filter)%8 != 0 || len(filter)/8 > 4096 {
		return &refusal{"it is damaged"}
	}
	prog := unix.SockFprog{Len: uint16(len(filter) / 8), Filter: (*unix.SockFilter)(unsafe.Pointer(&filter[0]))}
	// The entry calls have prctl (seccomp.EntryCalls), not seccomp(2).
	_, _, errno := unix.Syscall(unix.SYS_PRCTL, unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&prog)))
	switch errno {
	case 0:
		return nil
	case noSpace:
		return &refusal{enter.NoFilterSpace}
	}
	return errno
}

// noSpace is the kernel's ENOTSUPP: net.core.bpf_jit_limit is reached.
const noSpace = syscall.Errno(524)

// runOn keeps the process on n processors, so that programs which count them
// (nproc, and what sizes its thread pools) see what the limit allows. It is no
// wall: a failure changes nothing.
func runOn(n, seed uint32) {
	var have, want unix.CPUSet
	if n == 0 || unix.SchedGetaffinity(0, &have) != nil || have.Count() <= int(n) {
		return
	}
	var cpus []int
	for i := range 1024 {
		if have.IsSet(i) {
			cpus = append(cpus, i)
		}
	}
	for i := range int(n) {
		want.Set(cpus[(int(seed)+i)%len(cpus)])
	}
	_ = unix.SchedSetaffinity(0, &want)
}
