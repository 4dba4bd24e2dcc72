package check

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/thread"
	"agentjail.dev/seccomp"
	"agentjail.dev/seccomp/bpf"
)

// seccompFilter puts a filter on a thread that then ends: it answers one call
// with an errno of its own and kills what is not of the native ABI.
func seccompFilter(*env) answer {
	arch := bpf.AuditArch(runtime.GOARCH)
	if arch == 0 {
		return fail("use an amd64 or arm64 machine", "no filter for %s", runtime.GOARCH)
	}
	for _, a := range []struct {
		ret  uint32
		name string
	}{{unix.SECCOMP_RET_KILL_PROCESS, "kill_process"}, {unix.SECCOMP_RET_ERRNO, "errno"}, {unix.SECCOMP_RET_ALLOW, "allow"}} {
		if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_ACTION_AVAIL, 0,
			uintptr(unsafe.Pointer(&a.ret))); errno != 0 {
			return fail("boot Linux 4.14 or later with CONFIG_SECCOMP_FILTER", "the action %s: %v", a.name, errno)
		}
	}
	err := thread.Own(func() error {
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return fmt.Errorf("no_new_privs: %w", err)
		}
		// struct seccomp_data: nr at 0, arch at 4 (seccomp(2)).
		err := bpf.Load([]bpf.Insn{
			{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 4},
			{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: 1, K: arch},
			{Code: unix.BPF_RET | unix.BPF_K, K: bpf.RetKillProcess},
			{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0},
			{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: unix.SYS_GETPRIORITY},
			{Code: unix.BPF_RET | unix.BPF_K, K: bpf.RetErrno | uint32(unix.EUCLEAN)},
			{Code: unix.BPF_RET | unix.BPF_K, K: bpf.RetAllow},
		})
		if err != nil {
			return err
		}
		if _, err := unix.Getpriority(unix.PRIO_PROCESS, 0); !errors.Is(err, unix.EUCLEAN) {
			return fmt.Errorf("a filter has no effect (%v)", err)
		}
		return nil
	})
	return tried(err, "boot a kernel with CONFIG_SECCOMP_FILTER", "a filter for the native ABI (%s) takes effect", runtime.GOARCH)
}

// seccompProfile renders the policy's profile for this machine.
func seccompProfile(e *env) answer {
	s, err := seccomp.OCI(seccomp.Options{
		Profile: e.policy.Seccomp.Profile, Arch: e.host.Arch, Kill: e.policy.Seccomp.OnViolation == "kill",
		Only: e.policy.Seccomp.List,
	})
	if err != nil {
		return fail("set seccomp.profile to one of those", "%v", err)
	}
	names := map[string]bool{}
	for _, r := range s.Syscalls {
		for _, n := range r.Names {
			if r.Action == "SCMP_ACT_ALLOW" {
				names[n] = true
			}
		}
	}
	return ok("profile %s: %d system calls, all others do not exist", e.policy.Seccomp.Profile, len(names))
}
