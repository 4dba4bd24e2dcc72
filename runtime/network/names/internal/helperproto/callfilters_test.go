package helperproto

import (
	"testing"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/callfilter"
	"agentjail.dev/seccomp/bpf/filtertest"
)

// TestFilter: what the helper needs passes, and what would be of use to who has taken it over does not.
func TestFilter(t *testing.T) {
	const pid = 4711
	serving, activation := filtertest.Runner(t, ServingFilter(pid)), filtertest.Runner(t, ActivationFilter())
	denied := func(e unix.Errno) uint32 { return unix.SECCOMP_RET_ERRNO | uint32(e) }
	for _, c := range []struct {
		what string
		nr   uint32
		args []uint64
		want uint32
		// start is the activator's, where it is another.
		start uint32
	}{
		{"read", unix.SYS_READ, nil, unix.SECCOMP_RET_ALLOW, 0},
		{"splice", unix.SYS_SPLICE, nil, unix.SECCOMP_RET_ALLOW, 0},
		{"exit_group", unix.SYS_EXIT_GROUP, nil, unix.SECCOMP_RET_ALLOW, 0},
		{"the last of the list", servingCalls[len(servingCalls)-1], nil, unix.SECCOMP_RET_ALLOW, 0},
		{"a TCP socket", unix.SYS_SOCKET, []uint64{unix.AF_INET}, unix.SECCOMP_RET_ALLOW, 0},
		{"an IPv6 socket", unix.SYS_SOCKET, []uint64{unix.AF_INET6}, unix.SECCOMP_RET_ALLOW, 0},
		{"a Unix socket", unix.SYS_SOCKET, []uint64{unix.AF_UNIX}, denied(unix.EAFNOSUPPORT), 0},
		{"a netlink socket", unix.SYS_SOCKET, []uint64{unix.AF_NETLINK}, denied(unix.EAFNOSUPPORT), unix.SECCOMP_RET_ALLOW},
		{"a packet socket", unix.SYS_SOCKET, []uint64{unix.AF_PACKET}, denied(unix.EAFNOSUPPORT), 0},
		{"a thread", unix.SYS_CLONE, []uint64{unix.CLONE_VM | unix.CLONE_THREAD}, unix.SECCOMP_RET_ALLOW, 0},
		{"a process", unix.SYS_CLONE, []uint64{uint64(unix.SIGCHLD)}, denied(unix.EPERM), 0},
		{"a signal to itself", unix.SYS_TGKILL, []uint64{pid, pid, uint64(unix.SIGURG)}, unix.SECCOMP_RET_ALLOW, 0},
		{"a signal to another", unix.SYS_TGKILL, []uint64{1, 1, uint64(unix.SIGKILL)}, denied(unix.EPERM), unix.SECCOMP_RET_ALLOW},
		{"openat", unix.SYS_OPENAT, nil, denied(unix.ENOENT), 0},
		{"clone3", unix.SYS_CLONE3, nil, denied(unix.ENOSYS), 0},
		{"execve", unix.SYS_EXECVE, nil, denied(unix.EPERM), 0},
		{"its program", unix.SYS_EXECVEAT, []uint64{ProgramFD, 0, 0, 0, unix.AT_EMPTY_PATH}, denied(unix.EPERM), unix.SECCOMP_RET_ALLOW},
		{"another program", unix.SYS_EXECVEAT, []uint64{ProgramFD + 1, 0, 0, 0, unix.AT_EMPTY_PATH}, denied(unix.EPERM), 0},
		{"a program by its path", unix.SYS_EXECVEAT, []uint64{ProgramFD, 0, 0, 0, 0}, denied(unix.EPERM), 0},
		{"a filter", unix.SYS_SECCOMP, nil, denied(unix.EPERM), unix.SECCOMP_RET_ALLOW},
		{"the last of the starting list", startingCalls[len(startingCalls)-1], nil, denied(unix.EPERM), unix.SECCOMP_RET_ALLOW},
		{"ptrace", unix.SYS_PTRACE, nil, denied(unix.EPERM), 0},
		{"bind", unix.SYS_BIND, nil, denied(unix.EPERM), 0},
		{"listen", unix.SYS_LISTEN, nil, denied(unix.EPERM), 0},
		{"setns", unix.SYS_SETNS, nil, denied(unix.EPERM), 0},
		{"bpf", unix.SYS_BPF, nil, denied(unix.EPERM), 0},
		{"io_uring_setup", unix.SYS_IO_URING_SETUP, nil, denied(unix.EPERM), 0},
		{"another ABI of the machine", unix.SYS_READ | 0x40000000, nil, denied(unix.EPERM), 0},
	} {
		if got := serving(callfilter.Arch, c.nr, c.args...); got != c.want {
			t.Errorf("%s: %#x, want %#x", c.what, got, c.want)
		}
		if c.start == 0 {
			c.start = c.want
		}
		if got := activation(callfilter.Arch, c.nr, c.args...); got != c.start {
			t.Errorf("%s, of an activator: %#x, want %#x", c.what, got, c.start)
		}
	}
	for _, run := range []func(uint32, uint32, ...uint64) uint32{serving, activation} {
		if got := run(callfilter.Arch+1, unix.SYS_READ); got != unix.SECCOMP_RET_KILL_PROCESS {
			t.Errorf("another machine: %#x", got)
		}
	}
}
