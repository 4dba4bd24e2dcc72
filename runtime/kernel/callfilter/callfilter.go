// Package callfilter has system call filters for agentjail's own processes (seccomp(2)): short
// lists with a few rules on arguments, made without a compiler and loaded for every thread. Those
// of jails are package seccomp's.
package callfilter

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Runtime are the calls that the Go runtime needs in a process that reads and writes its open
// files. Making threads, and signals to them, have rules of their own: see Begin and OwnSignals.
var Runtime = append([]uint32{
	unix.SYS_READ, unix.SYS_FSTAT, unix.SYS_EVENTFD2, unix.SYS_EPOLL_CREATE1, unix.SYS_EPOLL_CTL, unix.SYS_EPOLL_PWAIT,
	unix.SYS_PPOLL,
	unix.SYS_MUNMAP, unix.SYS_MPROTECT, unix.SYS_MADVISE, unix.SYS_BRK,
	unix.SYS_FUTEX, unix.SYS_NANOSLEEP, unix.SYS_CLOCK_NANOSLEEP, unix.SYS_CLOCK_GETTIME, unix.SYS_GETTIMEOFDAY,
	unix.SYS_SCHED_YIELD,
	unix.SYS_SCHED_GETAFFINITY, unix.SYS_GETRANDOM, unix.SYS_GETPID, unix.SYS_GETTID, unix.SYS_UNAME,
	unix.SYS_RT_SIGACTION, unix.SYS_RT_SIGPROCMASK, unix.SYS_RT_SIGRETURN, unix.SYS_SIGALTSTACK, unix.SYS_RESTART_SYSCALL,
	unix.SYS_SET_ROBUST_LIST, unix.SYS_RSEQ, unix.SYS_EXIT, unix.SYS_EXIT_GROUP,
}, archCalls...)

// Offsets in struct seccomp_data (linux/seccomp.h), of a little-endian machine's argument words.
const (
	dataNr   = 0
	dataArch = 4
	dataArgs = 16
)

// Allow is the verdict that lets a call pass.
var Allow = ret(unix.SECCOMP_RET_ALLOW)

// Errno is the verdict by which a call answers an error.
func Errno(e unix.Errno) unix.SockFilter { return ret(unix.SECCOMP_RET_ERRNO | uint32(e)) }

// Arg loads the lower half of an argument, of 0 to 5.
func Arg(n uint32) unix.SockFilter { return load(dataArgs + 8*n) }

// Equal skips t instructions where what was loaded is k, and else f.
func Equal(k uint32, t, f uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: t, Jf: f, K: k}
}

// AnyOf skips t instructions where what was loaded has any of these bits, and else f.
func AnyOf(bits uint32, t, f uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, Jt: t, Jf: f, K: bits}
}

func ret(v uint32) unix.SockFilter { return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: v} }

func load(at uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
}

// A Filter is a filter that is being made.
type Filter struct{ code []unix.SockFilter }

// Begin begins a filter: it kills at calls of another architecture, and has threads made but no
// processes.
func Begin() *Filter {
	f := &Filter{code: []unix.SockFilter{load(dataArch), Equal(Arch, 1, 0), ret(unix.SECCOMP_RET_KILL_PROCESS), load(dataNr)}}
	f.Call(unix.SYS_CLONE3, Errno(unix.ENOSYS))
	f.Call(unix.SYS_CLONE, Arg(0), AnyOf(unix.CLONE_THREAD, 0, 1), Allow, Errno(unix.EPERM))
	return f
}

// Call adds a rule on a call. Its instructions end in a verdict whatever way they take.
func (f *Filter) Call(nr uint32, rule ...unix.SockFilter) {
	f.code = append(append(f.code, Equal(nr, 0, uint8(len(rule)))), rule...)
}

// OwnSignals adds the rule that a process sends signals to its own threads, by which the Go runtime
// preempts, and to no others.
func (f *Filter) OwnSignals(pid int) {
	f.Call(unix.SYS_TGKILL, Arg(0), Equal(uint32(pid), 0, 1), Allow, Errno(unix.EPERM))
}

// Only ends a filter: these calls pass, of which there are at most 255, and all that there is no
// rule on answer EPERM.
func (f *Filter) Only(calls ...uint32) []unix.SockFilter {
	for i, nr := range calls {
		f.code = append(f.code, Equal(nr, uint8(len(calls)-i), 0))
	}
	return append(f.code, Errno(unix.EPERM), Allow)
}

// Load loads a filter for every thread, for good (SECCOMP_FILTER_FLAG_TSYNC). It takes
// no_new_privs.
func Load(f []unix.SockFilter) error {
	prog := unix.SockFprog{Len: uint16(len(f)), Filter: &f[0]}
	got, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC,
		uintptr(unsafe.Pointer(&prog)))
	if errno != 0 {
		return fmt.Errorf("loading the system call filter: %w", errno)
	}
	if got != 0 {
		return fmt.Errorf("loading the system call filter: thread %d cannot take it", got)
	}
	return nil
}
