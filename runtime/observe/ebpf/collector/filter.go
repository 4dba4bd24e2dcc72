package collector

import (
	"os"
	"slices"

	"golang.org/x/sys/unix"

	cf "agentjail.dev/runtime/kernel/callfilter"
)

// Both halves of the collector parse what jails have a hand in: names of programs, arguments,
// paths. Once they are set up each has a system call filter: what is not listed answers EPERM, to
// the half itself and to what may have taken it over.

// confineReader loads the reader's, once its programs are loaded and its jails registered.
func confineReader() error { return cf.Load(readerFilter(os.Getpid())) }

// confineWriter loads the writer's, once the reader is started.
func confineWriter() error { return cf.Load(writerFilter(os.Getpid())) }

// readerFilter lets the reader read maps that are there, wait for the ring and write frames: of
// CAP_BPF that is left, and of files nothing.
func readerFilter(pid int) []unix.SockFilter {
	f := cf.Begin()
	f.OwnSignals(pid)
	f.Call(unix.SYS_BPF, cf.Arg(0), cf.Equal(unix.BPF_MAP_LOOKUP_ELEM, 2, 0), cf.Equal(unix.BPF_MAP_GET_NEXT_KEY, 1, 0),
		cf.Equal(unix.BPF_MAP_LOOKUP_BATCH, 0, 1), cf.Allow, cf.Errno(unix.EPERM))
	ownMemory(f)
	return f.Only(slices.Concat([]uint32{unix.SYS_WRITE, unix.SYS_CLOSE}, cf.Runtime)...)
}

// writerFilter lets the writer read records and append to journals (runtime/observe/journal: open,
// lock, rotate), notify systemd, wait for the reader, and poll the tables of mounts and the ends of
// jails (runtime/observe/lostpaths). Files' owners and its lack of capabilities decide on the
// files.
func writerFilter(pid int) []unix.SockFilter {
	f := cf.Begin()
	f.OwnSignals(pid)
	f.Call(unix.SYS_SOCKET, cf.Arg(0), cf.Equal(unix.AF_UNIX, 0, 1), cf.Allow, cf.Errno(unix.EAFNOSUPPORT))
	ownMemory(f)
	return f.Only(slices.Concat([]uint32{
		unix.SYS_WRITE, unix.SYS_CLOSE, unix.SYS_FCNTL, unix.SYS_OPENAT, unix.SYS_NEWFSTATAT, unix.SYS_READLINKAT, unix.SYS_GETDENTS64,
		unix.SYS_LSEEK,
		unix.SYS_PREAD64, unix.SYS_FLOCK, unix.SYS_FTRUNCATE, unix.SYS_FCHMOD, unix.SYS_FSYNC, unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2,
		unix.SYS_LINKAT, unix.SYS_UNLINKAT,
		unix.SYS_GETUID, unix.SYS_GETEUID, unix.SYS_CONNECT, unix.SYS_GETSOCKNAME, unix.SYS_GETPEERNAME, unix.SYS_SETSOCKOPT,
		unix.SYS_SENDTO,
		unix.SYS_WAITID, unix.SYS_WAIT4, unix.SYS_STATFS, unix.SYS_PIDFD_OPEN,
	}, olderCalls, cf.Runtime)...)
}

// ownMemory lets a half map memory of its own, and no file's.
func ownMemory(f *cf.Filter) {
	f.Call(unix.SYS_MMAP, cf.Arg(3), cf.AnyOf(unix.MAP_ANONYMOUS, 0, 1), cf.Allow, cf.Errno(unix.EPERM))
}
