package compiler

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"agentjail.dev/seccomp"
	"agentjail.dev/seccomp/bpf"
)

const childEnv = "AGENTJAIL_TEST_FILTERED"

func TestMain(m *testing.M) {
	if what := os.Getenv(childEnv); what != "" {
		filtered(what)
	}
	os.Exit(m.Run())
}

// tried are calls that a filtered process makes, and the answers that it must get.
// Arguments are such that an unfiltered kernel answers otherwise.
var tried = []struct {
	name   string
	nr     uintptr
	args   [3]uintptr
	errno  syscall.Errno // default profile
	strict syscall.Errno
}{
	{"prlimit64, a new core limit", unix.SYS_PRLIMIT64, [3]uintptr{0, unix.RLIMIT_CORE, 8}, 0, unix.ENOSYS}, // address 8: EFAULT in the kernel
	{"prlimit64, a new core limit at 4 GiB", unix.SYS_PRLIMIT64, [3]uintptr{0, unix.RLIMIT_CORE, 1 << 32}, 0, unix.ENOSYS},
	{"prlimit64, the core limit read", unix.SYS_PRLIMIT64, [3]uintptr{1 << 30, unix.RLIMIT_CORE, 0}, unix.ESRCH, unix.ENOSYS},
	{"prlimit64, another limit", unix.SYS_PRLIMIT64, [3]uintptr{0, unix.RLIMIT_NOFILE, 8}, unix.EFAULT, unix.ENOSYS},
	{"memfd_create MFD_HUGETLB", unix.SYS_MEMFD_CREATE, [3]uintptr{0, unix.MFD_HUGETLB, 0}, unix.EINVAL, unix.ENOSYS},
	{"memfd_create", unix.SYS_MEMFD_CREATE, [3]uintptr{0, 0, 0}, unix.EFAULT, unix.ENOSYS},
	{"futex FUTEX_WAKE_PRIVATE", unix.SYS_FUTEX, [3]uintptr{2, 129, 0}, unix.EINVAL, unix.EINVAL}, // not aligned
	{"futex FUTEX_WAIT_REQUEUE_PI", unix.SYS_FUTEX, [3]uintptr{2, 11, 0}, unix.ENOSYS, unix.ENOSYS},
	{"futex FUTEX_CMP_REQUEUE_PI_PRIVATE, clock bit", unix.SYS_FUTEX, [3]uintptr{2, 12 | 128 | 256, 0}, unix.ENOSYS, unix.ENOSYS},
	{"futex FUTEX_LOCK_PI2", unix.SYS_FUTEX, [3]uintptr{2, 13, 0}, unix.EINVAL, unix.EINVAL},
	{"timer_create CLOCK_THREAD_CPUTIME_ID", unix.SYS_TIMER_CREATE, [3]uintptr{3, 8, 8}, unix.EOPNOTSUPP, unix.ENOSYS},
	{"timer_create, another process's clock", unix.SYS_TIMER_CREATE, [3]uintptr{^uintptr(5), 8, 8}, unix.EOPNOTSUPP, unix.ENOSYS},
	{"timer_create CLOCK_MONOTONIC", unix.SYS_TIMER_CREATE, [3]uintptr{1, 8, 8}, unix.EFAULT, unix.ENOSYS},
	{"clock_nanosleep CLOCK_PROCESS_CPUTIME_ID", unix.SYS_CLOCK_NANOSLEEP, [3]uintptr{2, 0, 8}, unix.EOPNOTSUPP, unix.EOPNOTSUPP},
	{"clock_nanosleep CLOCK_MONOTONIC", unix.SYS_CLOCK_NANOSLEEP, [3]uintptr{1, 0, 8}, unix.EFAULT, unix.EFAULT},
	{"setsockopt SO_RCVBUF", unix.SYS_SETSOCKOPT, [3]uintptr{1 << 30, unix.SOL_SOCKET, unix.SO_RCVBUF}, 0, unix.ENOSYS}, // EBADF in the kernel
	{"setsockopt SO_RCVBUFFORCE", unix.SYS_SETSOCKOPT, [3]uintptr{1 << 30, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE}, unix.ENOPROTOOPT, unix.ENOSYS},
	{"setsockopt SO_KEEPALIVE", unix.SYS_SETSOCKOPT, [3]uintptr{1 << 30, unix.SOL_SOCKET, unix.SO_KEEPALIVE}, unix.EBADF, unix.ENOSYS},
	{"fsetxattr", unix.SYS_FSETXATTR, [3]uintptr{1 << 30, 0, 0}, unix.EOPNOTSUPP, unix.ENOSYS},
	{"prctl PR_SET_SECCOMP", unix.SYS_PRCTL, [3]uintptr{unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, 0}, unix.EINVAL, unix.EINVAL}, // EFAULT in the kernel
	{"landlock_create_ruleset", unix.SYS_LANDLOCK_CREATE_RULESET, [3]uintptr{0, 0, 1 << 30}, unix.EINVAL, unix.ENOSYS},               // the kernel's own EINVAL
	{"close_range", unix.SYS_CLOSE_RANGE, [3]uintptr{1 << 30, 1 << 30, 0}, 0, unix.ENOSYS},
	{"sched_setaffinity", unix.SYS_SCHED_SETAFFINITY, [3]uintptr{0, 0, 0}, 0, unix.ENOSYS},          // EINVAL in the kernel
	{"sched_setparam", unix.SYS_SCHED_SETPARAM, [3]uintptr{0, 0, 0}, 0, unix.ENOSYS},                // the same
	{"sched_setattr", unix.SYS_SCHED_SETATTR, [3]uintptr{0, 0, 0}, unix.EPERM, unix.ENOSYS},         // the same
	{"sched_setscheduler, batch", unix.SYS_SCHED_SETSCHEDULER, [3]uintptr{0, 3, 0}, 0, unix.ENOSYS}, // the same
	{"sched_setscheduler, real time", unix.SYS_SCHED_SETSCHEDULER, [3]uintptr{0, 2 | 1<<30, 0}, unix.EPERM, unix.ENOSYS},
	{"ioprio_set, best effort", unix.SYS_IOPRIO_SET, [3]uintptr{9, 0, 2 << 13}, 0, unix.ENOSYS}, // EINVAL in the kernel
	{"ioprio_set, real time", unix.SYS_IOPRIO_SET, [3]uintptr{9, 0, 1 << 13}, unix.EPERM, unix.ENOSYS},
	{"seccomp", unix.SYS_SECCOMP, [3]uintptr{1, 0, 0}, unix.ENOSYS, unix.ENOSYS}, // EFAULT in the kernel
	{"io_uring_setup", unix.SYS_IO_URING_SETUP, [3]uintptr{0, 0, 0}, unix.ENOSYS, unix.ENOSYS},
	{"unshare", unix.SYS_UNSHARE, [3]uintptr{0, 0, 0}, unix.ENOSYS, unix.ENOSYS},
	{"socket AF_VSOCK", unix.SYS_SOCKET, [3]uintptr{40, 1, 0}, unix.EAFNOSUPPORT, unix.ENOSYS},
	{"socket AF_VSOCK, high bit", unix.SYS_SOCKET, [3]uintptr{1<<32 | 40, 1, 0}, unix.EAFNOSUPPORT, unix.ENOSYS},
	{"socket MPTCP", unix.SYS_SOCKET, [3]uintptr{2, 1, 262}, unix.EPROTONOSUPPORT, unix.ENOSYS},
	{"ioctl TIOCSTI", unix.SYS_IOCTL, [3]uintptr{1 << 30, unix.TIOCSTI, 0}, unix.ENOTTY, unix.ENOTTY},
	{"ioctl TCGETS", unix.SYS_IOCTL, [3]uintptr{1 << 30, unix.TCGETS, 0}, unix.EBADF, unix.EBADF},
	{"prctl PR_SET_MM", unix.SYS_PRCTL, [3]uintptr{unix.PR_SET_MM, 99, 0}, unix.EINVAL, unix.EINVAL},
	{"fchmodat u+s", unix.SYS_FCHMODAT, [3]uintptr{1 << 30, 0, 0o4755}, unix.EPERM, unix.EPERM},
	{"fchmodat", unix.SYS_FCHMODAT, [3]uintptr{1 << 30, 0, 0o755}, unix.EFAULT, unix.EFAULT},
	{"sendfile", unix.SYS_SENDFILE, [3]uintptr{1 << 30, 1 << 30, 0}, unix.EINVAL, unix.EINVAL},
	{"clone CLONE_NEWUSER", unix.SYS_CLONE, [3]uintptr{unix.CLONE_NEWUSER | unix.CLONE_VM, 0, 0}, unix.EPERM, unix.EPERM},
	{"number -1", ^uintptr(0), [3]uintptr{}, unix.ENOSYS, unix.ENOSYS},
}

