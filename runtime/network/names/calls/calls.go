// Package calls has the system call filters of a network helper's process (seccomp(2)): the one that it serves under, and the wider one of
// its activator, under which it is started.
package calls

import (
	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/network/names/work"
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
	dataArg4 = 48
)

// starting are those that the helper's program takes besides, until it has loaded Serving.
var starting = []uint32{
	unix.SYS_SECCOMP, unix.SYS_LANDLOCK_CREATE_RULESET, unix.SYS_LANDLOCK_RESTRICT_SELF, unix.SYS_PRCTL, unix.SYS_CAPSET, unix.SYS_PRLIMIT64,
	unix.SYS_TGKILL, unix.SYS_DUP3,
}

// Serving is the filter of a helper that has its sockets: what is not listed answers EPERM. pid is the helper's own.
func Serving(pid int) []unix.SockFilter {
	out := begin()
	out = append(out,
		// Sockets of the two Internet families.
		jeq(unix.SYS_SOCKET, 0, 5), loadWord(dataArg0), jeq(unix.AF_INET, 1, 0), jeq(unix.AF_INET6, 0, 1), allow, errno(unix.EAFNOSUPPORT),
		// Signals to its own threads, by which the Go runtime preempts.
		jeq(unix.SYS_TGKILL, 0, 4), loadWord(dataArg0), jeq(uint32(pid), 0, 1), allow, errno(unix.EPERM),
	)
	return end(out, calls)
}

// Activation is the filter of an activator: the helper's program, which it has open, may be executed, and may make itself ready and load
// Serving, which holds besides.
func Activation() []unix.SockFilter {
	out := begin()
	out = append(out,
		// Those, and questions for routes.
		jeq(unix.SYS_SOCKET, 0, 6), loadWord(dataArg0), jeq(unix.AF_INET, 2, 0), jeq(unix.AF_INET6, 1, 0), jeq(unix.AF_NETLINK, 0, 1), allow, errno(unix.EAFNOSUPPORT),
		jeq(unix.SYS_EXECVEAT, 0, 6), loadWord(dataArg0), jeq(work.ProgramFD, 0, 3), loadWord(dataArg4), jeq(unix.AT_EMPTY_PATH, 0, 1), allow, errno(unix.EPERM),
	)
	return end(out, append(starting[:len(starting):len(starting)], calls...))
}

func ret(v uint32) unix.SockFilter { return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: v} }

func loadWord(at uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
}

func jeq(k uint32, t, f uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: t, Jf: f, K: k}
}

func errno(e unix.Errno) unix.SockFilter { return ret(unix.SECCOMP_RET_ERRNO | uint32(e)) }

var allow = ret(unix.SECCOMP_RET_ALLOW)

// begin is what both filters have in common.
func begin() []unix.SockFilter {
	return []unix.SockFilter{
		loadWord(dataArch), jeq(auditArch, 1, 0), ret(unix.SECCOMP_RET_KILL_PROCESS),
		loadWord(dataNr),
		jeq(unix.SYS_OPENAT, 0, 1), errno(unix.ENOENT),
		jeq(unix.SYS_CLONE3, 0, 1), errno(unix.ENOSYS),
		// Threads, not processes.
		jeq(unix.SYS_CLONE, 0, 4), loadWord(dataArg0),
		{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, Jt: 0, Jf: 1, K: unix.CLONE_THREAD}, allow, errno(unix.EPERM),
	}
}

// end allows what is listed, and nothing else.
func end(out []unix.SockFilter, list []uint32) []unix.SockFilter {
	for i, nr := range list {
		out = append(out, jeq(nr, uint8(len(list)-i), 0))
	}
	return append(out, errno(unix.EPERM), allow)
}
