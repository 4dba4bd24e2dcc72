package egress

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// calls are the system calls that serving takes: sockets, and what the Go runtime does. Names to open do not exist, as in its root.
var calls = append([]uint32{
	unix.SYS_READ, unix.SYS_WRITE, unix.SYS_READV, unix.SYS_WRITEV, unix.SYS_CLOSE, unix.SYS_FCNTL, unix.SYS_FSTAT, unix.SYS_FTRUNCATE,
	unix.SYS_SPLICE, unix.SYS_PIPE2, unix.SYS_SENDFILE, unix.SYS_EVENTFD2,
	unix.SYS_EPOLL_CREATE1, unix.SYS_EPOLL_CTL, unix.SYS_EPOLL_PWAIT, unix.SYS_PPOLL,
	unix.SYS_CONNECT, unix.SYS_ACCEPT4, unix.SYS_GETSOCKNAME, unix.SYS_GETPEERNAME, unix.SYS_SETSOCKOPT, unix.SYS_GETSOCKOPT,
	unix.SYS_SENDTO, unix.SYS_RECVFROM, unix.SYS_SENDMSG, unix.SYS_RECVMSG, unix.SYS_SHUTDOWN,
	unix.SYS_MMAP, unix.SYS_MUNMAP, unix.SYS_MPROTECT, unix.SYS_MADVISE, unix.SYS_BRK,
	unix.SYS_FUTEX, unix.SYS_NANOSLEEP, unix.SYS_CLOCK_NANOSLEEP, unix.SYS_CLOCK_GETTIME, unix.SYS_GETTIMEOFDAY, unix.SYS_SCHED_YIELD,
	unix.SYS_SCHED_GETAFFINITY, unix.SYS_GETRANDOM, unix.SYS_GETPID, unix.SYS_GETTID, unix.SYS_UNAME,
	unix.SYS_RT_SIGACTION, unix.SYS_RT_SIGPROCMASK, unix.SYS_RT_SIGRETURN, unix.SYS_SIGALTSTACK, unix.SYS_RESTART_SYSCALL,
	unix.SYS_SET_ROBUST_LIST, unix.SYS_RSEQ, unix.SYS_EXIT, unix.SYS_EXIT_GROUP,
}, archCalls...)

// Offsets in struct seccomp_data (linux/seccomp.h), of a little-endian machine's argument words.
const (
	dataNr   = 0
	dataArch = 4
	dataArg0 = 16
)

// filter is the helper's system call filter: what is not in calls answers EPERM. pid is the helper's own.
func filter(pid int) []unix.SockFilter {
	ret := func(v uint32) unix.SockFilter { return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: v} }
	loadWord := func(at uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
	}
	jeq := func(k uint32, t, f uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: t, Jf: f, K: k}
	}
	errno := func(e unix.Errno) unix.SockFilter { return ret(unix.SECCOMP_RET_ERRNO | uint32(e)) }
	allow := ret(unix.SECCOMP_RET_ALLOW)
	out := []unix.SockFilter{
		loadWord(dataArch), jeq(auditArch, 1, 0), ret(unix.SECCOMP_RET_KILL_PROCESS),
		loadWord(dataNr),
		jeq(unix.SYS_OPENAT, 0, 1), errno(unix.ENOENT),
		jeq(unix.SYS_CLONE3, 0, 1), errno(unix.ENOSYS),
		// Sockets of the two Internet families.
		jeq(unix.SYS_SOCKET, 0, 5), loadWord(dataArg0), jeq(unix.AF_INET, 1, 0), jeq(unix.AF_INET6, 0, 1), allow, errno(unix.EAFNOSUPPORT),
		// Threads, not processes.
		jeq(unix.SYS_CLONE, 0, 4), loadWord(dataArg0),
		{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, Jt: 0, Jf: 1, K: unix.CLONE_THREAD}, allow, errno(unix.EPERM),
		// Signals to its own threads, by which the Go runtime preempts.
		jeq(unix.SYS_TGKILL, 0, 4), loadWord(dataArg0), jeq(uint32(pid), 0, 1), allow, errno(unix.EPERM),
	}
	for i, nr := range calls {
		out = append(out, jeq(nr, uint8(len(calls)-i), 0))
	}
	return append(out, errno(unix.EPERM), allow)
}

// loadFilter loads a filter for every thread (SECCOMP_FILTER_FLAG_TSYNC, seccomp(2)).
func loadFilter(f []unix.SockFilter) error {
	prog := unix.SockFprog{Len: uint16(len(f)), Filter: &f[0]}
	got, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&prog)))
	if errno != 0 {
		return fmt.Errorf("loading the system call filter: %w", errno)
	}
	if got != 0 {
		return fmt.Errorf("loading the system call filter: thread %d cannot take it", got)
	}
	return nil
}