// filtered puts both filters on a thread of this process, the delegate's
// first, and tries. "profile" or "profile,what": what ends the process.
func filtered(what string) {
	runtime.LockOSThread()
	profile, deadly, _ := strings.Cut(what, ",")
	fail := func(err error) {
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	}
	s, err := seccomp.OCI(seccomp.Options{Profile: profile, Arch: runtime.GOARCH, Kill: deadly == "unlisted"})
	fail(err)
	wide, _ := seccomp.WithEntry(s)
	first, err := Compile(wide)
	fail(err)
	second, err := Compile(s)
	fail(err)
	fail(unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
	fail(bpf.Load(first))
	// As the init step does: calls that only it may make.
	if _, _, errno := syscall.RawSyscall(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_NOFILE, 8); errno != unix.EFAULT {
		fail(fmt.Errorf("prlimit64 between the filters: %w", errno))
	}
	fail(bpf.Load(second))
	switch deadly {
	case "trace":
		for _, wrong := range traced([][]bpf.Insn{first, second}) {
			fmt.Println(wrong)
		}
		os.Exit(0)
	case "x32":
		syscall.RawSyscall(bpf.X32Bit|unix.SYS_GETPID, 0, 0, 0)
	case "unlisted":
		syscall.RawSyscall(unix.SYS_UNSHARE, 0, 0, 0)
	}
	for _, c := range tried {
		want := c.errno
		if profile == "strict" {
			want = c.strict
		}
		_, _, errno := syscall.RawSyscall(c.nr, c.args[0], c.args[1], c.args[2])
		if errno != want {
			fmt.Printf("%s: %d (%v), want %d (%v)\n", c.name, errno, errno, want, want)
		}
	}
	os.Exit(0)
}

// The kernel takes both filters and answers as they state.
func TestKernel(t *testing.T) {
	if err := unix.Prctl(unix.PR_GET_SECCOMP, 0, 0, 0, 0); errors.Is(err, unix.EINVAL) {
		t.Skip("this kernel has no seccomp")
	}
	child := func(what string) (string, error) {
		cmd := exec.Command("/proc/self/exe")
		cmd.Env = append(os.Environ(), childEnv+"="+what)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	for _, profile := range []string{"default", "strict"} {
		if out, err := child(profile); err != nil || out != "" {
			t.Errorf("%s: %v\n%s", profile, err, out)
		}
		deadly := []string{"unlisted"}
		if runtime.GOARCH == "amd64" {
			deadly = append(deadly, "x32")
		}
		for _, what := range deadly {
			out, err := child(profile + "," + what)
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != unix.SIGSYS {
				t.Errorf("%s, %s: %v, not ended by SIGSYS\n%s", profile, what, err, out)
			}
		}
	}
}
