package collector

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/observe/ebpf"
	"agentjail.dev/runtime/observe/journal"
	"agentjail.dev/seccomp/abi"
)

// passed is the kind of what both filters refuse in every profile: that a program saw it means that
// both filters failed.
const passed = journal.Ring0Passed

// kinds of what is refused, by hook.
var kinds = map[ebpf.Hook]journal.Kind{
	ebpf.Socket: passed, ebpf.IOUring: passed, ebpf.Userfaultfd: passed, ebpf.Userns: passed, ebpf.Key: passed, ebpf.BPF: passed,
	ebpf.Perf: passed, ebpf.Mount: passed, ebpf.Ptrace: journal.PtraceRefused, ebpf.Module: journal.ModuleRefused,
	ebpf.Exec:  journal.ExecBlocked,
	ebpf.Trace: journal.TraceBlocked, ebpf.Connect: journal.ConnectBlocked, ebpf.Bind: journal.BindBlocked,
	ebpf.Unix: journal.UnixBlocked,
}

// noted are the kinds of what is let through, and reported.
var noted = map[ebpf.Hook]journal.Kind{
	ebpf.Exec: journal.ProcessExec, ebpf.Trace: journal.ProcessTraced, ebpf.Connect: journal.ConnectTried,
	ebpf.Bind: journal.BindTried,
	ebpf.OOM:  journal.LimitOOM,
}

// describe is an event as the journal has it.
func describe(e *ebpf.Event, count uint64, boot, born time.Time) journal.Event {
	uid := e.UID
	out := journal.Event{
		Time: journal.At(boot.Add(time.Duration(e.Time))), Source: journal.SourceEBPF, Pid: int(e.Pid), PPid: int(e.Parent), UID: &uid,
		Program: e.Program,
		Target:  e.Hook.String(),
	}
	if count > 1 {
		out.Count = count
	}
	switch {
	case e.Hook == ebpf.Syscall:
		describeCall(&out, e)
		return out
	case e.Refused:
		out.Kind, out.Errno = kinds[e.Hook], "EPERM"
	case noted[e.Hook] != 0:
		out.Kind = noted[e.Hook]
	default:
		// Policy lets it pass: only the request is reported.
		out.Kind = kinds[e.Hook]
	}
	switch e.Hook {
	case ebpf.Exec:
		out.Path, out.Target = e.Text, ""
		describeProgram(&out, &e.Started)
		if !e.Refused && written(e, born) {
			out.Kind = journal.ProcessWritten
		}
	case ebpf.Connect, ebpf.Bind:
		out.Target = ""
		describeAddress(&out, e)
	case ebpf.Trace:
		out.Arguments = []string{fmt.Sprintf("pid=%d", e.Args[1])}
	case ebpf.Unix:
		out.Path = e.Text // as its process named it when it was bound
	case ebpf.OOM:
		out.Target = ""
	case ebpf.Socket:
		out.Arguments = []string{
			fmt.Sprintf("family=%d", e.Args[0]>>32), fmt.Sprintf("type=%d", uint32(e.Args[0])),
			fmt.Sprintf("protocol=%d", e.Args[1]),
		}
	case ebpf.BPF:
		out.Arguments = []string{fmt.Sprintf("command=%d", e.Args[0])}
	case ebpf.Module:
		out.Name = e.Text
	}
	return out
}

// describeProgram is how a program is executed.
func describeProgram(out *journal.Event, s *ebpf.Started) {
	out.Cwd, out.Parent = s.Cwd, s.Parent
	if s.ArgvSize == 0 {
		return
	}
	out.Argv = strings.Split(strings.TrimSuffix(s.Argv, "\x00"), "\x00")
	if int(s.ArgvSize) > len(s.Argv) {
		out.Argv[len(out.Argv)-1] += "…"
	}
}

// describeAddress is the address that a socket is connected or bound to.
func describeAddress(out *journal.Event, e *ebpf.Event) {
	var raw [16]byte
	binary.LittleEndian.PutUint64(raw[:], e.Args[1])
	binary.LittleEndian.PutUint64(raw[8:], e.Args[2])
	switch e.Args[0] >> 32 {
	case unix.AF_INET:
		out.Address = netip.AddrFrom4([4]byte(raw[:4])).String()
	case unix.AF_INET6:
		out.Address = netip.AddrFrom16(raw).String()
	default:
		return // AF_UNSPEC takes the address away
	}
	out.Port = uint16(e.Args[0])
}

// describeCall is a refused system call. `agentjail why` finds the rule in the profile.
func describeCall(out *journal.Event, e *ebpf.Event) {
	arch := runtime.GOARCH
	n := int(e.Number)
	out.Kind, out.Target, out.Number, out.Arch = journal.SyscallRefused, "", &n, arch
	out.Syscall = abi.Name(e.Number, arch)
	out.Errno = unix.ErrnoName(unix.Errno(-e.Result))
	for _, a := range e.Args {
		out.Arguments = append(out.Arguments, fmt.Sprintf("%#x", a))
	}
}

// written reports whether a program that is run was written in the jail: changed after that was
// made, on a file system of memory or of layers, which a mounted directory is not.
func written(e *ebpf.Event, born time.Time) bool {
	const minorBits = 20 // of the kernel's own device numbers
	return !born.IsZero() && int64(e.Args[0]) >= born.UnixNano() && uint32(e.Args[1])>>minorBits == 0
}
