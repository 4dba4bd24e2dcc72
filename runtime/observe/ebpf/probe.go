package ebpf

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/observe/ebpf/status"
)

// Ability is what programs can do on this host.
type Ability string

// Abilities.
const (
	Blocks Ability = "blocks" // programs refuse what jails request, and report it
	// Watches: they only report executed programs and OOM kills, and refused system calls at a cost
	// for the whole machine.
	Watches Ability = "watches"
	Absent  Ability = "absent"
)

// Probe finds out by trying: it loads and attaches a program of four instructions, and sees it act.
// The kernel's list of security modules shows nothing about it: there are kernels that list bpf and
// take no such program, and such as take and never run one for a module that is off.
func Probe() (Ability, error) {
	blocks := tryBlocking()
	if blocks == nil {
		return Blocks, nil
	}
	if err := tryWatching(); err != nil {
		return Absent, errors.Join(blocks, err)
	}
	return Watches, blocks
}

// tryBlocking refuses a socket that no program requests, to this thread's own question.
func tryBlocking() error {
	return try("a program that refuses", &ebpf.ProgramSpec{
		Name: "agentjail_probe", Type: ebpf.Tracing, AttachType: ebpf.AttachModifyReturn, AttachTo: "security_socket_create",
		License: "Dual MIT/GPL",
		Instructions: asm.Instructions{
			asm.LoadMem(asm.R2, asm.R1, 16, asm.DWord), // protocol
			asm.Mov.Imm(asm.R0, 0),
			asm.JNE.Imm32(asm.R2, status.TrialProtocol, "end"),
			asm.Mov.Imm(asm.R0, -int32(status.Answer)),
			asm.Return().WithSymbol("end"),
		},
	}, func() error {
		if !status.Acts(status.TrialProtocol) {
			return errors.New("a program that refuses was attached, and does nothing")
		}
		return nil
	})
}

// tryWatching attaches an empty program to the exit of system calls.
func tryWatching() error {
	return try("a program on a tracepoint", &ebpf.ProgramSpec{
		Name: "agentjail_probe", Type: ebpf.Tracing, AttachType: ebpf.AttachTraceRawTp, AttachTo: "sys_exit", License: "Dual MIT/GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()},
	}, func() error { return nil })
}

// try has a program loaded and attached while f runs.
func try(what string, spec *ebpf.ProgramSpec, f func() error) error {
	p, err := ebpf.NewProgram(spec)
	if err != nil {
		return fmt.Errorf("%s cannot be loaded: %w", what, explained(err))
	}
	defer p.Close()
	l, err := link.AttachTracing(link.TracingOptions{Program: p})
	if err != nil {
		return fmt.Errorf("%s cannot be attached: %w", what, explained(err))
	}
	return errors.Join(f(), l.Close())
}

// forbidden reports whether an error is the kernel's no to a helper.
func forbidden(err error) bool {
	return errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES)
}
