package verify

import "fmt"

// coreLimit: setting RLIMIT_CORE never reaches the kernel. Each bit that makes
// the pointer to the new limit one, in turn.
func (c *check) coreLimit() string {
	c.neverWith("setrlimit", "RLIMIT_CORE", known{0, low, 4})
	for bit := range 64 {
		c.neverWith("prlimit64", fmt.Sprintf("a new RLIMIT_CORE, bit %d of its address set", bit), known{1, low, 4},
			known{2, 1 << bit, 1 << bit})
	}
	return "RLIMIT_CORE, which keeps the host's core handler from running, is set by no program"
}

// hugePages: none of the reserved pool.
func (c *check) hugePages() string {
	const what = "its flag for huge pages"
	c.neverWith("mmap", what, known{3, 0x40000, 0x40000})
	c.neverWith("memfd_create", what, known{1, 4, 4})
	c.neverWith("shmget", what, known{2, 0o4000, 0o4000})
	return "no huge pages of the host's reserved pool: not by mmap, memfd_create or shmget"
}

// merging: no page is merged with one of another process of the host.
func (c *check) merging() string {
	c.neverWith("madvise", "MADV_MERGEABLE", known{2, low, 12})
	c.neverWith("prctl", "PR_SET_MEMORY_MERGE", known{0, low, 67})
	return "no memory is merged with that of the host's other processes: not by madvise or prctl"
}

// requeue: priority inheritance in requeued futexes, with and without
// FUTEX_PRIVATE_FLAG and FUTEX_CLOCK_REALTIME.
func (c *check) requeue() string {
	for _, op := range []uint64{11, 12} {
		for _, flags := range []uint64{0, 128, 256, 128 | 256} {
			c.neverWith("futex", fmt.Sprintf("operation %d", op|flags), known{1, low, op | flags})
		}
	}
	c.never([]string{"futex_requeue", "futex_wait", "futex_waitv"})
	return "futex never waits for or requeues to a lock with priority inheritance (CVE-2014-3153, CVE-2026-43499)"
}

// cpuClocks: timers on the time of processors. Negative clocks are those of
// other processes and threads, and of devices.
func (c *check) cpuClocks() string {
	for _, call := range []string{"timer_create", "clock_nanosleep"} {
		c.neverWith(call, "CLOCK_PROCESS_CPUTIME_ID", known{0, low, 2})
		c.neverWith(call, "CLOCK_THREAD_CPUTIME_ID", known{0, low, 3})
		c.neverWith(call, "a negative clock", known{0, 1 << 31, 1 << 31})
	}
	return "no timer runs on processor time (CVE-2025-38352)"
}

// buffers: the sizes of sockets' buffers stay the kernel's.
func (c *check) buffers() string {
	for _, option := range []uint64{7, 8, 32, 33} { // SO_SNDBUF, SO_RCVBUF, and with FORCE
		c.neverWith("setsockopt", fmt.Sprintf("option %d of SOL_SOCKET", option), known{1, low, 1},
			known{2, low, option})
	}
	return "no program changes the size of a socket's buffers"
}

// attributes: extended attributes would stay on the host's files.
func (c *check) attributes() string {
	c.never([]string{
		"setxattr", "lsetxattr", "fsetxattr", "setxattrat", "removexattr", "lremovexattr",
		"fremovexattr", "removexattrat",
	})
	return "no program sets or removes extended attributes"
}

// priorities: when and before whom a program runs stays the host's choice, but for
// nice values. Processors are not among these: profile server may choose them.
func (c *check) priorities() string {
	c.never([]string{"ioprio_set", "sched_setscheduler", "sched_setparam", "sched_setattr"})
	return "no program changes its scheduling policy or its priority of I/O"
}

// filterFlags: what a program's own filters may be, where it may load any.
func (c *check) filterFlags() string {
	const tsync, esrch = 1, 16
	check := func(flags, mask uint64) {
		c.neverWith("seccomp", fmt.Sprintf("flags %#x", flags), known{0, low, 1}, known{1, mask, flags})
	}
	for flags := range uint64(64) { // there are six (Linux 6.18)
		if flags&^(tsync|esrch) == 0 {
			continue
		}
		check(flags, low)
	}
	for bit := 6; bit < 32; bit++ {
		check(1<<bit, 1<<bit)
	}
	return "no filter of a program's own logs its refusals, has a listener or switches a mitigation off"
}

// noFilters: a kernel of Linux 6.9 or later stops when thousands of filters are
// freed at once.
func (c *check) noFilters() string {
	c.never([]string{"seccomp"})
	c.neverWith("prctl", "PR_SET_SECCOMP", known{0, low, 22})
	return "no program loads a seccomp filter of its own"
}
