package seccomp

import (
	"math"
	"strings"

	"golang.org/x/sys/unix"
)

// cond is one comparison on one syscall argument. All but null compare the low
// 32 bits only: the kernel truncates int arguments to 32 bits, so a 64-bit
// comparison could be dodged by setting a high bit.
type cond struct {
	arg   uint
	mask  uint64
	value uint64
}

// verdict is what an argument rule answers where it refuses.
type verdict struct {
	// conds of one refusing rule; empty means everything that no allowing
	// rule matched.
	conds []cond
	// errno is what the program sees. With 0 it sees success, and nothing was
	// done (seccomp(2), SECCOMP_RET_ERRNO with a data field of 0).
	errno uint
	// soft refusals are such as ordinary programs meet on probing: they are
	// answered even where violations end the process.
	soft bool
}

// argRule is a named argument rule: the call is allowed when all conditions of one of allow hold.
// refuse picks the errno that programs expect where it is refused; it never widens allow.
type argRule struct {
	text   string // for people: what passes
	why    string // for people: what the rest is refused for
	allow  [][]cond
	refuse []verdict
}

// low compares all 32 low bits of an argument.
func low(arg uint, value uint32) cond { return cond{arg, 0xffffffff, uint64(value)} }

// field compares the bits of mask of an argument.
func field(arg uint, mask, value uint32) cond { return cond{arg, uint64(mask), uint64(value)} }

// null is a null pointer. A pointer is read whole: one whose low
// half is 0 can be mapped.
func null(arg uint) cond { return cond{arg, math.MaxUint64, 0} }

// Constants of the Linux ABI. They are the same on x86_64 and arm64 (checked
// against the kernel's uapi headers; O_* with bits below 0o200000 and
// __O_TMPFILE's own bit are equal on both) and are written out since the
// filter for one architecture may be rendered on another.
const (
	setID  = 0o6000 // S_ISUID | S_ISGID
	setUID = 0o4000

	openCreates = 0o100 | 0o20000000 // O_CREAT | __O_TMPFILE: only these make the kernel read mode

	afUnix    = 1
	afInet    = 2
	afNetlink = 16

	sockStream = 1
	sockDgram  = 2
	sockRaw    = 3

	// SOCK_NONBLOCK and SOCK_CLOEXEC may be or-ed into a socket's type.
	sockTypeMask = 0xffffffff &^ (0o4000 | 0o2000000)

	netlinkSockDiag = 4
	netlinkAudit    = 9

	protoTCP   = 6
	protoUDP   = 17
	protoMPTCP = 262

	msgOOB = 1

	soSndbuf = 7
	soRcvbuf = 8

	solIP     = 0
	solSocket = 1
	solTCP    = 6
	solIPv6   = 41

	// newNamespaces is every CLONE_NEW* flag that clone accepts: NEWNS,
	// NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET. CLONE_NEWTIME lies
	// in clone's signal byte and exists only for clone3 and unshare.
	newNamespaces = 0x7e020000
)

// Errno values of the generic Linux ABI (x86_64 and arm64 agree), written out
// so that rendering does not depend on the building platform.
const (
	ePERM           = 1
	eIO             = 5
	eNOMEM          = 12
	eINVAL          = 22
	eNOTTY          = 25
	eNOSYS          = 38
	eNOPROTOOPT     = 92
	ePROTONOSUPPORT = 93
	eOPNOTSUPP      = 95
	eAFNOSUPPORT    = 97
)

// otherwise answers errno for everything that no allowing rule matched.
func otherwise(errno uint) []verdict { return []verdict{{errno: errno}} }

// softly is otherwise for calls that programs probe with.
func softly(errno uint) []verdict { return []verdict{{errno: errno, soft: true}} }

