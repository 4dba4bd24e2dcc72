package verify

import (
	"fmt"

	"agentjail.dev/seccomp/bpf"
)

func (c *check) ioUring() string {
	c.never([]string{"io_uring_setup", "io_uring_enter", "io_uring_register"})
	return "io_uring never passes"
}

// namespaces: no call that makes or enters a namespace. Each CLONE_NEW* bit by
// itself, all other bits unknown.
func (c *check) namespaces() string {
	c.never([]string{
		"unshare", "setns", "clone3", "pivot_root", "chroot", "mount", "umount2", "fsopen", "fsconfig", "fsmount",
		"fspick", "open_tree", "move_mount", "mount_setattr",
	})
	for _, bit := range []uint64{0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000} {
		c.never([]string{"clone"}, known{0, bit, bit})
	}
	return "no call makes or enters a namespace, mounts or changes the root"
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
	"fadvise64", "sync", "syncfs", "mlockall",
}

func (c *check) dangerous() string {
	c.never(dangerousCalls)
	return "no call of the list of dangerous and needless ones passes"
}

// families: every socket family but UNIX, INET, INET6 and NETLINK is refused,
// with anything in type, protocol and the high half of the family.
func (c *check) families() string {
	for family := range uint64(256) {
		if family == 1 || family == 2 || family == 10 || family == 16 {
			continue
		}
		c.never([]string{"socket", "socketpair"}, known{0, low, family})
	}
	for bit := 8; bit < 32; bit++ {
		c.never([]string{"socket", "socketpair"}, known{0, 1 << bit, 1 << bit})
	}
	return "no socket family but UNIX, INET, INET6 and NETLINK"
}

// raw: no raw or packet types over IP, no protocol but TCP and UDP, of netlink
// only ROUTE.
func (c *check) raw() string {
	socket := []string{"socket"}
	const typeBits = 0xf // the flags of type are all above
	for _, family := range []uint64{2, 10} {
		for typ := range uint64(16) {
			if typ == 1 || typ == 2 {
				continue
			}
			c.never(socket, known{0, low, family}, known{1, typeBits, typ})
		}
		for proto := range uint64(512) {
			if proto == 0 || proto == 6 || proto == 17 {
				continue
			}
			c.never(socket, known{0, low, family}, known{2, low, proto})
		}
	}
	for proto := uint64(1); proto < 64; proto++ {
		c.never(socket, known{0, low, 16}, known{2, low, proto})
	}
	return "no raw sockets, no IP protocol but TCP and UDP (so no MPTCP, no SCTP), of netlink only ROUTE"
}

// setID: a set-id bit in a mode passes nowhere that it would be used; the set-group-ID bit only in
// the variant for it.
func (c *check) setID() string {
	bits, claim := []uint64{0o4000, 0o2000}, "no set-id bit passes in a mode, no device node"
	if c.setGID {
		bits, claim = bits[:1], "no set-user-ID bit passes in a mode, no device node"
	}
	for _, bit := range bits {
		c.never([]string{"chmod", "fchmod", "creat", "mknod"}, known{1, bit, bit})
		c.never([]string{"fchmodat", "fchmodat2", "mknodat"}, known{2, bit, bit})
		// The kernel looks at open's mode with O_CREAT or __O_TMPFILE.
		for _, flag := range []uint64{0o100, 0o20000000} {
			c.never([]string{"open"}, known{1, flag, flag}, known{2, bit, bit})
			c.never([]string{"openat"}, known{2, flag, flag}, known{3, bit, bit})
		}
	}
	for _, kind := range []uint64{0o020000, 0o060000} { // character and block devices
		c.never([]string{"mknod"}, known{1, 0o170000, kind})
		c.never([]string{"mknodat"}, known{2, 0o170000, kind})
	}
	return claim
}

