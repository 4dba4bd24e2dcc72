package bpf

import (
	"encoding/binary"
	"fmt"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Encode writes instructions as the kernel has them in memory (struct
// sock_filter, little endian): what Parse reads.
func Encode(prog []Insn) []byte {
	out := make([]byte, 0, 8*len(prog))
	for _, in := range prog {
		out = binary.LittleEndian.AppendUint16(out, in.Code)
		out = append(out, in.Jt, in.Jf)
		out = binary.LittleEndian.AppendUint32(out, in.K)
	}
	return out
}

// Load puts a filter on the calling thread, for what it executes too. The caller keeps the
// goroutine on its thread (runtime.LockOSThread) and has set no_new_privs. It uses
// prctl(PR_SET_SECCOMP), and sets no flag, so that speculative store
// bypass stays mitigated. From here on the filter holds: what follows must be in it.
//
// Errors: the kernel's (EINVAL for a program that it would not run).
func Load(prog []Insn) error {
	if len(prog) == 0 || len(prog) > MaxInsns {
		return fmt.Errorf("loading a seccomp filter of %d instructions: the kernel takes 1 to %d", len(prog), MaxInsns)
	}
	fprog := unix.SockFprog{Len: uint16(len(prog)), Filter: &prog[0]}
	if err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&fprog)), 0, 0); err != nil {
		return fmt.Errorf("loading a seccomp filter: %w", err)
	}
	return nil
}

// ErrNoRoom is the kernel's ENOTSUPP, which has no name in C libraries: the
// host's space for compiled filters is used up (net.core.bpf_jit_limit).
var ErrNoRoom error = syscall.Errno(524)

// Room finds out whether the kernel still takes filters, by loading the
// smallest on the calling thread, which the caller ends afterwards. Errors:
// ErrNoRoom, or what else the kernel reports.
func Room() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no_new_privs: %w", err)
	}
	return Load([]Insn{{Code: unix.BPF_RET | unix.BPF_K, K: RetAllow}})
}
