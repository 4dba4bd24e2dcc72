// Package callfilters has the system call filters of a network helper's process (seccomp(2)): the
// one that it serves under, and the wider one of its activator, under which it is started.
package callfilters

import (
	"slices"

	"golang.org/x/sys/unix"

	cf "agentjail.dev/runtime/kernel/callfilter"
	"agentjail.dev/runtime/network/names/helperproto"
)

// calls are the system calls that serving takes: sockets, and what the Go runtime does. Names to
// open do not exist, as in its root.
var calls = slices.Concat([]uint32{
	unix.SYS_WRITE, unix.SYS_READV, unix.SYS_WRITEV, unix.SYS_CLOSE, unix.SYS_FCNTL, unix.SYS_FTRUNCATE, unix.SYS_SPLICE, unix.SYS_PIPE2, unix.SYS_SENDFILE,
	unix.SYS_CONNECT, unix.SYS_ACCEPT4, unix.SYS_GETSOCKNAME, unix.SYS_GETPEERNAME, unix.SYS_SETSOCKOPT, unix.SYS_GETSOCKOPT,
	unix.SYS_SENDTO, unix.SYS_RECVFROM, unix.SYS_SENDMSG, unix.SYS_RECVMSG, unix.SYS_SHUTDOWN, unix.SYS_MMAP,
}, cf.Runtime)

// starting are those that the helper's program takes besides, until it has loaded Serving.
var starting = []uint32{
	unix.SYS_SECCOMP, unix.SYS_LANDLOCK_CREATE_RULESET, unix.SYS_LANDLOCK_RESTRICT_SELF, unix.SYS_PRCTL, unix.SYS_CAPSET, unix.SYS_PRLIMIT64,
	unix.SYS_TGKILL, unix.SYS_DUP3,
}

// Serving is the filter of a helper that has its sockets: what is not listed answers EPERM. pid is
// the helper's own.
func Serving(pid int) []unix.SockFilter {
	f := begin()
	// Sockets of the two Internet families.
	f.Call(unix.SYS_SOCKET, cf.Arg(0), cf.Equal(unix.AF_INET, 1, 0), cf.Equal(unix.AF_INET6, 0, 1), cf.Allow, cf.Errno(unix.EAFNOSUPPORT))
	f.OwnSignals(pid)
	return f.Only(calls...)
}

// Activation is the filter of an activator: the helper's program, which it has open, may be
// executed, and may make itself ready and load Serving, which holds besides.
func Activation() []unix.SockFilter {
	f := begin()
	// Those, and questions for routes.
	f.Call(unix.SYS_SOCKET, cf.Arg(0), cf.Equal(unix.AF_INET, 2, 0), cf.Equal(unix.AF_INET6, 1, 0), cf.Equal(unix.AF_NETLINK, 0, 1), cf.Allow, cf.Errno(unix.EAFNOSUPPORT))
	f.Call(unix.SYS_EXECVEAT, cf.Arg(0), cf.Equal(helperproto.ProgramFD, 0, 3), cf.Arg(4), cf.Equal(unix.AT_EMPTY_PATH, 0, 1), cf.Allow, cf.Errno(unix.EPERM))
	return f.Only(slices.Concat(starting, calls)...)
}

// begin is what both filters have in common.
func begin() *cf.Filter {
	f := cf.Begin()
	f.Call(unix.SYS_OPENAT, cf.Errno(unix.ENOENT))
	return f
}