// ruleOf returns the named argument rule. It is a function and not a map so that a program that
// never calls it pays nothing at start.
func ruleOf(name string) (argRule, bool) {
	if r, ok := modeRuleOf(name); ok {
		return r, true
	}
	switch name {
	case "clone":
		return argRule{
			text:   "no CLONE_NEW* flag",
			why:    "a namespace of one's own opens most of the kernel that exploits need",
			allow:  [][]cond{{field(0, newNamespaces, 0)}},
			refuse: otherwise(ePERM),
		}, true
	case "socket":
		return socketRule(), true
	case "socketpair":
		return argRule{
			text: "AF_UNIX stream, datagram and seqpacket",
			why:  "no other family has pairs that programs use",
			allow: [][]cond{
				{low(0, afUnix), field(1, sockTypeMask&^4, sockStream)}, // 1 and 5
				{low(0, afUnix), field(1, sockTypeMask, sockDgram)},
			},
			refuse: otherwise(eOPNOTSUPP),
		}, true
	case "setsockopt":
		return setsockoptRule(), true
	case "sendto", "recvfrom", "sendmmsg":
		return oobRule(3), true
	case "sendmsg", "recvmsg":
		return oobRule(2), true
	case "ioctl":
		return ioctlRule(), true
	case "fcntl":
		return fcntlRule(), true
	case "prctl":
		return prctlRule(false), true
	case "prctl-filters":
		return prctlRule(true), true
	case "prctl-debug":
		return prctlDebugRule(false), true
	case "prctl-entry":
		return prctlDebugRule(true), true // all that any profile has
	case "personality":
		return personalityRule(), true
	case "ptrace":
		return traceRule(), true
	}
	return resourceRuleOf(name)
}

// modeRuleOf returns the argument rules about modes of files. With SetGID at the end of the name,
// only the set-user-ID bit is refused.
func modeRuleOf(name string) (argRule, bool) {
	name, variant := strings.CutSuffix(name, SetGID)
	bits := refusedBits{setID, "set-id bits"}
	if variant {
		bits = refusedBits{setUID, "set-user-ID bit"}
	}
	switch name {
	case "open":
		return bits.openRule(1, 2), true
	case "openat":
		return bits.openRule(2, 3), true
	case "creat", "chmod", "fchmod":
		return bits.modeRule(1), true
	case "fchmodat":
		return bits.modeRule(2), true
	case "mknod":
		return bits.nodRule(1), true
	case "mknodat":
		return bits.nodRule(2), true
	}
	return argRule{}, false
}

// refusedBits are the bits of a mode that never pass, and their name.
type refusedBits struct {
	mask uint32
	name string
}

// setIDWhy is what modes are looked at for.
const setIDWhy = "on the host a mounted set-id file runs as its owner"

// openRule refuses set-id bits in the mode of a file that open creates.
// Without O_CREAT or O_TMPFILE the kernel ignores mode, and callers that use
// the raw syscall (sanitizers, jemalloc) leave a random register there.
func (b refusedBits) openRule(flags, mode uint) argRule {
	return argRule{
		text: "no " + b.name + " in mode",
		why:  setIDWhy,
		allow: [][]cond{
			{field(mode, b.mask, 0)},
			{field(flags, openCreates, 0)},
		},
		refuse: otherwise(ePERM),
	}
}

// modeRule refuses set-id bits: a set-id file left in a mounted directory would
// run with the directory owner's ids on the host.
func (b refusedBits) modeRule(mode uint) argRule {
	return argRule{
		text:   "no " + b.name + " in mode",
		why:    setIDWhy,
		allow:  [][]cond{{field(mode, b.mask, 0)}},
		refuse: otherwise(ePERM),
	}
}

// nodRule leaves regular files, fifos and sockets; devices and overlay
// white-outs (character device 0:0, which needs no capability) go.
func (b refusedBits) nodRule(mode uint) argRule {
	const sIFMT, sIFIFO, sIFREG, sIFSOCK = 0o170000, 0o010000, 0o100000, 0o140000
	return argRule{
		text: "regular files, fifos, sockets; no " + b.name,
		why:  "devices and white-outs of overlays; " + setIDWhy,
		allow: [][]cond{
			{field(mode, sIFMT&^sIFREG|b.mask, 0)}, // S_IFREG, or 0 which means the same
			{field(mode, sIFMT|b.mask, sIFIFO)},
			{field(mode, sIFMT|b.mask, sIFSOCK)},
		},
		refuse: otherwise(ePERM),
	}
}

// oobRule refuses MSG_OOB: urgent data on AF_UNIX was behind CVE-2025-38236
// and earlier use-after-frees, and next to nothing sends it.
func oobRule(flags uint) argRule {
	return argRule{
		text:   "no MSG_OOB",
		why:    "urgent data on unix sockets: CVE-2025-38236",
		allow:  [][]cond{{field(flags, msgOOB, 0)}},
		refuse: []verdict{{conds: []cond{field(flags, msgOOB, msgOOB)}, errno: eOPNOTSUPP}},
	}
}

