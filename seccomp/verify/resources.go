package verify

import "fmt"

// wide is what is known of a whole argument.
type wide struct {
	arg         int
	mask, value uint64
}

// neverWide reports whether calls with these arguments pass nowhere.
func (p *stack) neverWide(name, what string, with ...wide) ([]string, error) {
	c, ok := p.call(name)
	if !ok {
		return nil, nil
	}
	for _, k := range with {
		c = c.With(k.arg, k.mask, k.value)
	}
	passes, err := p.passes(c)
	if err != nil {
		return nil, fmt.Errorf("exploring %s: %w", name, err)
	}
	if passes {
		return []string{name + " passes with " + what}, nil
	}
	return nil, nil
}

// int32s is all of an argument that the kernel reads as an int.
const int32s = 1<<32 - 1

// coreLimit: setting RLIMIT_CORE never reaches the kernel. Each bit that makes
// the pointer to the new limit one, in turn.
func (p *stack) coreLimit() (Result, error) {
	against, err := p.neverWide("setrlimit", "RLIMIT_CORE", wide{0, int32s, 4})
	if err != nil {
		return Result{}, err
	}
	for bit := range 64 {
		more, err := p.neverWide("prlimit64", fmt.Sprintf("a new RLIMIT_CORE, bit %d of its address set", bit), wide{1, int32s, 4},
			wide{2, 1 << bit, 1 << bit})
		if err != nil {
			return Result{}, err
		}
		against = append(against, more...)
	}
	return result("RLIMIT_CORE, which keeps the host's core handler from running, is set by no program", against)
}

// hugePages: none of the reserved pool.
func (p *stack) hugePages() (Result, error) {
	var against []string
	for _, c := range []struct {
		call string
		arg  int
		flag uint64
	}{{"mmap", 3, 0x40000}, {"memfd_create", 1, 4}, {"shmget", 2, 0o4000}} {
		more, err := p.neverWide(c.call, "its flag for huge pages", wide{c.arg, c.flag, c.flag})
		if err != nil {
			return Result{}, err
		}
		against = append(against, more...)
	}
	return result("no huge pages of the host's reserved pool: not by mmap, memfd_create or shmget", against)
}

// merging: no page is merged with one of another process of the host.
func (p *stack) merging() (Result, error) {
	against, err := p.neverWide("madvise", "MADV_MERGEABLE", wide{2, int32s, 12})
	if err != nil {
		return Result{}, err
	}
	more, err := p.neverWide("prctl", "PR_SET_MEMORY_MERGE", wide{0, int32s, 67})
	if err != nil {
		return Result{}, err
	}
	return result("no memory is merged with that of the host's other processes: not by madvise or prctl", append(against, more...))
}

// requeue: priority inheritance in requeued futexes, with and without
// FUTEX_PRIVATE_FLAG and FUTEX_CLOCK_REALTIME.
func (p *stack) requeue() (Result, error) {
	var against []string
	for _, op := range []uint64{11, 12} {
		for _, flags := range []uint64{0, 128, 256, 128 | 256} {
			more, err := p.neverWide("futex", fmt.Sprintf("operation %d", op|flags), wide{1, int32s, op | flags})
			if err != nil {
				return Result{}, err
			}
			against = append(against, more...)
		}
	}
	more, err := p.never([]string{"futex_requeue", "futex_wait", "futex_waitv"})
	if err != nil {
		return Result{}, err
	}
	return result("futex never waits for or requeues to a lock with priority inheritance (CVE-2014-3153, CVE-2026-43499)", append(against, more...))
}

// cpuClocks: timers on the time of processors. Negative clocks are those of
// other processes and threads, and of devices.
func (p *stack) cpuClocks() (Result, error) {
	var against []string
	for _, call := range []string{"timer_create", "clock_nanosleep"} {
		for _, c := range []struct {
			what  string
			clock wide
		}{
			{"CLOCK_PROCESS_CPUTIME_ID", wide{0, int32s, 2}},
			{"CLOCK_THREAD_CPUTIME_ID", wide{0, int32s, 3}},
			{"a negative clock", wide{0, 1 << 31, 1 << 31}},
		} {
			more, err := p.neverWide(call, c.what, c.clock)
			if err != nil {
				return Result{}, err
			}
			against = append(against, more...)
		}
	}
	return result("no timer runs on processor time (CVE-2025-38352)", against)
}

// buffers: the sizes of sockets' buffers stay the kernel's.
func (p *stack) buffers() (Result, error) {
	var against []string
	for _, option := range []uint64{7, 8, 32, 33} { // SO_SNDBUF, SO_RCVBUF, and with FORCE
		more, err := p.neverWide("setsockopt", fmt.Sprintf("option %d of SOL_SOCKET", option), wide{1, int32s, 1},
			wide{2, int32s, option})
		if err != nil {
			return Result{}, err
		}
		against = append(against, more...)
	}
	return result("no program changes the size of a socket's buffers", against)
}

// attributes: extended attributes would stay on the host's files.
func (p *stack) attributes() (Result, error) {
	against, err := p.never([]string{
		"setxattr", "lsetxattr", "fsetxattr", "setxattrat", "removexattr", "lremovexattr",
		"fremovexattr", "removexattrat",
	})
	if err != nil {
		return Result{}, err
	}
	return result("no program sets or removes extended attributes", against)
}

// priorities: when and before whom a program runs stays the host's choice, but for
// nice values. Processors are not among these: profile server may choose them.
func (p *stack) priorities() (Result, error) {
	against, err := p.never([]string{"ioprio_set", "sched_setscheduler", "sched_setparam", "sched_setattr"})
	if err != nil {
		return Result{}, err
	}
	return result("no program changes its scheduling policy or its priority of I/O", against)
}

// filterFlags: what a program's own filters may be, where it may load any.
func (p *stack) filterFlags() (Result, error) {
	const tsync, esrch = 1, 16
	var against []string
	check := func(flags, mask uint64) error {
		more, err := p.neverWide("seccomp", fmt.Sprintf("flags %#x", flags), wide{0, int32s, 1}, wide{1, mask, flags})
		against = append(against, more...)
		return err
	}
	for flags := range uint64(64) { // there are six (Linux 6.18)
		if flags&^(tsync|esrch) == 0 {
			continue
		}
		if err := check(flags, int32s); err != nil {
			return Result{}, err
		}
	}
	for bit := 6; bit < 32; bit++ {
		if err := check(1<<bit, 1<<bit); err != nil {
			return Result{}, err
		}
	}
	return result("no filter of a program's own logs its refusals, has a listener or switches a mitigation off", against)
}

// noFilters: a kernel of Linux 6.9 or later stops when thousands of filters are
// freed at once.
func (p *stack) noFilters() (Result, error) {
	against, err := p.never([]string{"seccomp"})
	if err != nil {
		return Result{}, err
	}
	more, err := p.neverWide("prctl", "PR_SET_SECCOMP", wide{0, int32s, 22})
	if err != nil {
		return Result{}, err
	}
	return result("no program loads a seccomp filter of its own", append(against, more...))
}
