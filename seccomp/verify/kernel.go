package verify

import (
	"fmt"

	"agentjail.dev/seccomp/bpf"
)

func (p *stack) ioUring() (Result, error) {
	against, err := p.never([]string{"io_uring_setup", "io_uring_enter", "io_uring_register"})
	if err != nil {
		return Result{}, err
	}
	return result("io_uring never passes", against)
}

// namespaces: no call that makes or enters a namespace. Each CLONE_NEW* bit by
// itself, all other bits unknown.
func (p *stack) namespaces() (Result, error) {
	against, err := p.never([]string{
		"unshare", "setns", "clone3", "pivot_root", "chroot", "mount", "umount2", "fsopen", "fsconfig", "fsmount",
		"fspick", "open_tree", "move_mount", "mount_setattr",
	})
	if err != nil {
		return Result{}, err
	}
	for _, bit := range []uint32{0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000} {
		more, err := p.never([]string{"clone"}, known{0, bit, bit})
		if err != nil {
			return Result{}, err
		}
		against = append(against, more...)
	}
	return result("no call makes or enters a namespace, mounts or changes the root", against)
}

// dangerousCalls have been ways into the kernel or out of containers, and no
// agent's work needs them.
var dangerousCalls = []string{
	"bpf", "perf_event_open", "userfaultfd", "keyctl", "add_key", "request_key", "kcmp",
	"process_madvise", "pidfd_getfd", "open_by_handle_at", "name_to_handle_at", "fanotify_init", "fanotify_mark", "init_module",
	"finit_module",
	"delete_module", "kexec_load", "kexec_file_load", "reboot", "swapon", "swapoff", "acct", "quotactl", "quotactl_fd",
	"iopl", "ioperm",
	"modify_ldt", "lookup_dcookie", "nfsservctl", "vhangup", "syslog", "settimeofday", "clock_settime", "clock_adjtime", "adjtimex",
	"sethostname",
	"setdomainname", "move_pages", "migrate_pages", "mbind", "set_mempolicy", "vmsplice", "splice", "tee", "io_setup", "io_submit",
	"uselib", "ustat", "sysfs", "_sysctl", "msgget", "semget", "mq_open", "memfd_secret", "remap_file_pages", "execveat",
	"io_destroy", "openat2",
	"mseal", "map_shadow_stack", "cachestat", "futex_waitv", "process_mrelease", "epoll_pwait2", "preadv2", "pwritev2",
}

func (p *stack) dangerous() (Result, error) {
	against, err := p.never(dangerousCalls)
	if err != nil {
		return Result{}, err
	}
	return result("no call of the list of dangerous and needless ones passes", against)
}

// families: every socket family but UNIX, INET, INET6 and NETLINK is refused,
// with anything in type, protocol and the high half of the family.
func (p *stack) families() (Result, error) {
	var against []string
	for family := range uint32(256) {
		if family == 1 || family == 2 || family == 10 || family == 16 {
			continue
		}
		for _, call := range []string{"socket", "socketpair"} {
			more, err := p.never([]string{call}, known{0, 0xffffffff, family})
			if err != nil {
				return Result{}, err
			}
			against = append(against, more...)
		}
	}
	for bit := 8; bit < 32; bit++ {
		more, err := p.never([]string{"socket", "socketpair"}, known{0, 1 << bit, 1 << bit})
		if err != nil {
			return Result{}, err
		}
		against = append(against, more...)
	}
	return result("no socket family but UNIX, INET, INET6 and NETLINK", against)
}