func socketRule() argRule {
	const afIPMask = 0xffffffff &^ 8 // AF_INET is 2, AF_INET6 is 10
	return argRule{
		text: "unix; TCP and UDP over IPv4 and IPv6; netlink ROUTE",
		why:  "other families and protocols were behind most exploits that need no namespace",
		allow: [][]cond{
			{low(0, afUnix), field(1, sockTypeMask&^4, sockStream)}, // stream 1, seqpacket 5
			{low(0, afUnix), field(1, sockTypeMask, sockDgram)},
			{field(0, afIPMask, afInet), field(1, sockTypeMask, sockStream), low(2, 0)},
			{field(0, afIPMask, afInet), field(1, sockTypeMask, sockStream), low(2, protoTCP)},
			{field(0, afIPMask, afInet), field(1, sockTypeMask, sockDgram), low(2, 0)},
			{field(0, afIPMask, afInet), field(1, sockTypeMask, sockDgram), low(2, protoUDP)},
			// getifaddrs in glibc, musl, node and go: datagram 2 or raw 3, protocol ROUTE.
			{low(0, afNetlink), field(1, sockTypeMask&^1, sockDgram), low(2, 0)},
		},
		refuse: []verdict{
			// Go tries MPTCP for every listener and takes only this errno (or EINVAL) for "not
			// there".
			{
				conds: []cond{field(0, afIPMask, afInet), field(1, sockTypeMask, sockStream), low(2, protoMPTCP)}, errno: ePROTONOSUPPORT,
				soft: true,
			},
			{conds: []cond{field(0, afIPMask, afInet), field(1, sockTypeMask, sockRaw)}, errno: ePERM},
			// PAM requests audit and ss for socket diagnosis; both take this as "not in this
			// kernel".
			{conds: []cond{low(0, afNetlink), low(2, netlinkAudit)}, errno: ePROTONOSUPPORT, soft: true},
			{conds: []cond{low(0, afNetlink), low(2, netlinkSockDiag)}, errno: ePROTONOSUPPORT, soft: true},
			{errno: eAFNOSUPPORT},
		},
	}
}

