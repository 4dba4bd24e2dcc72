package collector

import (
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/ebpf"
	"agentjail.dev/runtime/journal"
	"agentjail.dev/seccomp/abi"
)

// passed is the kind of what both filters refuse in every profile: that a program was asked about it means that they failed.
const passed = "ring0.passed"

// kinds of what is refused, by hook.
var kinds = map[ebpf.Hook]string{
	ebpf.Socket: passed, ebpf.IOUring: passed, ebpf.Userfaultfd: passed, ebpf.Userns: passed, ebpf.Key: passed, ebpf.BPF: passed,
	ebpf.Perf: passed, ebpf.Mount: passed, ebpf.Ptrace: "ptrace.refused", ebpf.Module: "module.refused", ebpf.Exec: "exec.blocked",
}

// describe is an event as the journal has it.
func describe(e *ebpf.Event, count uint64, boot, born time.Time) journal.Event {
	uid := e.UID
	out := journal.Event{
		Time: journal.At(boot.Add(time.Duration(e.Time))), Source: journal.SourceEBPF, Pid: int(e.Pid), UID: &uid, Program: e.Program,
		Target: e.Hook.String(),
	}
	if count > 1 {
		out.Count = count
	}
	switch {
	case e.Hook == ebpf.Syscall:
		describeCall(&out, e)
		return out
	case e.Hook == ebpf.Exec:
		out.Path = e.Text
		out.Target = ""
		out.Kind = "process.exec"
		if written(e, born) {
			out.Kind = "process.written"
		}
	}
	if e.Refused {
		out.Kind, out.Errno = kinds[e.Hook], "EPERM"
	} else if out.Kind == "" {
		// Only what policy lets pass; there is nothing to tell of it but that it was asked for.
		out.Kind = kinds[e.Hook]
	}
	switch e.Hook {
	case ebpf.Socket:
		out.Arguments = []string{fmt.Sprintf("family=%d", e.Args[0]>>32), fmt.Sprintf("type=%d", uint32(e.Args[0])), fmt.Sprintf("protocol=%d", e.Args[1])}
	case ebpf.BPF:
		out.Arguments = []string{fmt.Sprintf("command=%d", e.Args[0])}
	case ebpf.Module:
		out.Name = e.Text
	}
	return out
}

// describeCall is a refused system call. Which rule refused it, `agentjail why` finds in the profile.
func describeCall(out *journal.Event, e *ebpf.Event) {
	arch := runtime.GOARCH
	n := int(e.Number)
	out.Kind, out.Target, out.Number, out.Arch = "syscall.refused", "", &n, arch
	out.Syscall = abi.Name(e.Number, arch)
	out.Errno = unix.ErrnoName(unix.Errno(-e.Result))
	for _, a := range e.Args {
		out.Arguments = append(out.Arguments, fmt.Sprintf("%#x", a))
	}
}

// written says whether a program that is run was written in the jail: changed after that began, on a file system of memory or of layers,
// which a mounted directory is not.
func written(e *ebpf.Event, born time.Time) bool {
	const minorBits = 20 // of the kernel's own device numbers
	return !born.IsZero() && int64(e.Args[0]) > born.Unix() && e.Args[1]>>minorBits == 0
}
