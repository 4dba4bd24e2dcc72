package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/procstatus"
	"agentjail.dev/seccomp/abi"
	"agentjail.dev/seccomp/bpf"
)

// behind is the host's process that what runs behind a boundary is, or is answered by: the waiting
// command's own, or else the one of the boundary's own kernel that may make the most calls.
func behind(pids map[int]bool, token string) (calls int, err error) {
	calls = -1
	for pid := range pids {
		args, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if string(args) == "sleep\x00"+token+"\x00" {
			return reachable(pid)
		}
		status, serr := procstatus.Read(pid)
		if serr != nil || status.Field("Seccomp") != "2" || !strings.Contains(string(args), token) {
			continue
		}
		n, rerr := reachable(pid)
		if rerr != nil {
			err = rerr
		}
		calls = max(calls, n)
	}
	if calls < 0 && err == nil {
		err = errors.New("no process with a filter")
	}
	return calls, err
}

// reachable counts the host's system calls that all filters of a process let pass for some
// arguments.
func reachable(pid int) (int, error) {
	filters, err := filtersOf(pid)
	if err != nil {
		return -1, fmt.Errorf("reading the filters of %d: %w", pid, err)
	}
	n := 0
	audit := bpf.AuditArch(runtime.GOARCH)
	for _, name := range abi.Names(runtime.GOARCH) {
		nr, _ := abi.Number(name, runtime.GOARCH)
		passes := true
		for _, f := range filters {
			answers, err := bpf.Verdicts(f, bpf.Call(audit, nr))
			if err != nil {
				return -1, err
			}
			some := false
			for _, v := range answers {
				a := v & bpf.RetActionFull
				some = some || a == bpf.RetAllow || a == bpf.RetLog
			}
			passes = passes && some
		}
		if passes {
			n++
		}
	}
	return n, nil
}

// getFilter is PTRACE_SECCOMP_GET_FILTER (ptrace(2)).
const getFilter = 0x420c

// filtersOf reads the filters of a process, which is stopped meanwhile.
func filtersOf(pid int) (out [][]bpf.Insn, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.PtraceSeize(pid); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, unix.PtraceDetach(pid)) }()
	if err := unix.PtraceInterrupt(pid); err != nil {
		return nil, err
	}
	var ws unix.WaitStatus
	if _, err := unix.Wait4(pid, &ws, unix.WALL, nil); err != nil {
		return nil, err
	}
	for i := uintptr(0); ; i++ {
		n, _, errno := unix.Syscall6(unix.SYS_PTRACE, getFilter, uintptr(pid), i, 0, 0, 0)
		if errno == unix.ENOENT || errno == unix.EINVAL && i == 0 { // no further one; no filter at all
			return out, nil
		}
		if errno != 0 || n == 0 {
			return nil, errno
		}
		raw := make([]byte, n*8) // struct sock_filter
		if _, _, errno := unix.Syscall6(unix.SYS_PTRACE, getFilter, uintptr(pid), i, uintptr(unsafe.Pointer(&raw[0])), 0, 0); errno != 0 {
			return nil, errno
		}
		prog, err := bpf.Parse(raw)
		if err != nil {
			return nil, err
		}
		out = append(out, prog)
	}
}