// setsockoptRule lists the options that ordinary clients and servers set, and all with which a
// sender chooses hops, copies and interface of multicasts: these set numbers of the socket alone
// (do_ip_setsockopt, do_ipv6_setsockopt), and sendmsg's IP_PKTINFO chooses an interface as well.
// Not in it: TCP_ULP (31) and SOL_TLS (282), IPV6_ADDRFORM, IP_OPTIONS, socket filters
// (SO_ATTACH_*), SO_ZEROCOPY, SO_TXTIME. Multicast joins allocate memory that no control group
// counts, under a lock of all network namespaces (ip_mc_join_group: rtnl). SO_BINDTODEVICE makes
// TCP reach addresses to which no route leads.
//
// SO_SNDBUF and SO_RCVBUF answer success and change nothing: buffers of sockets
// are kernel memory that control groups of version 1 do not count, and programs
// end where the call fails.
func setsockoptRule() argRule {
	r := argRule{
		text: "ordinary options of SOL_SOCKET, TCP, IP and IPv6; sizes of buffers are accepted and not changed",
		why:  "kernel TLS, multicast joins and socket filters; version 1 of control groups counts no buffers",
		refuse: []verdict{
			{conds: []cond{low(1, solSocket), low(2, soSndbuf)}, soft: true},
			{conds: []cond{low(1, solSocket), low(2, soRcvbuf)}, soft: true},
			{errno: eNOPROTOOPT, soft: true},
		},
	}
	add := func(level uint32, masks ...cond) {
		for _, m := range masks {
			r.allow = append(r.allow, []cond{low(1, level), m})
		}
	}
	add(solSocket,
		field(2, 0xffffffff&^3, 0), // DEBUG, REUSEADDR, TYPE
		field(2, 0xffffffff&^1, 4), // ERROR, DONTROUTE
		low(2, unix.SO_BROADCAST),
		field(2, 0xffffffff&^1, 10), // OOBINLINE, NO_CHECK
		low(2, unix.SO_KEEPALIVE),
		field(2, 0xffffffff&^3, 12), // PRIORITY, LINGER, BSDCOMPAT, REUSEPORT
		low(2, unix.SO_PASSCRED),
		field(2, 0xffffffff&^1, 18), // RCVLOWAT, SNDLOWAT
		field(2, 0xffffffff&^1, 20), // RCVTIMEO, SNDTIMEO
		low(2, unix.SO_TIMESTAMP),
	)
	add(solTCP,
		field(2, 0xffffffff&^7, 0),  // NODELAY, MAXSEG, CORK, KEEPIDLE, KEEPINTVL, KEEPCNT, SYNCNT
		field(2, 0xffffffff&^3, 8),  // LINGER2, DEFER_ACCEPT, WINDOW_CLAMP, INFO
		field(2, 0xffffffff&^1, 12), // QUICKACK, CONGESTION
		low(2, unix.TCP_USER_TIMEOUT),
		low(2, unix.TCP_FASTOPEN),
		low(2, unix.TCP_NOTSENT_LOWAT),
		low(2, unix.TCP_FASTOPEN_CONNECT),
	)
	add(solIP,
		field(2, 0xffffffff&^1, 0), // TOS
		low(2, unix.IP_TTL),
		low(2, unix.IP_PKTINFO),
		field(2, 0xffffffff&^1, 10), // MTU_DISCOVER, RECVERR
		field(2, 0xffffffff&^1, 12), // RECVTTL, RECVTOS
		low(2, unix.IP_FREEBIND),
		low(2, unix.IP_BIND_ADDRESS_NO_PORT),
		field(2, 0xffffffff&^1, 32), // MULTICAST_IF, MULTICAST_TTL
		low(2, unix.IP_MULTICAST_LOOP),
		low(2, unix.IP_MULTICAST_ALL),
		low(2, unix.IP_UNICAST_IF),
	)
	add(solIPv6,
		field(2, 0xffffffff&^3, 16), // UNICAST_HOPS, MULTICAST_IF, MULTICAST_HOPS, MULTICAST_LOOP
		low(2, unix.IPV6_MULTICAST_ALL),
		low(2, unix.IPV6_UNICAST_IF),
		low(2, unix.IPV6_MTU_DISCOVER),
		low(2, unix.IPV6_RECVERR),
		low(2, unix.IPV6_V6ONLY),
		low(2, unix.IPV6_RECVPKTINFO),
		low(2, unix.IPV6_RECVHOPLIMIT),
		low(2, unix.IPV6_DONTFRAG),
		field(2, 0xffffffff&^1, 66), // RECVTCLASS, TCLASS
	)
	return r
}

// ioctlRule is an allowlist of requests. Not in it, among others: TIOCSTI and
// TIOCLINUX (typing into the terminal's input), TIOCSETD (line disciplines),
// TIOCCONS, SIOCETHTOOL, FS_IOC_SETFLAGS, every device's own requests.
func ioctlRule() argRule {
	r := argRule{
		text:   "terminal, pty, FIO*, interface look-ups, FICLONE, FS_IOC_GETFLAGS",
		why:    "TIOCSTI and TIOCLINUX type into a terminal; each driver has requests of its own",
		refuse: softly(eNOTTY),
	}
	for _, m := range []cond{
		field(1, 0xffffffff&^15, 0x5400), // TCGETS .. TIOCGPGRP
		field(1, 0xffffffff&^1, 0x5410),  // TIOCSPGRP, TIOCOUTQ
		low(1, unix.TIOCGWINSZ),
		low(1, unix.TIOCSWINSZ),
		low(1, 0x541b),                  // FIONREAD
		field(1, 0xffffffff&^1, 0x5420), // TIOCPKT, FIONBIO
		low(1, unix.TIOCNOTTY),
		field(1, 0xffffffff&^1, 0x5424), // TIOCGETD, TCSBRKP
		low(1, unix.TIOCGSID),
		low(1, unix.TCGETS2),
		low(1, unix.TCSETS2),
		field(1, 0xffffffff&^1, 0x402c542c), // TCSETSW2, TCSETSF2
		low(1, unix.TIOCGPTN),
		low(1, unix.TIOCSPTLCK),
		low(1, unix.TIOCGPTLCK),
		low(1, unix.TIOCGPTPEER),
		field(1, 0xffffffff&^1, 0x5450), // FIONCLEX, FIOCLEX
		low(1, 0x5452),                  // FIOASYNC
		low(1, unix.SIOCGIFNAME),
		field(1, 0xffffffff&^1, 0x8912), // SIOCGIFCONF, SIOCGIFFLAGS
		low(1, unix.SIOCGIFADDR),
		low(1, unix.SIOCGIFBRDADDR),
		low(1, unix.SIOCGIFNETMASK),
		low(1, unix.SIOCGIFMTU),
		low(1, unix.SIOCGIFHWADDR),
		low(1, unix.SIOCGIFINDEX),
		low(1, unix.SIOCGIFTXQLEN),
		low(1, unix.FICLONE),
		low(1, unix.FS_IOC_GETFLAGS),
	} {
		r.allow = append(r.allow, []cond{m})
	}
	return r
}

