package lifecycle

import (
	"math"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/jailinit"
	"agentjail.dev/runtime/refusal"
	"agentjail.dev/seccomp/abi"
	"agentjail.dev/seccomp/bpf"
)

// An initCall is a system call that an init makes under the jail's filter, with one argument.
type initCall struct {
	name  string
	arg   int // -1: whatever its arguments
	value uint64
}

// needs are the calls without which no init works: package syscall starts the program by two of
// them (syscall.forkExec), and the others pass signals on and wait for processes.
var needs = []initCall{
	{"pipe2", 1, unix.O_CLOEXEC},
	{"clone", 0, unix.CLONE_VFORK | unix.CLONE_VM | uint64(unix.SIGCHLD)},
	{"kill", -1, 0},
	{"wait4", 0, math.MaxUint64},
}

// leads are the calls by which the program leads a session, the second with a terminal.
var leads = []initCall{{"setsid", -1, 0}, {"ioctl", 1, unix.TIOCSCTTY}}

// initOf returns how an init works under a jail's filter, of an architecture.
func initOf(filter []byte, arch string, terminal bool) (jailinit.Init, error) {
	out := jailinit.Init{Stays: true, Leads: true}
	if len(filter) == 0 {
		return out, nil
	}
	refused, err := refusedCalls(filter, arch, needs)
	if err != nil {
		return out, err
	}
	if len(refused) > 0 {
		names := strings.Join(refused, ", ")
		return out, refusal.New(refusal.Init, "an init needs system calls that the jail's filter refuses: %s", names).
			WithRemedy("agentjail sandbox --no-init; or %s in the list of seccomp.only", names)
	}
	session := leads
	if !terminal {
		session = leads[:1]
	}
	refused, err = refusedCalls(filter, arch, session)
	out.Leads = len(refused) == 0
	return out, err
}

// refusedCalls returns the names of those calls that a filter refuses, if only with some arguments.
func refusedCalls(filter []byte, arch string, calls []initCall) (refused []string, err error) {
	prog, err := bpf.Parse(filter)
	if err != nil {
		return nil, err
	}
	for _, c := range calls {
		nr, ok := abi.Number(c.name, arch)
		if ok {
			p := bpf.Call(bpf.AuditArch(arch), nr)
			if c.arg >= 0 {
				p = p.With(c.arg, ^uint64(0), c.value)
			}
			answers, err := bpf.Verdicts(prog, p)
			if err != nil {
				return nil, err
			}
			ok = !slices.ContainsFunc(answers, func(v uint32) bool {
				return v&bpf.RetActionFull != bpf.RetAllow && v&bpf.RetActionFull != bpf.RetLog
			})
		}
		if !ok {
			refused = append(refused, c.name)
		}
	}
	return refused, nil
}
