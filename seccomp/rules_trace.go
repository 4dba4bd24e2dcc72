package seccomp

// Constants of ptrace(2), the same on x86_64 and arm64 where both have them.
const (
	traceCont     = 7
	tracePokeUser = 6
	traceSyscall  = 24

	traceSetOptions     = 0x4200
	traceGetEventMsg    = 0x4201
	traceGetSigInfo     = 0x4202
	traceGetRegset      = 0x4204
	traceSetRegset      = 0x4205
	traceSeize          = 0x4206
	traceInterrupt      = 0x4207
	traceListen         = 0x4208
	traceGetSyscallInfo = 0x420e

	// Every option but PTRACE_O_SUSPEND_SECCOMP (1 << 21): events, SYSGOOD, EXITKILL.
	traceOptions = 0xff | 1<<20

	// The general registers lie at the beginning of struct user, the debug registers
	// from 848 on. The last two are status and control.
	traceUserRegisters = 0xff
	traceDebugStatus   = 848 + 6*8
	traceDebugControl  = 848 + 7*8

	// Kinds of register sets (elf.h).
	noteGeneral       = 1
	noteFloat         = 2
	noteX86State      = 0x202
	noteARMTLS        = 0x401
	noteARMSystemCall = 0x404
	noteARMVector     = 0x405

	prSetPtracer = 0x59616d61
)

// traceRule is an allowlist of requests. Since Linux 4.8 a filter runs after the tracer, so that a
// tracee's changed call is filtered as well (seccomp(2)). Not in the list:
//
//   - PTRACE_O_SUSPEND_SECCOMP, by PTRACE_SETOPTIONS or PTRACE_SEIZE, which
//     switches the tracee's filters off; the latter without looking at
//     privileges before Linux 5.17.2 (CVE-2022-30594);
//   - PTRACE_SECCOMP_GET_FILTER and _GET_METADATA, PTRACE_SYSEMU, and what sets
//     system call user dispatch or shadow stacks;
//   - debug registers, by PTRACE_POKEUSER or PTRACE_SETREGSET: they are events of
//     perf in the kernel (CVE-2018-1000199). gdb clears control and status of every
//     thread, which makes no event.
//
// EIO is the kernel's answer to a request that it does not know.
func traceRule() argRule {
	r := argRule{
		text:   "attach, stop, go on, registers, memory, events; no option that suspends filters, no filters read, no debug registers but cleared",
		why:    "a tracer must not switch a filter off (CVE-2022-30594); debug registers are events of perf (CVE-2018-1000199)",
		refuse: softly(eIO),
	}
	for _, m := range []cond{
		field(0, 0xffffffff&^3, 0),               // TRACEME, PEEKTEXT, PEEKDATA, PEEKUSER
		field(0, 0xffffffff&^1, 4),               // POKETEXT, POKEDATA
		low(0, traceCont),                        //
		field(0, 0xffffffff&^1, 8),               // KILL, SINGLESTEP
		field(0, 0xffffffff&^3, 12),              // GETREGS, SETREGS, GETFPREGS, SETFPREGS
		field(0, 0xffffffff&^1, 16),              // ATTACH, DETACH
		low(0, traceSyscall),                     //
		low(0, traceGetEventMsg),                 //
		field(0, 0xffffffff&^1, traceGetSigInfo), // GETSIGINFO, SETSIGINFO
		low(0, traceGetRegset),                   //
		low(0, traceInterrupt),                   //
		low(0, traceListen),                      //
		low(0, traceGetSyscallInfo),              //
	} {
		r.allow = append(r.allow, []cond{m})
	}
	for _, request := range []uint32{traceSetOptions, traceSeize} {
		r.allow = append(r.allow, []cond{low(0, request), field(3, 0xffffffff&^traceOptions, 0)})
	}
	r.allow = append(r.allow, []cond{low(0, tracePokeUser), field(2, 0xffffffff&^traceUserRegisters, 0)})
	r.allow = append(r.allow, []cond{
		low(0, tracePokeUser),
		field(2, 0xffffffff&^(traceDebugStatus^traceDebugControl), traceDebugStatus), null(3),
	})
	for _, kind := range []uint32{noteGeneral, noteFloat, noteX86State, noteARMTLS, noteARMSystemCall, noteARMVector} {
		r.allow = append(r.allow, []cond{low(0, traceSetRegset), low(2, kind)})
	}
	return r
}

// prctlDebugRule is that of prctl with PR_SET_PTRACER, by which a process permits
// another one of the jail to trace it where the host's Yama requests that:
// LeakSanitizer and crash handlers. It only ever narrows what Yama denies.
func prctlDebugRule(filters bool) argRule {
	r := prctlRule(filters)
	r.text += ", tracers"
	r.allow = append(r.allow, []cond{low(0, prSetPtracer)})
	return r
}
