package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sort"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// tries are things that a jail refuses. None does harm where nothing refuses it: the tests are also run without the
// protection, to see them fail. Each returns nil when the kernel let it through, and otherwise the kernel's error.
// Arguments are such that the call would work, or fail with EFAULT, EINVAL or EBADF after the kernel's code for it was
// reached, if nothing refused it first.
var tries = map[string]func() error{
	// Kernel interfaces with a history.
	"io_uring_setup": func() error {
		var params [120]byte
		return sys(unix.SYS_IO_URING_SETUP, 4, ptr(&params), 0, 0, 0, 0)
	},
	"bpf": func() error { return sys(unix.SYS_BPF, 0, 0, 0, 0, 0, 0) },
	"perf_event_open": func() error {
		attr := unix.PerfEventAttr{Type: unix.PERF_TYPE_SOFTWARE, Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{})), Config: unix.PERF_COUNT_SW_CPU_CLOCK}
		_, err := unix.PerfEventOpen(&attr, 0, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
		return err
	},
	"userfaultfd": func() error { return sys(unix.SYS_USERFAULTFD, unix.O_CLOEXEC, 0, 0, 0, 0, 0) },
	"keyctl":      func() error { _, err := unix.KeyctlGetKeyringID(unix.KEY_SPEC_SESSION_KEYRING, true); return err },
	"add_key": func() error {
		_, err := unix.AddKey("user", "probe", []byte("x"), unix.KEY_SPEC_PROCESS_KEYRING)
		return err
	},
	"request_key":       func() error { _, err := unix.RequestKey("user", "nothing", "", 0); return err },
	"fanotify_init":     func() error { _, err := unix.FanotifyInit(unix.FAN_CLASS_NOTIF, 0); return err },
	"memfd_secret":      func() error { return sys(unix.SYS_MEMFD_SECRET, 0, 0, 0, 0, 0, 0) },
	"quotactl":          func() error { return sys(unix.SYS_QUOTACTL, 0x80000100, 0, 0, 0, 0, 0) },
	"lookup_dcookie":    func() error { return sys(unix.SYS_LOOKUP_DCOOKIE, 0, 0, 0, 0, 0, 0) },
	"name_to_handle_at": func() error { _, _, err := unix.NameToHandleAt(unix.AT_FDCWD, "/", 0); return err },
	"open_by_handle_at": func() error {
		fd, err := unix.Open("/", unix.O_RDONLY|unix.O_DIRECTORY, 0)
		if err != nil {
			return err
		}
		// A handle of ext4's inode 2, the root directory of the file system that the layers lie on: Shocker.
		_, err = unix.OpenByHandleAt(fd, unix.NewFileHandle(1, []byte{2, 0, 0, 0, 0, 0, 0, 0}), unix.O_RDONLY)
		return err
	},
	"init_module":   func() error { return sys(unix.SYS_INIT_MODULE, 0, 0, 0, 0, 0, 0) },
	"finit_module":  func() error { return unix.FinitModule(0, "", 0) },
	"delete_module": func() error { return unix.DeleteModule("no-such-module-of-the-probe", 0) },
	"kexec_load":    func() error { return sys(unix.SYS_KEXEC_LOAD, 0, 0, 0, 0, 0, 0) },
	"reboot":        func() error { return sys(unix.SYS_REBOOT, 1, 2, 3, 0, 0, 0) }, // wrong magic numbers: EINVAL at worst
	"swapon":        func() error { p := [1]byte{}; return sys(unix.SYS_SWAPON, ptr(&p), 0, 0, 0, 0, 0) },
	"acct":          func() error { return unix.Acct("/no/such/file") },
	"syslog":        func() error { _, err := unix.Klogctl(3, make([]byte, 64)); return err },
	"vhangup":       unixVhangup,
	"settimeofday": func() error {
		return sys(unix.SYS_CLOCK_SETTIME, unix.CLOCK_REALTIME, 0, 0, 0, 0, 0)
	},
	"adjtimex": func() error {
		t := unix.Timex{Modes: unix.ADJ_TICK, Tick: 10000}
		_, err := unix.Adjtimex(&t)
		return err
	},
	"sethostname": func() error { return unix.Sethostname([]byte("probe")) },
	"personality": func() error { return sys(unix.SYS_PERSONALITY, 0x0200000, 0, 0, 0, 0, 0) }, // ADDR_COMPAT_LAYOUT
	"prctl_set_mm": func() error {
		return unix.Prctl(unix.PR_SET_MM, unix.PR_SET_MM_START_BRK, 0, 0, 0)
	},

	// Namespaces and mounts.
	"unshare_user":   func() error { return unix.Unshare(unix.CLONE_NEWUSER) },
	"unshare_mount":  func() error { return unix.Unshare(unix.CLONE_NEWNS) },
	"unshare_net":    func() error { return unix.Unshare(unix.CLONE_NEWNET) },
	"unshare_cgroup": func() error { return unix.Unshare(unix.CLONE_NEWCGROUP) },
	"clone_user":     func() error { return forkWith(unix.CLONE_NEWUSER) },
	"clone_net":      func() error { return forkWith(unix.CLONE_NEWNET) },
	"clone3": func() error {
		var args [88]byte
		err := sys(unix.SYS_CLONE3, ptr(&args), 1, 0, 0, 0, 0) // a size of one byte: EINVAL when it is reached
		return err
	},
	"setns": func() error {
		fd, err := unix.Open("/proc/1/ns/mnt", unix.O_RDONLY, 0)
		if err != nil {
			return err
		}
		return unix.Setns(fd, 0)
	},
	"mount_tmpfs":   func() error { return unix.Mount("probe", "/tmp", "tmpfs", 0, "") },
	"mount_proc":    func() error { return unix.Mount("probe", "/tmp", "proc", 0, "") },
	"mount_bind":    func() error { return unix.Mount("/etc", "/tmp", "", unix.MS_BIND, "") },
	"mount_remount": func() error { return unix.Mount("", "/proc/sys", "", unix.MS_REMOUNT|unix.MS_BIND, "") },
	"umount":        func() error { return unix.Unmount("/proc/sys", unix.MNT_DETACH) },
	"pivot_root":    func() error { return unix.PivotRoot("/", "/") },
	"chroot":        func() error { return unix.Chroot("/tmp") },
	"open_tree":     func() error { _, err := unix.OpenTree(unix.AT_FDCWD, "/", unix.OPEN_TREE_CLONE); return err },
	"fsopen":        func() error { _, err := unix.Fsopen("tmpfs", 0); return err },
	"fspick":        func() error { _, err := unix.Fspick(unix.AT_FDCWD, "/", 0); return err },
	"move_mount":    func() error { return unix.MoveMount(-1, "", -1, "", unix.MOVE_MOUNT_F_EMPTY_PATH) },
	"mount_setattr": func() error {
		return unix.MountSetattr(unix.AT_FDCWD, "/proc/sys", 0, &unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY})
	},
	"mknod_block":    func() error { return unix.Mknod("/tmp/probe-block", unix.S_IFBLK|0o600, int(unix.Mkdev(8, 0))) },
	"mknod_kmem":     func() error { return unix.Mknod("/tmp/probe-mem", unix.S_IFCHR|0o600, int(unix.Mkdev(1, 1))) },
	"mknod_whiteout": func() error { return unix.Mknod("/tmp/probe-whiteout", unix.S_IFCHR|0o600, 0) },
	"chmod_setuid": func() error {
		fd, err := unix.Open("/tmp/probe-setuid", unix.O_CREAT|unix.O_WRONLY, 0o700)
		if err != nil {
			return err
		}
		return unix.Fchmod(fd, 0o4755)
	},
	"setxattr_caps": func() error {
		fd, err := unix.Open("/tmp/probe-caps", unix.O_CREAT|unix.O_WRONLY, 0o700)
		if err != nil {
			return err
		}
		// cap_sys_admin=ep as revision 2 (capability.h).
		v := []byte{1, 0, 0, 2, 0, 0, 32, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
		return unix.Fsetxattr(fd, "security.capability", v, 0)
	},

	// Other processes.
	"ptrace_attach": func() error {
		// A process of its own.
		cmd := exec.Command("/proc/self/exe", "pause")
		if err := cmd.Start(); err != nil {
			return err
		}
		defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
		return unix.PtraceSeize(cmd.Process.Pid)
	},
	"ptrace_parent": func() error {
		return unix.PtraceSeize(os.Getppid())
	},
	"process_vm_readv": func() error {
		b := make([]byte, 8)
		local := []unix.Iovec{{Base: &b[0], Len: 8}}
		_, err := unix.ProcessVMReadv(os.Getppid(), local, []unix.RemoteIovec{{Base: 1, Len: 8}}, 0)
		return err
	},
	"kcmp": func() error { return sys(unix.SYS_KCMP, uintptr(os.Getpid()), uintptr(os.Getppid()), 0, 0, 0, 0) },
	"pidfd_getfd": func() error {
		fd, err := unix.PidfdOpen(os.Getppid(), 0)
		if err != nil {
			return err
		}
		_, err = unix.PidfdGetfd(fd, 0, 0)
		return err
	},
	"sched_fifo": func() error {
		param := [1]int32{1}
		return sys(unix.SYS_SCHED_SETSCHEDULER, 0, 1, ptr(&param), 0, 0, 0)
	},
	"nice_negative": func() error { return unix.Setpriority(unix.PRIO_PROCESS, 0, -10) },
	"setuid_other":  func() error { return sys(unix.SYS_SETUID, 12345, 0, 0, 0, 0, 0) },
	"chown_other": func() error {
		fd, err := unix.Open("/tmp/probe-chown", unix.O_CREAT|unix.O_WRONLY, 0o700)
		if err != nil {
			return err
		}
		return unix.Fchown(fd, 12345, 12345)
	},

	// Sockets that ordinary work does not use.
	"socket_packet":          socketOf(unix.AF_PACKET, unix.SOCK_RAW, 0x300),
	"socket_packet_dgram":    socketOf(unix.AF_PACKET, unix.SOCK_DGRAM, 0x300),
	"socket_raw4":            socketOf(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP),
	"socket_raw6":            socketOf(unix.AF_INET6, unix.SOCK_RAW, unix.IPPROTO_ICMPV6),
	"socket_alg":             socketOf(unix.AF_ALG, unix.SOCK_SEQPACKET, 0),
	"socket_vsock":           socketOf(unix.AF_VSOCK, unix.SOCK_STREAM, 0),
	"socket_vsock_high_bits": socketOf(unix.AF_VSOCK|1<<32, unix.SOCK_STREAM, 0),
	"socket_key":             socketOf(unix.AF_KEY, unix.SOCK_RAW, 2),
	"socket_xdp":             socketOf(unix.AF_XDP, unix.SOCK_RAW, 0),
	"socket_bluetooth":       socketOf(unix.AF_BLUETOOTH, unix.SOCK_RAW, 1),
	"socket_can":             socketOf(unix.AF_CAN, unix.SOCK_RAW, 1),
	"socket_tipc":            socketOf(unix.AF_TIPC, unix.SOCK_SEQPACKET, 0),
	"socket_rxrpc":           socketOf(33, unix.SOCK_DGRAM, unix.AF_INET),
	"socket_smc":             socketOf(43, unix.SOCK_STREAM, 0),
	"socket_netfilter":       socketOf(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER),
	"socket_xfrm":            socketOf(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_XFRM),
	"socket_audit":           socketOf(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_AUDIT),
	"socket_generic":         socketOf(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_GENERIC),
	"socket_sock_diag":       socketOf(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_SOCK_DIAG),
	"socket_mptcp":           socketOf(unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP),
	"socket_sctp":            socketOf(unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_SCTP),
	"tcp_ulp_tls": func() error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
		if err != nil {
			return err
		}
		return unix.SetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_ULP, "tls")
	},
	"unix_msg_oob": func() error {
		p, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		if err != nil {
			return err
		}
		return unix.Send(p[0], []byte("x"), unix.MSG_OOB)
	},
	"abstract_shim_socket": abstractHost,

	// The terminal.
	"tiocsti": func() error {
		c := byte('x')
		return sys(unix.SYS_IOCTL, 0, unix.TIOCSTI, ptr(&c), 0, 0, 0)
	},
	"tioclinux": func() error {
		c := byte(1)
		return sys(unix.SYS_IOCTL, 0, unix.TIOCLINUX, ptr(&c), 0, 0, 0)
	},
}

