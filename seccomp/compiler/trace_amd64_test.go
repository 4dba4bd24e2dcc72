package compiler

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"agentjail.dev/seccomp/abi"
	"agentjail.dev/seccomp/bpf"
)

// TestTracee: what a tracer makes of a tracee's call is filtered as if the tracee had
// made it, and no request takes the filters off. The tracer is a program under the
// profile debug, as an agent's would be.
func TestTracee(t *testing.T) {
	want := unix.SIGSYS
	if unfilteredABI(t) == unix.SIGSEGV {
		t.Log("this machine has no 32-bit entry: nothing to filter")
		want = unix.SIGSEGV
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), childEnv+"=debug,trace")
	if os.Getuid() == 0 {
		// Calls that got through would then do no harm.
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	out, err := cmd.CombinedOutput()
	if text := strings.TrimSpace(string(out)); err != nil || !strings.HasPrefix(text, "tried ") || strings.Contains(text, "\n") || !strings.HasSuffix(text, fmt.Sprintf(" %d", want)) {
		t.Errorf("%v\n%s", err, out)
	}
}

// changed are calls that a tracer makes of a tracee's, beyond every refused number
// without arguments. want is what the tracee gets.
var changed = []struct {
	name string
	nr   uint64
	args [4]uint64
	want syscall.Errno
}{
	{"clone CLONE_NEWUSER", unix.SYS_CLONE, [4]uint64{unix.CLONE_NEWUSER | 17}, unix.EPERM},
	{"socket AF_ALG", unix.SYS_SOCKET, [4]uint64{38, 5}, unix.EAFNOSUPPORT},
	{"socket AF_VSOCK", unix.SYS_SOCKET, [4]uint64{40, 1}, unix.EAFNOSUPPORT},
	{"socket NETLINK_NETFILTER", unix.SYS_SOCKET, [4]uint64{16, 3, 12}, unix.EAFNOSUPPORT},
	{"ioctl TIOCSTI", unix.SYS_IOCTL, [4]uint64{0, unix.TIOCSTI}, unix.ENOTTY},
	{"prctl PR_SET_SECCOMP", unix.SYS_PRCTL, [4]uint64{unix.PR_SET_SECCOMP, 2}, unix.EINVAL},
	{"prctl PR_SET_MM", unix.SYS_PRCTL, [4]uint64{unix.PR_SET_MM, 1}, unix.EINVAL},
	{"fchmodat u+s", unix.SYS_FCHMODAT, [4]uint64{0, 0, 0o4755}, unix.EPERM},
	{"mknodat, a device", unix.SYS_MKNODAT, [4]uint64{0, 0, 0o020666}, unix.EPERM},
	{"ptrace PTRACE_SEIZE, PTRACE_O_SUSPEND_SECCOMP", unix.SYS_PTRACE, [4]uint64{unix.PTRACE_SEIZE, 1, 0, unix.PTRACE_O_SUSPEND_SECCOMP}, unix.EIO},
	{"mmap MAP_HUGETLB", unix.SYS_MMAP, [4]uint64{0, 2 << 20, 3, unix.MAP_HUGETLB | unix.MAP_ANON | unix.MAP_PRIVATE}, unix.ENOMEM},
}

