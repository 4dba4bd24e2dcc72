package compiler

import (
	"strings"
	"testing"

	"agentjail.dev/seccomp"
	"agentjail.dev/seccomp/abi"
	"agentjail.dev/seccomp/bpf"
)

// The answers that a program in a jail gets, rule by rule: the delegate's filter and the
// second one together.
func TestRules(t *testing.T) {
	const (
		ok    = 0
		done  = 1 << 12 // success, and nothing was done
		perm  = 1
		nomem = 12
		inval = 22
		notty = 25
		nosys = 38
		noopt = 92
		proto = 93
		notop = 95
		fam   = 97
		high  = 0xfeed << 32 // what the kernel cuts off an int
		flags = 0o2004000    // SOCK_CLOEXEC | SOCK_NONBLOCK
	)
	for _, c := range []struct {
		call  string
		args  [6]uint64
		errno uint32
	}{
		// Socket families, types, protocols.
		{"socket", [6]uint64{1, 1 | flags, 0}, ok},
		{"socket", [6]uint64{1, 2, 0}, ok},
		{"socket", [6]uint64{1, 5, 0}, ok},
		{"socket", [6]uint64{1, 3, 0}, fam},
		{"socket", [6]uint64{2, 1 | flags, 6}, ok},
		{"socket", [6]uint64{10, 2, 17}, ok},
		{"socket", [6]uint64{10 | high, 1 | high, high}, ok},
		{"socket", [6]uint64{2, 3, 1}, perm},
		{"socket", [6]uint64{10, 3, 58}, perm},
		{"socket", [6]uint64{2, 2, 1}, fam},
		{"socket", [6]uint64{2, 5, 132}, fam},
		{"socket", [6]uint64{2, 1, 262}, proto}, // MPTCP
		{"socket", [6]uint64{10, 1 | flags, 262 | high}, proto},
		{"socket", [6]uint64{16, 3, 0}, ok}, // NETLINK_ROUTE
		{"socket", [6]uint64{16, 2 | flags, 0}, ok},
		{"socket", [6]uint64{16, 3, 4}, proto},
		{"socket", [6]uint64{16, 3, 9}, proto},
		{"socket", [6]uint64{16, 3, 12}, fam},
		{"socket", [6]uint64{16, 3, 15}, fam},
		{"socket", [6]uint64{17, 3, 0}, fam},
		{"socket", [6]uint64{38, 5, 0}, fam},
		{"socket", [6]uint64{40, 1, 0}, fam},
		{"socket", [6]uint64{40 | high, 1, 0}, fam},
		{"socketpair", [6]uint64{1, 1 | flags}, ok},
		{"socketpair", [6]uint64{2, 1}, notop},
		// Socket options.
		{"setsockopt", [6]uint64{3, 1, 2}, ok},
		{"setsockopt", [6]uint64{3, 6, 1}, ok},
		{"setsockopt", [6]uint64{3, 41, 26}, ok},
		{"setsockopt", [6]uint64{3, 6, 31}, noopt},        // TCP_ULP
		{"setsockopt", [6]uint64{3, 6 | high, 31}, noopt}, // the same
		{"setsockopt", [6]uint64{3, 282, 1}, noopt},       // SOL_TLS
		{"setsockopt", [6]uint64{3, 0, 34}, ok},           // IP_MULTICAST_LOOP
		{"setsockopt", [6]uint64{3, 0 | high, 35}, noopt}, // IP_ADD_MEMBERSHIP
		{"setsockopt", [6]uint64{3, 0, 42}, noopt},        // MCAST_JOIN_GROUP
		{"setsockopt", [6]uint64{3, 41, 20}, noopt},       // IPV6_ADD_MEMBERSHIP
		{"setsockopt", [6]uint64{3, 1, 26}, noopt},        // SO_ATTACH_FILTER
		{"setsockopt", [6]uint64{3, 0, 64}, noopt},        // IPT_SO_SET_REPLACE
		// Urgent data, in sending and in receiving.
		{"sendto", [6]uint64{3, 0, 0, 0x4000}, ok},
		{"sendto", [6]uint64{3, 0, 0, 0x4001}, notop},
		{"sendmsg", [6]uint64{3, 0, 1}, notop},
		{"sendmmsg", [6]uint64{3, 0, 0, 1 | high}, notop},
		{"recvfrom", [6]uint64{3, 0, 0, 1}, notop},
		{"recvmsg", [6]uint64{3, 0, 0x40}, ok},
		{"recvmsg", [6]uint64{3, 0, 0x41}, notop},
		{"recvmmsg", [6]uint64{3, 0, 0, 0}, nosys},
		// Terminals.
		{"ioctl", [6]uint64{0, 0x5401}, ok},
		{"ioctl", [6]uint64{0, 0x5413}, ok},
		{"ioctl", [6]uint64{0, 0xffffffff80045430}, ok}, // TIOCGPTN, sign-extended
		{"ioctl", [6]uint64{0, 0x5412}, notty},          // TIOCSTI
		{"ioctl", [6]uint64{0, 0x5412 | high}, notty},
		{"ioctl", [6]uint64{0, 0x541c}, notty}, // TIOCLINUX
		{"ioctl", [6]uint64{0, 0x5423}, notty}, // TIOCSETD
		{"ioctl", [6]uint64{0, 0x40086602}, notty},
		// Set-id bits, device nodes.
		{"fchmod", [6]uint64{3, 0o1777}, ok},
		{"fchmod", [6]uint64{3, 0o4755}, perm},
		{"fchmodat", [6]uint64{0, 0, 0o2755 | high}, perm},
		{"chmod", [6]uint64{0, 0o6755}, perm},
		{"chmod", [6]uint64{0, 0o2664}, perm}, // a program by the host's chmod +x
		{"chmod", [6]uint64{0, 0o2775}, perm}, // a directory's and a program's
		{"creat", [6]uint64{0, 0o4644}, perm},
		{"openat", [6]uint64{0, 0, 0o101, 0o644}, ok},
		{"openat", [6]uint64{0, 0, 0o101, 0o4644}, perm},
		{"openat", [6]uint64{0, 0, 0o20200000, 0o2600}, perm},
		{"openat", [6]uint64{0, 0, 0, 0xdeadbeef}, ok},
		{"open", [6]uint64{0, 0o101, 0o6644}, perm},
		{"openat2", [6]uint64{}, nosys},
		{"fchmodat2", [6]uint64{0, 0, 0o755}, nosys},
		{"mknodat", [6]uint64{0, 0, 0o010644}, ok},
		{"mknodat", [6]uint64{0, 0, 0o020000}, perm},
		{"mknodat", [6]uint64{0, 0, 0o104755}, perm},
		// Processes, namespaces.
		{"clone", [6]uint64{0x3d0f00}, ok},
		{"clone", [6]uint64{0x10000011}, perm},
		{"clone", [6]uint64{0x00020011 | high}, perm},
		{"clone3", [6]uint64{}, nosys},
		{"unshare", [6]uint64{}, nosys},
		{"setns", [6]uint64{}, nosys},
		{"personality", [6]uint64{0xffffffff}, done},
		{"personality", [6]uint64{high}, done},
		{"personality", [6]uint64{8}, inval}, // PER_LINUX32
		{"personality", [6]uint64{0x40000}, inval},
		{"prctl", [6]uint64{15}, ok},
		{"prctl", [6]uint64{22}, inval}, // PR_SET_SECCOMP
		{"prctl", [6]uint64{22 | high}, inval},
		{"seccomp", [6]uint64{1, 0, 4096}, nosys},
		// Limits, huge pages, locks, clocks, attributes.
		{"prlimit64", [6]uint64{0, 4, 0, 4096}, ok},
		{"prlimit64", [6]uint64{0, 4, 4096}, done},
		{"prlimit64", [6]uint64{0, 4 | high, 1 << 32}, done},
		{"prlimit64", [6]uint64{0, 0, 4096}, ok},
		{"prlimit64", [6]uint64{0, 7, 4096}, ok},
		{"prlimit64", [6]uint64{0, 15, 4096}, ok},
		{"mmap", [6]uint64{0, 4096, 3, 0x22}, ok},
		{"mmap", [6]uint64{0, 4096, 3, 0x2022}, ok}, // MAP_LOCKED, which RLIMIT_MEMLOCK bounds as well as mlock
		{"mlock", [6]uint64{4096, 4096}, ok},
		{"munlock", [6]uint64{4096, 4096}, ok},
		{"mlock2", [6]uint64{4096, 4096, 1}, nosys},
		{"mlockall", [6]uint64{3}, nosys},
		{"fadvise64", [6]uint64{3, 0, 0, 4}, done},
		{"sync", [6]uint64{}, nosys},
		{"syncfs", [6]uint64{3}, nosys},
		{"msgget", [6]uint64{}, nosys},
		{"mmap", [6]uint64{0, 4096, 3, 0x40022}, nomem},
		{"mmap", [6]uint64{0, 4096, 3, 0x54040022 | high}, nomem},
		{"memfd_create", [6]uint64{4096, 3}, ok},
		{"memfd_create", [6]uint64{4096, 4}, inval},
		{"futex", [6]uint64{4096, 0}, ok},
		{"futex", [6]uint64{4096, 129}, ok},
		{"futex", [6]uint64{4096, 128 | 4}, ok},
		{"futex", [6]uint64{4096, 128 | 6}, ok},
		{"futex", [6]uint64{4096, 7}, ok},
		{"futex", [6]uint64{4096, 8}, ok},
		{"futex", [6]uint64{4096, 9 | 128 | 256}, ok},
		{"futex", [6]uint64{4096, 10 | 128}, ok},
		{"futex", [6]uint64{4096, 13 | 128}, ok},
		{"futex", [6]uint64{4096, 11}, nosys},
		{"futex", [6]uint64{4096, 11 | 128 | 256 | high}, nosys},
		{"futex", [6]uint64{4096, 12}, nosys},
		{"futex", [6]uint64{4096, 12 | 128}, nosys},
		{"timer_create", [6]uint64{0}, ok},
		{"timer_create", [6]uint64{1}, ok},
		{"timer_create", [6]uint64{7}, ok},
		{"timer_create", [6]uint64{2}, notop},
		{"timer_create", [6]uint64{3 | high}, notop},
		{"timer_create", [6]uint64{0xfffffffa}, notop},
		{"clock_nanosleep", [6]uint64{1}, ok},
		{"clock_nanosleep", [6]uint64{2}, notop},
		{"setsockopt", [6]uint64{3, 1, 7}, done},
		{"setsockopt", [6]uint64{3, 1, 8 | high}, done},
		{"setsockopt", [6]uint64{3, 1, 33}, noopt},
		{"setsockopt", [6]uint64{3, 1, 9}, ok},
		{"setsockopt", [6]uint64{3, 1, 15}, ok},
		{"setsockopt", [6]uint64{3, 6, 8}, ok},
		{"fsetxattr", [6]uint64{}, notop},
		// Priorities.
		{"sched_setscheduler", [6]uint64{0, 0}, done},
		{"sched_setscheduler", [6]uint64{0, 3}, done},
		{"sched_setscheduler", [6]uint64{0, 5 | 1<<30}, done},
		{"sched_setscheduler", [6]uint64{0, 1}, perm},
		{"sched_setscheduler", [6]uint64{0, 1 | 1<<30 | high}, perm},
		{"sched_setscheduler", [6]uint64{0, 2}, perm},
		{"sched_setscheduler", [6]uint64{0, 6 | 1<<30}, perm},
		{"sched_setparam", [6]uint64{}, done},
		{"sched_setattr", [6]uint64{}, perm},
		{"sched_setaffinity", [6]uint64{}, done},
		{"ioprio_set", [6]uint64{1, 0, 0}, done},
		{"ioprio_set", [6]uint64{1, 0, 2<<13 | 7}, done},
		{"ioprio_set", [6]uint64{1, 0, 3 << 13}, done},
		{"ioprio_set", [6]uint64{1, 0, 1<<13 | high}, perm},
		{"ioprio_get", [6]uint64{}, done},
		{"prctl", [6]uint64{38 | high}, ok},
		{"prctl", [6]uint64{35}, inval}, // PR_SET_MM
		{"prctl", [6]uint64{28}, inval}, // PR_SET_SECUREBITS
		{"prctl", [6]uint64{47}, inval}, // PR_CAP_AMBIENT
		{"prctl", [6]uint64{59}, inval}, // PR_SET_SYSCALL_USER_DISPATCH
		{"prctl", [6]uint64{0x59616d61}, inval},
		{"ptrace", [6]uint64{}, nosys},
		{"fcntl", [6]uint64{0, 1030}, ok},
		{"fcntl", [6]uint64{0, 1024}, inval}, // F_SETLEASE
		// Page-cache tricks, io_uring.
		{"sendfile", [6]uint64{}, inval},
		{"splice", [6]uint64{}, inval},
		{"vmsplice", [6]uint64{}, inval},
		{"tee", [6]uint64{}, inval},
		{"io_uring_setup", [6]uint64{}, nosys},
		{"io_uring_enter", [6]uint64{}, nosys},
		{"io_uring_register", [6]uint64{}, nosys},
	} {
		for _, arch := range []string{"amd64", "arm64"} {
			s, err := seccomp.OCI(seccomp.Options{Profile: "default", Arch: arch})
			if err != nil {
				t.Fatal(err)
			}
			wide, _ := seccomp.WithEntry(s)
			nr, there := abi.Number(c.call, arch)
			if !there && arch == "arm64" && strings.Contains("open creat chmod", c.call) {
				continue
			}
			want := uint32(bpf.RetErrno | c.errno)
			switch c.errno {
			case ok:
				want = bpf.RetAllow
			case done:
				want = bpf.RetErrno
			}
			d := &bpf.Data{NR: nr, Arch: arches[s.Architectures[0]].audit, Args: c.args}
			if got, err := bpf.Stacked([][]bpf.Insn{compile(t, wide), compile(t, s)}, d); err != nil || got != want || !there {
				t.Errorf("%s on %s, %#x: %#x, %v; want %#x", c.call, arch, c.args, got, err, want)
			}
		}
	}
}
