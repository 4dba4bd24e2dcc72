package seccomp

// Constants of the Linux ABI, the same on x86_64 and arm64.
const (
	rlimitCore = 4

	mapHugetlb = 0x40000
	mfdHugetlb = 4
	shmHugetlb = 0o4000

	// Flags that may be or-ed into a futex operation: FUTEX_PRIVATE_FLAG and FUTEX_CLOCK_REALTIME.
	// The kernel looks at all other bits.
	futexFlags = 128 | 256

	// Scheduling policies (sched(7)), and what may be or-ed into one.
	schedFIFO        = 1
	schedRR          = 2
	schedDeadline    = 6
	schedResetOnFork = 0x40000000

	// The class is above these bits of an I/O priority (ioprio_set(2)).
	ioprioClassShift = 13
	ioprioClassRT    = 1

	// SECCOMP_FILTER_FLAG_TSYNC and _TSYNC_ESRCH.
	filterFlagsTsync = 1 | 16
)

// resourceRuleOf returns the argument rules about what no limit of a jail
// counts, or what only exploits call. See ruleOf.
func resourceRuleOf(name string) (argRule, bool) {
	switch name {
	case "prlimit64":
		return prlimitRule(), true
	case "mmap":
		return hugeRule(3, mapHugetlb, eNOMEM), true
	case "memfd_create":
		return hugeRule(1, mfdHugetlb, eINVAL), true
	case "shmget":
		return hugeRule(2, shmHugetlb, eNOMEM), true
	case "futex":
		return futexRule(), true
	case "madvise":
		return adviceRule(), true
	case "timer_create", "clock_nanosleep":
		return clockRule(), true
	case "seccomp":
		return seccompRule(), true
	case "sched_setscheduler":
		return scheduleRule(), true
	case "ioprio_set":
		return ioClassRule(), true
	}
	return argRule{}, false
}

// prlimitRule keeps RLIMIT_CORE at the jail's initial value. With exactly 1 the kernel runs no core
// handler of the host's (core(5); fs/coredump.c), and a process may lower 1 to 0, with which it
// does. Setting it answers success and changes nothing: shells' `ulimit -c 0` and gpg end where the
// call fails. Like that, the old limit is not written where one call requests both. A resource that
// does not exist (16 and above) has the same answer: libseccomp takes no refusal beside an allowing
// rule for the same resource.
func prlimitRule() argRule {
	return argRule{
		text: "every resource read, all but RLIMIT_CORE set; that is accepted and not changed",
		why:  "with RLIMIT_CORE at exactly 1 the kernel runs no core handler of the host's",
		allow: [][]cond{
			{field(1, 0xffffffff&^3, 0)}, // CPU, FSIZE, DATA, STACK
			{low(1, rlimitCore), null(2)},
			{low(1, 5)},                  // RSS
			{field(1, 0xffffffff&^1, 6)}, // NPROC, NOFILE
			{field(1, 0xffffffff&^7, 8)}, // MEMLOCK .. RTTIME
		},
		refuse: softly(0),
	}
}

// hugeRule refuses huge pages of the reserved pool, which no limit counts but
// that of the hugetlb controller. The errno is the kernel's where it has none:
// the C library, Java and databases then use ordinary pages.
func hugeRule(arg uint, flag uint32, errno uint) argRule {
	return argRule{
		text:   "no huge pages of the reserved pool",
		why:    "no memory limit counts them",
		allow:  [][]cond{{field(arg, flag, 0)}},
		refuse: softly(errno),
	}
}

// futexRule refuses FUTEX_WAIT_REQUEUE_PI (11) and FUTEX_CMP_REQUEUE_PI (12):
// CVE-2014-3153 (Towelroot), CVE-2026-43499 (GhostLock). glibc calls neither
// since 2.25, musl and the language runtimes never did. ENOSYS is the answer of
// a processor that lacks them (futex(2)).
func futexRule() argRule {
	op := func(mask, value uint32) []cond { return []cond{field(1, 0xffffffff&^(futexFlags|mask), value)} }
	return argRule{
		text: "all operations but FUTEX_WAIT_REQUEUE_PI and FUTEX_CMP_REQUEUE_PI",
		why:  "CVE-2014-3153 (Towelroot), CVE-2026-43499 (GhostLock); no current C library calls them",
		allow: [][]cond{
			op(7, 0), // WAIT, WAKE, FD, REQUEUE, CMP_REQUEUE, WAKE_OP, LOCK_PI, UNLOCK_PI
			op(2, 8), // TRYLOCK_PI, WAKE_BITSET
			op(4, 9), // WAIT_BITSET, LOCK_PI2
		},
		refuse: softly(eNOSYS),
	}
}