// denied are requests of the tracer's own about its tracee.
var denied = []struct {
	name string
	args [3]uintptr // request, addr, data
}{
	{"PTRACE_SETOPTIONS, PTRACE_O_SUSPEND_SECCOMP", [3]uintptr{unix.PTRACE_SETOPTIONS, 0, unix.PTRACE_O_SUSPEND_SECCOMP}},
	{"the same with a high bit", [3]uintptr{unix.PTRACE_SETOPTIONS | 1<<32, 0, unix.PTRACE_O_SUSPEND_SECCOMP}},
	{"PTRACE_OLDSETOPTIONS", [3]uintptr{21, 0, unix.PTRACE_O_SUSPEND_SECCOMP}},
	{"PTRACE_SEIZE, PTRACE_O_SUSPEND_SECCOMP", [3]uintptr{unix.PTRACE_SEIZE, 0, unix.PTRACE_O_SUSPEND_SECCOMP}},
	{"PTRACE_SECCOMP_GET_FILTER", [3]uintptr{unix.PTRACE_SECCOMP_GET_FILTER, 0, 0}},
	{"PTRACE_SECCOMP_GET_METADATA", [3]uintptr{unix.PTRACE_SECCOMP_GET_METADATA, 16, 8}},
	{"PTRACE_SYSEMU", [3]uintptr{unix.PTRACE_SYSEMU, 0, 0}},
	{"PTRACE_ARCH_PRCTL", [3]uintptr{unix.PTRACE_ARCH_PRCTL, 8, 0x1003}},
	{"PTRACE_SET_SYSCALL_USER_DISPATCH_CONFIG", [3]uintptr{0x4210, 0, 8}},
	{"PTRACE_POKEUSER of debug register 0", [3]uintptr{unix.PTRACE_POKEUSR, 848, 4096}},
	{"PTRACE_POKEUSER of debug register 7", [3]uintptr{unix.PTRACE_POKEUSR, 848 + 7*8, 1}},
}

// traced starts a program under the filters of this thread, traces it, and returns
// what is not as it should be, after how much was tried.
func traced(filters [][]bpf.Insn) (out []string) {
	// Each round makes a call of the tracee's, a write, into another one.
	cmd := exec.Command("yes")
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
	if err := cmd.Start(); err != nil {
		return []string{"starting a tracee: " + err.Error()}
	}
	pid := cmd.Process.Pid
	defer func() { _ = cmd.Process.Kill(); _, _ = unix.Wait4(pid, nil, 0, nil) }()
	wrong := func(format string, a ...any) { out = append(out, fmt.Sprintf(format, a...)) }
	if st, err := waitFor(pid); err != nil || st.StopSignal() != unix.SIGTRAP {
		return []string{fmt.Sprintf("the tracee does not stop: %#x, %v", st, err)}
	}
	if err := unix.PtraceSetOptions(pid, unix.PTRACE_O_TRACESYSGOOD|unix.PTRACE_O_EXITKILL); err != nil {
		return []string{"PTRACE_SETOPTIONS: " + err.Error()}
	}
	for _, d := range denied {
		if _, _, errno := syscall.RawSyscall6(unix.SYS_PTRACE, d.args[0], uintptr(pid), d.args[1], d.args[2], 0, 0); errno != unix.EIO {
			wrong("%s: %v", d.name, errno)
		}
	}
	tried := 0
	attempt := func(name string, nr uint64, args [4]uint64, want syscall.Errno) bool {
		tried++
		got, err := instead(pid, nr, args)
		if err != nil {
			wrong("%s: %v", name, err)
			return false
		}
		if got != -int64(want) {
			wrong("%s: %d, want %d (%v)", name, got, -int64(want), want)
		}
		return true
	}
	for nr := range uint32(512) {
		v, err := bpf.Stacked(filters, &bpf.Data{NR: nr, Arch: bpf.ArchX86_64})
		if err != nil {
			return append(out, err.Error())
		}
		if name := abi.Name(nr, "amd64"); name == "uprobe" || name == "uretprobe" {
			continue // no filter runs: the kernel answers SIGILL but to its own trampolines (Linux 6.14, seccomp_uprobe_exception)
		}
		if v&bpf.RetActionFull == bpf.RetErrno && !attempt(fmt.Sprintf("number %d %s", nr, abi.Name(nr, "amd64")), uint64(nr), [4]uint64{}, syscall.Errno(v&0xffff)) {
			return out
		}
	}
	for _, c := range changed {
		if !attempt(c.name, c.nr, c.args, c.want) {
			return out
		}
	}
	signal, err := otherABI(pid)
	if err != nil {
		wrong("%v", err)
	}
	return append([]string{fmt.Sprintf("tried %d calls and %d requests; int 0x80 ends it by signal %d", tried, len(denied), signal)}, out...)
}