// terminal: ioctl requests that type into or take over terminals, change line
// disciplines or file attributes, or reach drivers.
func (c *check) terminal() string {
	for _, request := range []uint64{
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
		c.never([]string{"ioctl"}, known{1, low, request})
	}
	return "no ioctl types into a terminal, sets a line discipline or reaches a driver's own requests"
}

// options: kTLS, multicast joins, socket filters.
func (c *check) options() string {
	for _, o := range []struct{ level, option uint64 }{
		{6, 31}, {6, 14}, {6, 19}, // TCP_ULP, TCP_MD5SIG, TCP_REPAIR
		{0, 4}, {0, 3}, {0, 5}, // OPTIONS, HDRINCL, ROUTER_ALERT
		{0, 64},                                         // IPT_SO_SET_REPLACE
		{41, 1}, {41, 20}, {41, 21}, {41, 27}, {41, 28}, // IPV6_ADDRFORM, memberships, anycast
		{1, 25}, {1, 62}, // SO_BINDTODEVICE, SO_BINDTOIFINDEX
		{1, 26}, {1, 50}, {1, 51}, {1, 52}, {1, 60}, {1, 61}, // SO_ATTACH_*, ZEROCOPY, TXTIME
	} {
		c.never([]string{"setsockopt"}, known{1, low, o.level}, known{2, low, o.option})
	}
	for option := uint64(35); option <= 48; option++ { // IP_ADD_MEMBERSHIP to IP_MSFILTER, MCAST_*
		c.never([]string{"setsockopt"}, known{1, low, 0}, known{2, low, option})
		if option >= 42 {
			c.never([]string{"setsockopt"}, known{1, low, 41}, known{2, low, option})
		}
	}
	for level := range uint64(512) {
		if level == 0 || level == 1 || level == 6 || level == 41 {
			continue
		}
		c.never([]string{"setsockopt"}, known{1, low, level}) // SOL_TLS is 282
	}
	return "setsockopt reaches no kTLS, no TCP_ULP, no multicast join, no interface, no socket filter"
}

func (c *check) oob() string {
	c.never([]string{"sendmsg", "recvmsg"}, known{2, 1, 1})
	c.never([]string{"sendto", "sendmmsg", "recvfrom", "recvmmsg"}, known{3, 1, 1})
	return "MSG_OOB passes neither in sending nor in receiving"
}

func (c *check) prctl() string {
	for _, option := range []uint64{
		35,     // PR_SET_MM
		28,     // PR_SET_SECUREBITS
		47,     // PR_CAP_AMBIENT
		24,     // PR_CAPBSET_DROP
		59,     // PR_SET_SYSCALL_USER_DISPATCH
		53, 62, // PR_SET_SPECULATION_CTRL, PR_SCHED_CORE
		31, 32, 33, 34, // PR_TASK_PERF_EVENTS_*, PR_MCE_KILL
	} {
		c.never([]string{"prctl"}, known{0, low, option})
	}
	c.never([]string{"personality"})
	return "prctl and personality give no way to change memory maps, securebits or execution domains"
}

// highBits: no verdict of ALLOW depends on the high half of an argument. The
// kernel cuts int arguments to 32 bits, so a filter that looks at the high half
// can be dodged by setting it. Compared are the verdicts with the high halves
// known to be zero and known to have one bit set.
func (c *check) highBits() string {
	for nr := range uint32(numbers) {
		zero := bpf.Call(c.audit, nr)
		for i := range zero.Args {
			zero = zero.With(i, low<<32, 0)
		}
		plain := c.may(nr, zero)
		for i := range zero.Args {
			if c.may(nr, zeroBut(zero, i)) && !plain {
				c.against = append(c.against, fmt.Sprintf("number %d passes only with high bits in argument %d", nr, i))
			}
		}
	}
	return "no call passes because of high bits in an argument"
}

// zeroBut sets the top bit of argument i's high half and leaves its others open.
func zeroBut(c bpf.Partial, i int) bpf.Partial {
	c.ArgMasks[i] &= low
	c.Args[i] &= low
	return c.With(i, 1<<63, 1<<63)
}
