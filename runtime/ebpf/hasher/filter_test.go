package hasher

import (
	"testing"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/linux/callfilter"
	"agentjail.dev/runtime/linux/callfilter/filtertest"
)

// TestFilter: what finding and reading files takes passes, and what would change one, or another process, does not.
func TestFilter(t *testing.T) {
	const pid = 4711
	run := filtertest.Runner(t, filter(pid, []uint32{0, 1, 2, 3, 7}))
	denied := func(e unix.Errno) uint32 { return unix.SECCOMP_RET_ERRNO | uint32(e) }
	at := func(flags int) []uint64 { return []uint64{unix.AT_FDCWD & (1<<64 - 1), 0, uint64(flags)} }
	for _, c := range []struct {
		what string
		nr   uint32
		args []uint64
		want uint32
	}{
		{"read", unix.SYS_READ, nil, unix.SECCOMP_RET_ALLOW},
		{"a file to be read", unix.SYS_OPENAT, at(unix.O_RDONLY | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC), unix.SECCOMP_RET_ALLOW},
		{"a directory", unix.SYS_OPENAT, at(unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC), unix.SECCOMP_RET_ALLOW},
		{"a file to be written", unix.SYS_OPENAT, at(unix.O_WRONLY), denied(unix.EPERM)},
		{"a file for both", unix.SYS_OPENAT, at(unix.O_RDWR), denied(unix.EPERM)},
		{"a new file", unix.SYS_OPENAT, at(unix.O_RDONLY | unix.O_CREAT), denied(unix.EPERM)},
		{"an emptied file", unix.SYS_OPENAT, at(unix.O_RDONLY | unix.O_TRUNC), denied(unix.EPERM)},
		{"a file without a name", unix.SYS_OPENAT, at(unix.O_TMPFILE), denied(unix.EPERM)},
		{"beneath a root", unix.SYS_OPENAT2, nil, unix.SECCOMP_RET_ALLOW},
		{"an answer", unix.SYS_WRITE, []uint64{fdAnswers}, unix.SECCOMP_RET_ALLOW},
		{"what the runtime waits with", unix.SYS_WRITE, []uint64{7}, unix.SECCOMP_RET_ALLOW},
		{"another file's content", unix.SYS_WRITE, []uint64{8}, denied(unix.EBADF)},
		{"a file that was read", unix.SYS_CLOSE, []uint64{8}, unix.SECCOMP_RET_ALLOW},
		{"the answers' end", unix.SYS_CLOSE, []uint64{fdAnswers}, denied(unix.EPERM)},
		{"the runtime's end", unix.SYS_CLOSE, []uint64{7}, denied(unix.EPERM)},
		{"memory", unix.SYS_MMAP, []uint64{0, 0, 0, unix.MAP_PRIVATE | unix.MAP_ANONYMOUS}, unix.SECCOMP_RET_ALLOW},
		{"a file as memory", unix.SYS_MMAP, []uint64{0, 0, 0, unix.MAP_SHARED}, denied(unix.EPERM)},
		{"a descriptor again", unix.SYS_FCNTL, []uint64{8, unix.F_DUPFD_CLOEXEC}, denied(unix.EPERM)},
		{"whether it waits", unix.SYS_FCNTL, []uint64{8, unix.F_GETFL}, unix.SECCOMP_RET_ALLOW},
		{"dup3", unix.SYS_DUP3, nil, denied(unix.EPERM)},
		{"pwrite64", unix.SYS_PWRITE64, nil, denied(unix.EPERM)},
		{"writev", unix.SYS_WRITEV, nil, denied(unix.EPERM)},
		{"splice", unix.SYS_SPLICE, nil, denied(unix.EPERM)},
		{"copy_file_range", unix.SYS_COPY_FILE_RANGE, nil, denied(unix.EPERM)},
		{"ftruncate", unix.SYS_FTRUNCATE, nil, denied(unix.EPERM)},
		{"a thread", unix.SYS_CLONE, []uint64{unix.CLONE_VM | unix.CLONE_THREAD}, unix.SECCOMP_RET_ALLOW},
		{"a process", unix.SYS_CLONE, []uint64{uint64(unix.SIGCHLD)}, denied(unix.EPERM)},
		{"a signal to another", unix.SYS_TGKILL, []uint64{1, 1, uint64(unix.SIGKILL)}, denied(unix.EPERM)},
		{"kill", unix.SYS_KILL, nil, denied(unix.EPERM)},
		{"ptrace", unix.SYS_PTRACE, nil, denied(unix.EPERM)},
		{"another's memory", unix.SYS_PROCESS_VM_WRITEV, nil, denied(unix.EPERM)},
		{"another's descriptors", unix.SYS_PIDFD_GETFD, nil, denied(unix.EPERM)},
		{"execve", unix.SYS_EXECVE, nil, denied(unix.EPERM)},
		{"socket", unix.SYS_SOCKET, nil, denied(unix.EPERM)},
		{"setns", unix.SYS_SETNS, nil, denied(unix.EPERM)},
		{"bpf", unix.SYS_BPF, nil, denied(unix.EPERM)},
		{"io_uring_setup", unix.SYS_IO_URING_SETUP, nil, denied(unix.EPERM)},
	} {
		if got := run(callfilter.Arch, c.nr, c.args...); got != c.want {
			t.Errorf("%s: %#x, want %#x", c.what, got, c.want)
		}
	}
	if got := run(callfilter.Arch+1, unix.SYS_READ); got != unix.SECCOMP_RET_KILL_PROCESS {
		t.Errorf("another machine: %#x", got)
	}
}