// raw: no raw or packet types over IP, no protocol but TCP and UDP, of netlink
// only ROUTE.
func (p *stack) raw() (Result, error) {
	var against []string
	check := func(with ...known) error {
		more, err := p.never([]string{"socket"}, with...)
		against = append(against, more...)
		return err
	}
	const typeBits = 0xf // the flags of type are all above
	for _, family := range []uint32{2, 10} {
		for typ := range uint32(16) {
			if typ == 1 || typ == 2 {
				continue
			}
			if err := check(known{0, ^uint32(0), family}, known{1, typeBits, typ}); err != nil {
				return Result{}, err
			}
		}
		for proto := range uint32(512) {
			if proto == 0 || proto == 6 || proto == 17 {
				continue
			}
			if err := check(known{0, ^uint32(0), family}, known{2, ^uint32(0), proto}); err != nil {
				return Result{}, err
			}
		}
	}
	for proto := uint32(1); proto < 64; proto++ {
		if err := check(known{0, ^uint32(0), 16}, known{2, ^uint32(0), proto}); err != nil {
			return Result{}, err
		}
	}
	return result("no raw sockets, no IP protocol but TCP and UDP (so no MPTCP, no SCTP), of netlink only ROUTE", against)
}

// setID: a set-id bit in a mode passes nowhere that it would be used.
func (p *stack) setID() (Result, error) {
	var against []string
	for _, bit := range []uint32{0o4000, 0o2000} {
		for _, c := range []struct {
			call string
			arg  int
		}{{"chmod", 1}, {"fchmod", 1}, {"fchmodat", 2}, {"fchmodat2", 2}, {"creat", 1}, {"mknod", 1}, {"mknodat", 2}} {
			more, err := p.never([]string{c.call}, known{c.arg, bit, bit})
			if err != nil {
				return Result{}, err
			}
			against = append(against, more...)
		}
		// The kernel looks at open's mode with O_CREAT or __O_TMPFILE.
		for _, flag := range []uint32{0o100, 0o20000000} {
			for call, arg := range map[string]int{"open": 1, "openat": 2} {
				more, err := p.never([]string{call}, known{arg, flag, flag}, known{arg + 1, bit, bit})
				if err != nil {
					return Result{}, err
				}
				against = append(against, more...)
			}
		}
	}
	for _, kind := range []uint32{0o020000, 0o060000} { // character and block devices
		for call, arg := range map[string]int{"mknod": 1, "mknodat": 2} {
			more, err := p.never([]string{call}, known{arg, 0o170000, kind})
			if err != nil {
				return Result{}, err
			}
			against = append(against, more...)
		}
	}
	return result("no set-id bit passes in a mode, no device node", against)
}

// terminal: ioctl requests that type into or take over terminals, change line
// disciplines or file attributes, or reach drivers.
func (p *stack) terminal() (Result, error) {
	var against []string
	for _, request := range []uint32{
		0x5412,             // TIOCSTI
		0x541c,             // TIOCLINUX
		0x541d,             // TIOCCONS
		0x5423,             // TIOCSETD
		0x5437,             // TIOCVHANGUP
		0x8946,             // SIOCETHTOOL
		0x40086602,         // FS_IOC_SETFLAGS
		0xc018937e,         // no request that exists: drivers' own numbers
		0x4004ae01, 0xae01, // KVM_CREATE_VM
	} {
		more, err := p.never([]string{"ioctl"}, known{1, ^uint32(0), request})
		if err != nil {
			return Result{}, err
		}
		against = append(against, more...)
	}
	return result("no ioctl types into a terminal, sets a line discipline or reaches a driver's own requests", against)
}

