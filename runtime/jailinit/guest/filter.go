package guest

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/jailinit"
)

// program is a filter as the kernel takes it.
func program(filter []byte) (unix.SockFprog, error) {
	if len(filter) == 0 || len(filter)%8 != 0 || len(filter)/8 > filterMax {
		return unix.SockFprog{}, refusal("it is damaged")
	}
	return unix.SockFprog{Len: uint16(len(filter) / 8), Filter: (*unix.SockFilter)(unsafe.Pointer(&filter[0]))}, nil
}

// addFilter loads a further seccomp filter: of several, the kernel takes the
// strictest answer (seccomp(2)).
func addFilter(filter []byte) error {
	prog, err := program(filter)
	if err != nil {
		return err
	}
	switch errno := rawAddFilter(&prog); errno {
	case 0:
		return nil
	case noSpace:
		return refusal(jailinit.NoFilterSpace)
	default:
		return errno
	}
}

// rawAddFilter loads a filter and allocates nothing. The flag is the one that engines
// set; without one, runc and libseccomp leave out the processor's mitigation.
// The entry calls have prctl (seccomp.EntryCalls), not seccomp(2).
//
//go:nosplit
func rawAddFilter(prog *unix.SockFprog) syscall.Errno {
	_, _, errno := unix.RawSyscall(unix.SYS_PRCTL, unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(prog)))
	return errno
}

// filterError reports why a filter was not loaded.
func filterError(errno syscall.Errno) string {
	if errno == noSpace {
		return jailinit.NoFilterSpace
	}
	return errno.Error()
}

// noSpace is the kernel's ENOTSUPP: net.core.bpf_jit_limit is reached.
const noSpace = syscall.Errno(524)

// runOn keeps the process on n processors, so that programs which count them
// (nproc, and what sizes its thread pools) see what the limit allows. It is no
// protection: a failure changes nothing.
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
