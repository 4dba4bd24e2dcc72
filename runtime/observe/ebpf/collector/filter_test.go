package collector

import (
	"testing"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/callfilter"
	"agentjail.dev/seccomp/bpf/filtertest"
)

// TestFilters: what each half of the collector needs once it is set up passes, and what would be of
// use to who has taken it over does not.
func TestFilters(t *testing.T) {
	const pid = 4711
	reader, writer := filtertest.Runner(t, readerFilter(pid)), filtertest.Runner(t, writerFilter(pid))
	const allow = unix.SECCOMP_RET_ALLOW
	denied := func(e unix.Errno) uint32 { return unix.SECCOMP_RET_ERRNO | uint32(e) }
	eperm := denied(unix.EPERM)
	for _, c := range []struct {
		what           string
		nr             uint32
		args           []uint64
		reader, writer uint32
	}{
		{"read", unix.SYS_READ, nil, allow, allow},
		{"write", unix.SYS_WRITE, nil, allow, allow},
		{"poll", unix.SYS_PPOLL, nil, allow, allow},
		{"the end of a jail", unix.SYS_PIDFD_OPEN, nil, eperm, allow},
		{"a counter", unix.SYS_BPF, []uint64{unix.BPF_MAP_LOOKUP_ELEM}, allow, eperm},
		{"the next counter", unix.SYS_BPF, []uint64{unix.BPF_MAP_GET_NEXT_KEY}, allow, eperm},
		{"an entry of a map", unix.SYS_BPF, []uint64{unix.BPF_MAP_UPDATE_ELEM}, eperm, eperm},
		{"a program", unix.SYS_BPF, []uint64{unix.BPF_PROG_LOAD}, eperm, eperm},
		{"a program's end", unix.SYS_BPF, []uint64{unix.BPF_LINK_DETACH}, eperm, eperm},
		{"another's program", unix.SYS_BPF, []uint64{unix.BPF_PROG_GET_FD_BY_ID}, eperm, eperm},
		{"a file", unix.SYS_OPENAT, nil, eperm, allow},
		{"a lock", unix.SYS_FLOCK, nil, eperm, allow},
		{"a new name", unix.SYS_RENAMEAT, nil, eperm, allow},
		{"a file's owner", unix.SYS_FCHOWN, nil, eperm, eperm},
		{"a file's mode by name", unix.SYS_FCHMODAT, nil, eperm, eperm},
		{"a directory", unix.SYS_MKDIRAT, nil, eperm, eperm},
		{"memory", unix.SYS_MMAP, []uint64{0, 0, 0, unix.MAP_PRIVATE | unix.MAP_ANONYMOUS}, allow, allow},
		{"a file as memory", unix.SYS_MMAP, []uint64{0, 0, 0, unix.MAP_SHARED}, eperm, eperm},
		{"a Unix socket", unix.SYS_SOCKET, []uint64{unix.AF_UNIX}, eperm, allow},
		{"an Internet socket", unix.SYS_SOCKET, []uint64{unix.AF_INET}, eperm, denied(unix.EAFNOSUPPORT)},
		{"a netlink socket", unix.SYS_SOCKET, []uint64{unix.AF_NETLINK}, eperm, denied(unix.EAFNOSUPPORT)},
		{"bind", unix.SYS_BIND, nil, eperm, eperm},
		{"a thread", unix.SYS_CLONE, []uint64{unix.CLONE_VM | unix.CLONE_THREAD}, allow, allow},
		{"a process", unix.SYS_CLONE, []uint64{uint64(unix.SIGCHLD)}, eperm, eperm},
		{"a signal to itself", unix.SYS_TGKILL, []uint64{pid, pid, uint64(unix.SIGURG)}, allow, allow},
		{"a signal to another", unix.SYS_TGKILL, []uint64{1, 1, uint64(unix.SIGKILL)}, eperm, eperm},
		{"kill", unix.SYS_KILL, nil, eperm, eperm},
		{"ptrace", unix.SYS_PTRACE, nil, eperm, eperm},
		{"another's memory", unix.SYS_PROCESS_VM_READV, nil, eperm, eperm},
		{"another's descriptors", unix.SYS_PIDFD_GETFD, nil, eperm, eperm},
		{"execve", unix.SYS_EXECVE, nil, eperm, eperm},
		{"a filter", unix.SYS_SECCOMP, nil, eperm, eperm},
		{"perf_event_open", unix.SYS_PERF_EVENT_OPEN, nil, eperm, eperm},
		{"setns", unix.SYS_SETNS, nil, eperm, eperm},
		{"mount", unix.SYS_MOUNT, nil, eperm, eperm},
		{"io_uring_setup", unix.SYS_IO_URING_SETUP, nil, eperm, eperm},
		{"another ABI of the machine", unix.SYS_READ | 0x40000000, nil, eperm, eperm},
	} {
		if got := reader(callfilter.Arch, c.nr, c.args...); got != c.reader {
			t.Errorf("%s, of the reader: %#x, want %#x", c.what, got, c.reader)
		}
		if got := writer(callfilter.Arch, c.nr, c.args...); got != c.writer {
			t.Errorf("%s, of the writer: %#x, want %#x", c.what, got, c.writer)
		}
	}
	for _, run := range []func(uint32, uint32, ...uint64) uint32{reader, writer} {
		if got := run(callfilter.Arch+1, unix.SYS_READ); got != unix.SECCOMP_RET_KILL_PROCESS {
			t.Errorf("another machine: %#x", got)
		}
	}
}
