package main

import (
	"errors"
	"maps"
	"os"

	"golang.org/x/sys/unix"
)

// Tries whose calls ordinary work makes with other arguments: the filter looks at those.
func init() {
	maps.Copy(tries, map[string]func() error{
		"hugetlb_mmap": func() error {
			// Not touched, so that a machine with such pages keeps them.
			_, err := unix.Mmap(-1, 0, 2<<20, unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_HUGETLB|unix.MAP_NORESERVE)
			return err
		},
		"hugetlb_memfd":          func() error { _, err := unix.MemfdCreate("probe", unix.MFD_HUGETLB); return err },
		"merge_madvise":          merge,
		"merge_prctl":            func() error { return unix.Prctl(unix.PR_SET_MEMORY_MERGE, 1, 0, 0, 0) },
		"futex_wait_requeue_pi":  futexOf(11),
		"futex_cmp_requeue_pi":   futexOf(12 | 128),
		"futex_requeue_pi_clock": futexOf(11 | 128 | 256),
		"timer_thread_cpu":       timerOn(unix.CLOCK_THREAD_CPUTIME_ID),
		"timer_process_cpu":      timerOn(unix.CLOCK_PROCESS_CPUTIME_ID),
		"timer_other_cpu":        timerOn(int32(^os.Getpid()<<3 | 2)), // MAKE_PROCESS_CPUCLOCK(pid, CPUCLOCK_SCHED)
		"sleep_process_cpu": func() error {
			t := unix.Timespec{Nsec: 1}
			return sys(unix.SYS_CLOCK_NANOSLEEP, unix.CLOCK_PROCESS_CPUTIME_ID, 0, ptr(&t), 0, 0, 0)
		},
		"core_limit":  coreLimit,
		"buffer_size": bufferSize,
		"fsetxattr_user": func() error {
			fd, err := unix.Open("/tmp/probe-attribute", unix.O_CREAT|unix.O_WRONLY, 0o600)
			if err != nil {
				return err
			}
			return unix.Fsetxattr(fd, "user.overlay.opaque", []byte("y"), 0)
		},
		// No program is given: EFAULT when the kernel's code is reached.
		"filter_seccomp": func() error { return sys(unix.SYS_SECCOMP, 1, 0, 0, 0, 0, 0) },
		"filter_prctl":   func() error { return unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, 0, 0, 0) },
		"socket_filter": func() error {
			fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
			if err != nil {
				return err
			}
			allow := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: 1}
			return unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: 1, Filter: &allow})
		},
	})
}

// merge has a page merged with such of other processes.
func merge() error {
	page, err := unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return err
	}
	return unix.Madvise(page, unix.MADV_MERGEABLE)
}

// futexOf calls an operation on a word that holds another value than expected, so that it returns at once.
func futexOf(op uintptr) func() error {
	return func() error {
		var word, other uint32 = 1, 1
		timeout := unix.Timespec{}
		return sys(unix.SYS_FUTEX, ptr(&word), op, 2, ptr(&timeout), ptr(&other), 2)
	}
}

// timerOn makes a timer that is never set.
func timerOn(clock int32) func() error {
	return func() error {
		var id int32
		return sys(unix.SYS_TIMER_CREATE, uintptr(clock), 0, ptr(&id), 0, 0, 0)
	}
}

// changed is EPERM where a call answered success and changed nothing.
func changed(yes bool) error {
	if yes {
		return nil
	}
	return unix.EPERM
}

// coreLimit lowers the limit on core files, as `ulimit -c 0` does.
func coreLimit() error {
	var was, is unix.Rlimit
	if err := unix.Prlimit(0, unix.RLIMIT_CORE, nil, &was); err != nil {
		return err
	}
	if was.Cur == 0 {
		return errors.New("the limit is 0 already, with which the host's core handler runs")
	}
	if err := unix.Prlimit(0, unix.RLIMIT_CORE, &unix.Rlimit{Max: was.Max}, nil); err != nil {
		return err
	}
	if err := unix.Prlimit(0, unix.RLIMIT_CORE, nil, &is); err != nil {
		return err
	}
	return changed(is != was)
}

// bufferSize makes a socket's buffer larger.
func bufferSize() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	was, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF)
	if err != nil {
		return err
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, was/4); err != nil {
		return err
	}
	is, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF)
	if err != nil {
		return err
	}
	return changed(is != was)
}