// options: kTLS, multicast joins, socket filters.
func (p *stack) options() (Result, error) {
	var against []string
	for _, o := range []struct{ level, option uint32 }{
		{6, 31}, {6, 14}, {6, 19}, // TCP_ULP, TCP_MD5SIG, TCP_REPAIR
		{0, 35}, {0, 39}, {0, 42}, {0, 46}, // IP_ADD_MEMBERSHIP, ..SOURCE.., MCAST_JOIN_*
		{0, 32}, {0, 4}, {0, 3}, // MULTICAST_IF, OPTIONS, HDRINCL
		{0, 64},                               // IPT_SO_SET_REPLACE
		{41, 1}, {41, 20}, {41, 42}, {41, 46}, // IPV6_ADDRFORM, ADD_MEMBERSHIP, MCAST_JOIN_*
		{1, 26}, {1, 50}, {1, 51}, {1, 52}, {1, 60}, {1, 61}, // SO_ATTACH_*, ZEROCOPY, TXTIME
	} {
		more, err := p.never([]string{"setsockopt"}, known{1, ^uint32(0), o.level}, known{2, ^uint32(0), o.option})
		if err != nil {
			return Result{}, err
		}
		against = append(against, more...)
	}
	for level := range uint32(512) {
		if level == 0 || level == 1 || level == 6 || level == 41 {
			continue
		}
		more, err := p.never([]string{"setsockopt"}, known{1, ^uint32(0), level}) // SOL_TLS is 282
		if err != nil {
			return Result{}, err
		}
		against = append(against, more...)
	}
	return result("setsockopt reaches no kTLS, no TCP_ULP, no multicast join, no socket filter", against)
}

func (p *stack) oob() (Result, error) {
	var against []string
	for call, arg := range map[string]int{"sendto": 3, "sendmsg": 2, "sendmmsg": 3, "recvfrom": 3, "recvmsg": 2, "recvmmsg": 3} {
		more, err := p.never([]string{call}, known{arg, 1, 1})
		if err != nil {
			return Result{}, err
		}
		against = append(against, more...)
	}
	return result("MSG_OOB passes neither in sending nor in receiving", against)
}

func (p *stack) prctl() (Result, error) {
	var against []string
	for _, option := range []uint32{
		35,     // PR_SET_MM
		28,     // PR_SET_SECUREBITS
		47,     // PR_CAP_AMBIENT
		24,     // PR_CAPBSET_DROP
		59,     // PR_SET_SYSCALL_USER_DISPATCH
		53, 62, // PR_SET_SPECULATION_CTRL, PR_SCHED_CORE
		31, 32, 33, 34, // PR_TASK_PERF_EVENTS_*, PR_MCE_KILL
	} {
		more, err := p.never([]string{"prctl"}, known{0, ^uint32(0), option})
		if err != nil {
			return Result{}, err
		}
		against = append(against, more...)
	}
	for _, bit := range []uint32{1, 2, 8, 0x20000, 0x40000, 0x400000} { // MMAP_PAGE_ZERO would be 0x100000
		more, err := p.never([]string{"personality"}, known{0, bit, bit}, known{0, 1 << 31, 0})
		if err != nil {
			return Result{}, err
		}
		against = append(against, more...)
	}
	return result("prctl and personality give no way to change memory maps, securebits or execution domains", against)
}

// highBits: no verdict of ALLOW depends on the high half of an argument. The
// kernel cuts int arguments to 32 bits, so a filter that looks at the high half
// can be dodged by setting it. Compared are the verdicts with the high halves
// known to be zero and known to have one bit set.
func (p *stack) highBits() (Result, error) {
	var against []string
	for nr := range uint32(numbers) {
		c := bpf.Call(p.audit, nr)
		zero := c
		for i := range zero.Args {
			zero = zero.With(i, 0xffffffff<<32, 0)
		}
		plain, err := p.passes(zero)
		if err != nil {
			return Result{}, err
		}
		for i := range c.Args {
			passes, err := p.passes(zeroBut(zero, i))
			if err != nil {
				return Result{}, err
			}
			if passes && !plain {
				against = append(against, fmt.Sprintf("number %d passes only with high bits in argument %d", nr, i))
			}
		}
	}
	return result("no call passes because of high bits in an argument", against)
}

// zeroBut sets the top bit of argument i's high half and leaves its others open.
func zeroBut(c bpf.Partial, i int) bpf.Partial {
	c.ArgMasks[i] &= 0xffffffff
	c.Args[i] &= 0xffffffff
	return c.With(i, 1<<63, 1<<63)
}