// adviceRule keeps memory from being merged (MADV_MERGEABLE, 12): how long a
// write to it takes reports whether another process of the host has the same page
// (madvise(2); "Memory Deduplication as a Threat to the Guest OS", 2011). Each
// pattern leaves the advice that differs from 12 in one bit; those above 31 with
// the low bits of 12 do not exist. EINVAL is what a kernel without KSM answers,
// and what prctl's PR_SET_MEMORY_MERGE has.
func adviceRule() argRule {
	return argRule{
		text: "all advice but MADV_MERGEABLE",
		why:  "merged pages reveal what other processes of the host have in memory; prctl is refused, too",
		allow: [][]cond{
			{field(2, 4, 0)}, // MADV_NORMAL to WILLNEED, FREE, REMOVE, DONTFORK, DOFORK, and so on
			{field(2, 8, 0)},
			{field(2, 1, 1)},
			{field(2, 2, 2)},
			{field(2, 16, 16)},
		},
		refuse: softly(eINVAL),
	}
}

// clockRule leaves the clocks of wall time. Timers on processors' time
// (CLOCK_PROCESS_CPUTIME_ID, CLOCK_THREAD_CPUTIME_ID, and the negative numbers
// of other processes' clocks) were behind CVE-2025-38352; the errno is the
// kernel's for a clock without timers. Go's profiler then uses setitimer.
func clockRule() argRule {
	return argRule{
		text: "clocks of wall time, no processor time",
		why:  "CVE-2022-2585, CVE-2025-38352; Go's profiler falls back to setitimer",
		allow: [][]cond{
			{field(0, 0xffffffff&^1, 0)}, // REALTIME, MONOTONIC
			{low(0, 7)},                  // BOOTTIME
			{low(0, 11)},                 // TAI
		},
		refuse: softly(eOPNOTSUPP),
	}
}

// seccompRule lets a program load filters of its own, for all its threads or
// for one. Not in it: strict mode, listeners, and the flags that write to the
// kernel's log and that switch a mitigation off. EINVAL is how libseccomp finds
// out that a flag is not there.
func seccompRule() argRule {
	return argRule{
		text: "filters of its own, with TSYNC or without flags; which actions there are",
		why:  "logging fills the kernel's log; no program needs listeners and speculation flags",
		allow: [][]cond{
			{low(0, 1), field(1, 0xffffffff&^filterFlagsTsync, 0)}, // SET_MODE_FILTER
			{low(0, 2), low(1, 0)},                                 // GET_ACTION_AVAIL
		},
		refuse: softly(eINVAL),
	}
}

// scheduleRule answers chrt's call as an unprivileged process's under an engine's
// own filter: real-time policies are refused, others succeed. Nothing is changed,
// since a policy and a processor of one's own choice make races in the kernel easier to win.
func scheduleRule() argRule {
	const bits = 0xffffffff &^ schedResetOnFork
	return argRule{
		text: "nothing: ordinary policies are accepted and not changed",
		why:  "real-time policies take CAP_SYS_NICE; choosing when to run makes races in the kernel easier to win",
		refuse: []verdict{
			{conds: []cond{field(1, bits, schedFIFO)}, errno: ePERM, soft: true},
			{conds: []cond{field(1, bits&^(schedRR^schedDeadline), schedRR)}, errno: ePERM, soft: true},
		},
	}
}

// ioClassRule is scheduleRule for the priorities of I/O, which control groups bound.
func ioClassRule() argRule {
	return argRule{
		text: "nothing: ordinary classes are accepted and not changed",
		why:  "the real-time class takes CAP_SYS_NICE; control groups bound I/O",
		refuse: []verdict{
			{conds: []cond{field(2, 7<<ioprioClassShift, ioprioClassRT<<ioprioClassShift)}, errno: ePERM, soft: true},
		},
	}
}
