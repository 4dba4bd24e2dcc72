package helperproto

import (
	"slices"

	"golang.org/x/sys/unix"

	cf "agentjail.dev/runtime/kernel/callfilter"
)

// servingCalls are the system calls of a serving helper: those on sockets, and those of the Go
// runtime. It cannot open files by name.
var servingCalls = slices.Concat([]uint32{
	unix.SYS_WRITE, unix.SYS_READV, unix.SYS_WRITEV, unix.SYS_CLOSE, unix.SYS_FCNTL, unix.SYS_FTRUNCATE, unix.SYS_SPLICE,
	unix.SYS_PIPE2, unix.SYS_SENDFILE,
	unix.SYS_CONNECT, unix.SYS_ACCEPT4, unix.SYS_GETSOCKNAME, unix.SYS_GETPEERNAME, unix.SYS_SETSOCKOPT, unix.SYS_GETSOCKOPT,
	unix.SYS_SENDTO, unix.SYS_RECVFROM, unix.SYS_SENDMSG, unix.SYS_RECVMSG, unix.SYS_SHUTDOWN, unix.SYS_MMAP,
}, cf.Runtime)

// startingCalls are the further system calls of the helper's program until it has loaded Serving.
var startingCalls = []uint32{
	unix.SYS_SECCOMP, unix.SYS_LANDLOCK_CREATE_RULESET, unix.SYS_LANDLOCK_RESTRICT_SELF, unix.SYS_PRCTL, unix.SYS_CAPSET,
	unix.SYS_PRLIMIT64,
	unix.SYS_TGKILL, unix.SYS_DUP3,
}

// ServingFilter returns the filter of a helper that has its sockets. Calls that are not listed fail
// with EPERM. pid is the helper's own.
func ServingFilter(pid int) []unix.SockFilter {
	f := beginFilter()
	// Sockets of the two Internet families.
	f.Call(unix.SYS_SOCKET, cf.Arg(0), cf.Equal(unix.AF_INET, 1, 0), cf.Equal(unix.AF_INET6, 0, 1), cf.Allow,
		cf.Errno(unix.EAFNOSUPPORT))
	f.OwnSignals(pid)
	return f.Only(servingCalls...)
}

// ActivationFilter returns the filter of an activator. It allows to execute the helper's program
// from an open descriptor. That program may do its set-up and load Serving, which applies in
// addition.
func ActivationFilter() []unix.SockFilter {
	f := beginFilter()
	// Internet sockets, and netlink for route queries.
	f.Call(unix.SYS_SOCKET, cf.Arg(0), cf.Equal(unix.AF_INET, 2, 0), cf.Equal(unix.AF_INET6, 1, 0),
		cf.Equal(unix.AF_NETLINK, 0, 1), cf.Allow,
		cf.Errno(unix.EAFNOSUPPORT))
	f.Call(unix.SYS_EXECVEAT, cf.Arg(0), cf.Equal(ProgramFD, 0, 3), cf.Arg(4), cf.Equal(unix.AT_EMPTY_PATH, 0, 1), cf.Allow,
		cf.Errno(unix.EPERM))
	return f.Only(slices.Concat(startingCalls, servingCalls)...)
}

// beginFilter returns the common part of both filters.
func beginFilter() *cf.Filter {
	f := cf.Begin()
	f.Call(unix.SYS_OPENAT, cf.Errno(unix.ENOENT))
	return f
}