func waitFor(pid int) (st unix.WaitStatus, err error) {
	for {
		if _, err = unix.Wait4(pid, &st, unix.WALL, nil); err != unix.EINTR {
			return st, err
		}
	}
}

// instead waits for the tracee's next write, makes another call of it where it
// enters the kernel, and returns what that answers. The tracee is shown that its
// write was whole.
func instead(pid int, nr uint64, args [4]uint64) (int64, error) {
	var entered unix.PtraceRegs
	for entered.Orig_rax != unix.SYS_WRITE || int64(entered.Rax) != -int64(unix.ENOSYS) {
		if err := step(pid, &entered); err != nil {
			return 0, err
		}
	}
	regs := entered
	regs.Orig_rax, regs.Rdi, regs.Rsi, regs.Rdx, regs.R10 = nr, args[0], args[1], args[2], args[3]
	if err := unix.PtraceSetRegs(pid, &regs); err != nil {
		return 0, fmt.Errorf("PTRACE_SETREGS: %w", err)
	}
	if err := step(pid, &regs); err != nil {
		return 0, err
	}
	got := int64(regs.Rax)
	regs = entered
	regs.Rax = entered.Rdx
	return got, unix.PtraceSetRegs(pid, &regs)
}

// step goes on to where the tracee enters or leaves the kernel, and reads its registers.
func step(pid int, regs *unix.PtraceRegs) error {
	if err := unix.PtraceSyscall(pid, 0); err != nil {
		return fmt.Errorf("PTRACE_SYSCALL: %w", err)
	}
	st, err := waitFor(pid)
	if err != nil || !st.Stopped() || st.StopSignal() != unix.SIGTRAP|0x80 {
		return fmt.Errorf("the tracee stops otherwise: %#x, %w", st, err)
	}
	return unix.PtraceGetRegs(pid, regs)
}

// otherABI writes a call by the 32-bit ABI (int 0x80) into a stopped tracee's program, an invalid
// instruction behind it, lets the tracee go on, and returns the signal that ends it: SIGSYS from a
// filter, SIGILL where the call returned, and SIGSEGV where the machine has no 32-bit entry
// (ia32_emulation=off, some hypervisors).
func otherABI(pid int) (syscall.Signal, error) {
	var regs unix.PtraceRegs
	if err := unix.PtraceGetRegs(pid, &regs); err != nil {
		return 0, fmt.Errorf("PTRACE_GETREGS: %w", err)
	}
	if _, err := unix.PtracePokeText(pid, uintptr(regs.Rip), []byte{0xcd, 0x80, 0x0f, 0x0b}); err != nil {
		return 0, fmt.Errorf("PTRACE_POKETEXT: %w", err)
	}
	if err := unix.PtraceDetach(pid); err != nil {
		return 0, fmt.Errorf("PTRACE_DETACH: %w", err)
	}
	st, err := waitFor(pid)
	if err != nil || !st.Signaled() {
		return 0, fmt.Errorf("int 0x80 does not end the tracee: %#x, %w", st, err)
	}
	return st.Signal(), nil
}

// unfilteredABI is otherABI for a program without filters.
func unfilteredABI(t *testing.T) syscall.Signal {
	runtime.LockOSThread() // a tracer is a thread
	defer runtime.UnlockOSThread()
	cmd := exec.Command("yes")
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if st, err := waitFor(cmd.Process.Pid); err != nil || st.StopSignal() != unix.SIGTRAP {
		t.Fatalf("the tracee does not stop: %#x, %v", st, err)
	}
	signal, err := otherABI(cmd.Process.Pid)
	if err != nil || signal != unix.SIGILL && signal != unix.SIGSEGV {
		t.Fatalf("without a filter: %v, %v", signal, err)
	}
	return signal
}
