package verify

import "fmt"

// noTracing: neither by ptrace nor by the calls that read another's memory.
func (p *stack) noTracing() (Result, error) {
	against, err := p.never([]string{"ptrace", "process_vm_readv", "process_vm_writev"})
	if err != nil {
		return Result{}, err
	}
	more, err := p.neverWide("prctl", "PR_SET_PTRACER", wide{0, int32s, 0x59616d61})
	if err != nil {
		return Result{}, err
	}
	return result("no program traces another", append(against, more...))
}

// Requests of ptrace(2) that reach past a filter, or into parts of the kernel that
// no debugger of a jail needs.
var deepRequests = []struct {
	number uint64
	name   string
}{
	{21, "PTRACE_OLDSETOPTIONS"},
	{30, "PTRACE_ARCH_PRCTL"},
	{31, "PTRACE_SYSEMU"},
	{32, "PTRACE_SYSEMU_SINGLESTEP"},
	{33, "PTRACE_SINGLEBLOCK"},
	{0x420c, "PTRACE_SECCOMP_GET_FILTER"},
	{0x420d, "PTRACE_SECCOMP_GET_METADATA"},
	{0x4210, "PTRACE_SET_SYSCALL_USER_DISPATCH_CONFIG"},
	{0x4211, "PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG"},
	{0x4212, "PTRACE_SET_SYSCALL_INFO"},
}

// tracing: where programs trace, they suspend no filter (PTRACE_O_SUSPEND_SECCOMP;
// CVE-2022-30594) and set no hardware breakpoint, which is an event of perf
// (CVE-2018-1000199).
func (p *stack) tracing() (Result, error) {
	var against []string
	check := func(what string, with ...wide) error {
		more, err := p.neverWide("ptrace", what, with...)
		against = append(against, more...)
		return err
	}
	for _, r := range deepRequests {
		if err := check(r.name, wide{0, int32s, r.number}); err != nil {
			return Result{}, err
		}
	}
	const suspend = 1 << 21
	for _, request := range []uint64{0x4200, 0x4206} { // PTRACE_SETOPTIONS, PTRACE_SEIZE
		if err := check(fmt.Sprintf("request %#x and PTRACE_O_SUSPEND_SECCOMP", request), wide{0, int32s, request},
			wide{3, suspend, suspend}); err != nil {
			return Result{}, err
		}
	}
	for register := range uint64(8) {
		at := []wide{{0, int32s, 6}, {2, int32s, 848 + 8*register}}
		if register < 6 {
			if err := check(fmt.Sprintf("PTRACE_POKEUSER of debug register %d", register), at...); err != nil {
				return Result{}, err
			}
			continue
		}
		for bit := range 64 { // status and control may be cleared
			if err := check(fmt.Sprintf("bit %d of debug register %d", bit, register),
				append(at, wide{3, 1 << bit, 1 << bit})...); err != nil {
				return Result{}, err
			}
		}
	}
	for _, set := range []uint64{0x402, 0x403} { // NT_ARM_HW_BREAK, NT_ARM_HW_WATCH
		if err := check(fmt.Sprintf("PTRACE_SETREGSET of kind %#x", set), wide{0, int32s, 0x4205}, wide{2, int32s, set}); err != nil {
			return Result{}, err
		}
	}
	return result("a tracer suspends and reads no filter, and sets no debug register", against)
}