// attemptWait bounds one try: a thousand processes take an emulated machine half a minute.
const attemptWait = 60 * time.Second

// attempts makes every try in a process of its own, since some change the process and a filter may kill it. With
// arguments only those.
func attempts(names []string) (any, error) {
	if len(names) == 0 {
		for n := range tries {
			names = append(names, n)
		}
		sort.Strings(names)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	all := map[string]outcome{}
	for _, n := range names {
		var out bytes.Buffer
		ctx, cancel := context.WithTimeout(context.Background(), attemptWait)
		cmd := exec.CommandContext(ctx, self, "attempt", n)
		cmd.Stdin, cmd.Stdout = os.Stdin, &out
		err := cmd.Run()
		slow := ctx.Err() != nil
		cancel()
		var o outcome
		var exit *exec.ExitError
		switch {
		case slow:
			o.Note = "went through and never came back"
		case errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signaled():
			o.Errno = unix.SignalName(exit.Sys().(syscall.WaitStatus).Signal())
		case err != nil:
			return nil, fmt.Errorf("%s: %w", n, err)
		default:
			if err := json.Unmarshal(out.Bytes(), &o); err != nil {
				return nil, fmt.Errorf("%s: %w", n, err)
			}
		}
		all[n] = o
	}
	return all, nil
}

func init() {
	// The first thread stays with main: a try runs on another one, which a filter may kill (see attempt).
	runtime.LockOSThread()
}

// attempt makes one try. Where a filter kills the thread and not the process, no process would learn of it: the answer is
// SIGSYS then, as it is when the process is killed.
func attempt(args []string) (any, error) {
	var try func() error
	for _, table := range []map[string]func() error{tries, ringTries, ringsAsUser} {
		if len(args) == 1 && table[args[0]] != nil {
			try = table[args[0]]
		}
	}
	if try == nil {
		return nil, errors.New("usage: attempt NAME")
	}
	tid, done := make(chan int, 1), make(chan outcome, 1)
	go func() {
		runtime.LockOSThread()
		tid <- unix.Gettid()
		done <- outcomeOf(try())
	}()
	task := fmt.Sprintf("/proc/self/task/%d", <-tid)
	for {
		select {
		case o := <-done:
			return o, nil
		case <-time.After(10 * time.Millisecond):
			if _, err := os.Stat(task); errors.Is(err, os.ErrNotExist) && len(done) == 0 {
				return outcome{Errno: "SIGSYS", Note: "the thread was killed"}, nil
			}
		}
	}
}

// sys makes a system call and returns its error. The result is of no interest.
func sys(nr uintptr, a, b, c, d, e, f uintptr) error {
	if _, _, errno := unix.Syscall6(nr, a, b, c, d, e, f); errno != 0 {
		return errno
	}
	return nil
}

func ptr[T any](p *T) uintptr { return uintptr(unsafe.Pointer(p)) }

// socketOf opens a socket with 64-bit arguments: the kernel looks at the low 32 bits, a careless filter at all.
func socketOf(domain, kind, proto uint64) func() error {
	return func() error { return sys(unix.SYS_SOCKET, uintptr(domain), uintptr(kind), uintptr(proto), 0, 0, 0) }
}

// forkWith clones with extra flags; the child, which shares nothing, ends at once.
func forkWith(flags uintptr) error {
	cmd := exec.Command("/proc/self/exe", "attempt", "nothing")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags}
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return nil // it ran: the usage message's exit code
	}
	return err
}

func unixVhangup() error { return sys(unix.SYS_VHANGUP, 0, 0, 0, 0, 0, 0) }

// abstractHost connects to the abstract socket that the test listens on in the host's network namespace
// (CVE-2020-15257: the shim's socket was one).
func abstractHost() error {
	name := os.Getenv("PROBE_ABSTRACT")
	if name == "" {
		return unix.ENOENT
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return err
	}
	return unix.Connect(fd, &unix.SockaddrUnix{Name: name})
}