func fcntlRule() argRule {
	return argRule{
		text: "descriptor flags, record locks, owners, pipe sizes, seals; no leases, no dnotify",
		why:  "leases stop other processes' opens",
		allow: [][]cond{
			{field(1, 0xffffffff&^7, 0)},    // DUPFD GETFD SETFD GETFL SETFL GETLK SETLK SETLKW
			{field(1, 0xffffffff&^3, 8)},    // SETOWN GETOWN SETSIG GETSIG
			{field(1, 0xffffffff&^3, 36)},   // OFD_GETLK OFD_SETLK OFD_SETLKW
			{field(1, 0xffffffff&^1, 1030)}, // DUPFD_CLOEXEC, SETPIPE_SZ
			{field(1, 0xffffffff&^3, 1032)}, // GETPIPE_SZ ADD_SEALS GET_SEALS
		},
		refuse: softly(eINVAL),
	}
}

// prctlRule leaves what libc, runtimes and inner sandboxes use. Not in it:
// PR_SET_MM, PR_SET_SECUREBITS, PR_SET_SYSCALL_USER_DISPATCH, PR_SET_PTRACER,
// PR_CAP_AMBIENT, speculation and core scheduling controls, and without filters
// PR_SET_SECCOMP. EINVAL is what a kernel without filters answers to that:
// libseccomp, systemd, man-db, OpenSSH and browsers then go on without.
func prctlRule(filters bool) argRule {
	r := argRule{
		text:   "names, death signal, dumpable, keepcaps, no_new_privs, subreaper, timer slack, THP, MDWE",
		why:    "memory maps, securebits, tracers; filters of its own",
		refuse: softly(eINVAL),
	}
	if filters {
		r.text += ", filters of its own"
		r.allow = append(r.allow, []cond{low(0, unix.PR_SET_SECCOMP)})
	}
	for _, m := range []cond{
		low(0, unix.PR_SET_PDEATHSIG),
		field(0, 0xffffffff&^1, 2), // GET_PDEATHSIG, GET_DUMPABLE
		low(0, unix.PR_SET_DUMPABLE),
		low(0, unix.PR_GET_KEEPCAPS),
		low(0, unix.PR_SET_KEEPCAPS),
		low(0, unix.PR_SET_NAME),
		low(0, unix.PR_GET_NAME),
		low(0, unix.PR_GET_SECCOMP),
		low(0, unix.PR_CAPBSET_READ),
		low(0, unix.PR_SET_TIMERSLACK),
		low(0, unix.PR_GET_TIMERSLACK),
		field(0, 0xffffffff&^3, 36), // SET_CHILD_SUBREAPER, GET_CHILD_SUBREAPER, SET_NO_NEW_PRIVS, GET_NO_NEW_PRIVS
		low(0, unix.PR_SET_THP_DISABLE),
		low(0, unix.PR_GET_THP_DISABLE),
		low(0, unix.PR_SET_MDWE),
		low(0, unix.PR_GET_MDWE),
	} {
		r.allow = append(r.allow, []cond{m})
	}
	return r
}

// personalityRule answers the look-up, and the choice of what is there already, with the truth: 0
// is PER_LINUX (personality(2)), and hardening starts no jail as anything else.
func personalityRule() argRule {
	return argRule{
		text: "nothing: to look succeeds",
		why:  "others switch address randomisation off",
		refuse: []verdict{
			{conds: []cond{low(0, math.MaxUint32)}, soft: true},
			{conds: []cond{low(0, 0)}, soft: true},
		},
	}
}
