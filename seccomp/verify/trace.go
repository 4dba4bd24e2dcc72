package verify

import "fmt"

// noTracing: neither by ptrace nor by the calls that read another's memory.
func (c *check) noTracing() string {
	c.never([]string{"ptrace", "process_vm_readv", "process_vm_writev"})
	c.neverWith("prctl", "PR_SET_PTRACER", known{0, low, 0x59616d61})
	return "no program traces another"
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
func (c *check) tracing() string {
	check := func(what string, with ...known) { c.neverWith("ptrace", what, with...) }
	for _, r := range deepRequests {
		check(r.name, known{0, low, r.number})
	}
	const suspend = 1 << 21
	for _, request := range []uint64{0x4200, 0x4206} { // PTRACE_SETOPTIONS, PTRACE_SEIZE
		check(fmt.Sprintf("request %#x and PTRACE_O_SUSPEND_SECCOMP", request), known{0, low, request},
			known{3, suspend, suspend})
	}
	for register := range uint64(8) {
		at := []known{{0, low, 6}, {2, low, 848 + 8*register}}
		if register < 6 {
			check(fmt.Sprintf("PTRACE_POKEUSER of debug register %d", register), at...)
			continue
		}
		for bit := range 64 { // status and control may be cleared
			check(fmt.Sprintf("bit %d of debug register %d", bit, register),
				append(at, known{3, 1 << bit, 1 << bit})...)
		}
	}
	for _, set := range []uint64{0x402, 0x403} { // NT_ARM_HW_BREAK, NT_ARM_HW_WATCH
		check(fmt.Sprintf("PTRACE_SETREGSET of kind %#x", set), known{0, low, 0x4205}, known{2, low, set})
	}
	return "a tracer suspends and reads no filter, and sets no debug register"
}
