package why

import "strings"

// A refusedGroup is a group of system calls that no profile lets pass, whatever their arguments,
// with what only this table knows of them.
type refusedGroup struct {
	calls string // separated by spaces
	// why no profile has them.
	why string
	// alsoRefusedBy is what would refuse them without a filter; "" if they would pass.
	alsoRefusedBy string
	// instead is what programs use instead, or the user who runs the jail.
	instead string
}

const (
	noSysAdmin = "capability: CAP_SYS_ADMIN, which no jail has"
	nothing    = "nothing: programs try it and go on without"
)

// refusedGroups hold every call that no profile lets pass (TestEveryCallHasAReason).
var refusedGroups = [...]refusedGroup{
	{"io_uring_setup io_uring_enter io_uring_register",
		"a large part of the kernel's exploits come in by it, and what it does later no filter sees", "",
		"epoll: node (UV_USE_IO_URING=0 is its default), nginx, databases and language runtimes have it, and take ENOSYS for \"not there\""},
	{"clone3 openat2 faccessat2 fchmodat2 renameat2",
		"its flags lie in memory, where no filter can look, or an older call does the same", "",
		"libc and runtimes take ENOSYS and call the older one: clone, openat, faccessat, fchmodat, renameat"},
	{"mount umount2 fsopen fsconfig fsmount fspick open_tree open_tree_attr move_mount mount_setattr pivot_root chroot",
		"what a jail sees is decided outside of it; file system drivers are a large part of kernel exploits",
		noSysAdmin + " (chroot: CAP_SYS_CHROOT); Landlock: a process in a domain changes no mounts",
		"the engine mounts before the start: -v DIR:/place, --tmpfs /place; an archive is unpacked, an image mounted on the host"},
	{"statmount listmount listns", "new calls that list mounts and namespaces", "", "/proc/self/mountinfo and /proc/self/ns"},
	{"unshare setns", "a namespace of one's own opens most of the kernel that exploits need",
		"limit: user.max_*_namespaces is 0 in the jail's user namespace", "the jail is the sandbox: switch the program's own off (bwrap, chromium --no-sandbox, nested containers)"},
	{"perf_event_open lookup_dcookie", "events of perf see more than the process, and were exploited often", "host setting kernel.perf_event_paranoid; capability CAP_PERFMON, which no jail has",
		"time and getrusage in the jail; perf on the host, for the jail's control group"},
	{"bpf", "programs in the kernel", "host setting kernel.unprivileged_bpf_disabled; capability CAP_BPF, which no jail has", "tracing on the host"},
	{"userfaultfd", "stops the kernel in the middle of a copy, which exploits of races need", "host setting vm.unprivileged_userfaultfd", "programs fall back on signals or on copies"},
	{"add_key request_key keyctl", "keyrings are the kernel's, were exploited often, and are counted for the host's user", "",
		"a file, or the credential kept outside of the jail (credentials, docs/credentials.md)"},
	{"pidfd_open pidfd_send_signal pidfd_getfd process_madvise process_mrelease kcmp",
		"it reaches into other processes, or is a newer form of what there is", "", "kill and wait4; runtimes take ENOSYS and use those"},
	{"personality", "switches address randomisation off, and calls of old systems on", "", "gdb and QEMU go on with randomised addresses; setarch has no effect to wait for"},
	{"rseq rseq_slice_yield membarrier", "probed by libc and runtimes, which do without", "", nothing},
	{"splice tee vmsplice", "they move pages of files' caches between pipes (Dirty Pipe, Copy Fail)", "", "programs take EINVAL and use read and write"},
	{"execveat", "runs what was never a file with a name", "", "execve, and /proc/self/fd/N as its path"},
	{"memfd_secret map_shadow_stack mseal pkey_alloc pkey_free pkey_mprotect remap_file_pages",
		"memory protections that next to nothing uses, each code of its own in the kernel", "", nothing},
	{"mlock mlock2 mlockall munlock munlockall", "locked memory cannot be reclaimed", "limit: RLIMIT_MEMLOCK (limits.memlock)", "gpg and key agents warn and go on without"},
	{"mincore cachestat readahead fadvise64 sync_file_range", "hints, and looks at what of files the host has in memory", "", nothing},
	{"sync syncfs", "makes the whole host, or a disk of its, write", "", "fsync and fdatasync of the file"},
	{"get_mempolicy set_mempolicy set_mempolicy_home_node mbind migrate_pages move_pages",
		"where memory lies is the limits' business, and the calls helped exploits", "", "numactl and databases go on without"},
	{"setxattr lsetxattr fsetxattr setxattrat removexattr lremovexattr fremovexattr removexattrat",
		"attributes in a mounted directory can mean something to the host", "file system: the layer and mounted directories take none from a jail",
		"cp and tar take EOPNOTSUPP for a file system without; rsync without -X"},
	{"lgetxattr fgetxattr llistxattr flistxattr getxattrat listxattrat file_getattr file_setattr",
		"there are no attributes to see, and programs take EOPNOTSUPP for that", "", "getxattr and listxattr pass"},
	{"sched_setscheduler sched_setparam sched_setattr sched_getattr sched_rr_get_interval ioprio_set ioprio_get",
		"priorities are the limits' business; choosing when to run makes races in the kernel easier to win", "real-time classes: capability CAP_SYS_NICE, which no jail has",
		"limits.cpus, limits.io_read, limits.io_write; nice works"},
	{"init_module finit_module delete_module create_module query_module get_kernel_syms", "the host's kernel", "capability: CAP_SYS_MODULE, which no jail has", "load the module on the host"},
	{"kexec_load kexec_file_load reboot", "the host's kernel", "capability: CAP_SYS_BOOT, which no jail has", "end the first process: the jail ends with it"},
	{"settimeofday clock_settime adjtimex clock_adjtime", "the host's clock", "capability: CAP_SYS_TIME, which no jail has", "libfaketime, or the program's own setting"},
	{"sethostname setdomainname", "the engine sets the names", noSysAdmin, "docker run --hostname, --domainname"},
	{"swapon swapoff acct quotactl quotactl_fd vhangup syslog nfsservctl", "the host's administration", noSysAdmin, "on the host (dmesg, quota, swap)"},
	{"iopl ioperm", "the host's devices", "capability: CAP_SYS_RAWIO, which no jail has", "on the host"},
	{"modify_ldt set_thread_area get_thread_area", "segments of 32-bit programs, with a history of exploits; no jail runs those", "", "64-bit programs (wine, dosemu: not in a jail)"},
	{"open_by_handle_at name_to_handle_at", "opens files by number, past all paths (CVE-2014-6408, shocker)", "capability: CAP_DAC_READ_SEARCH, which no jail has", "paths"},
	{"fanotify_init fanotify_mark", "watches file systems that jails share", noSysAdmin, "inotify passes"},
	{"io_setup io_submit io_getevents io_pgetevents io_cancel io_destroy", "asynchronous I/O of the kernel's, exploited often", "", "threads: databases fall back (InnoDB: innodb_use_native_aio=0)"},
	{"mq_open mq_unlink mq_timedsend mq_timedreceive mq_notify mq_getsetattr", "POSIX message queues are kernel memory", "limit: RLIMIT_MSGQUEUE is 0", "sockets, pipes, files"},
	{"msgget msgsnd msgrcv msgctl semget semop semctl semtimedop", "System V queues and semaphores outlive their makers, and exploits spray them", "", "futexes, POSIX semaphores (sem_open), pipes"},
	{"lsm_get_self_attr lsm_set_self_attr lsm_list_modules", "security modules' attributes", "", "/proc/self/attr where the host has one"},
	{"futex_requeue futex_wait futex_waitv futex_wake", "newer forms of futex, each code of its own", "", "futex; wine and Proton take ENOSYS"},
	{"preadv2 pwritev2 epoll_pwait2 recvmmsg signalfd eventfd epoll_ctl_old epoll_wait_old", "an older or newer call does the same", "", "libc and runtimes take ENOSYS and call preadv, epoll_pwait, recvmsg, signalfd4, eventfd2"},
	{"time times utime utimes futimesat getitimer getrlimit setrlimit get_robust_list getcpu getsid timer_getoverrun timer_gettime timerfd_gettime",
		"no program of the work that profiles are for needs it: libc serves it without, or by another call", "", "clock_gettime, utimensat, prlimit64, setitimer"},
	{"setfsuid setfsgid setreuid setregid", "older forms of setresuid and setresgid", "capability: CAP_SETUID and CAP_SETGID, which no jail has", "start as the user: docker run -u USER"},
	{"rt_sigqueueinfo rt_tgsigqueueinfo", "signals with made-up senders", "", "kill, tgkill"},
	{"uselib ustat sysfs _sysctl uprobe uretprobe afs_syscall getpmsg putpmsg security tuxcall vserver", "of old systems, or the kernel's own", "", nothing},
}

// refusedGroupOf finds a call's group.
func refusedGroupOf(call string) (refusedGroup, bool) {
	for _, n := range refusedGroups {
		for c := range strings.FieldsSeq(n.calls) {
			if c == call {
				return n, true
			}
		}
	}
	return refusedGroup{}, false
}

// callLayers is what else refuses calls and arguments that some profile lets pass.
var callLayers = map[string]string{
	"ptrace":            "Landlock: processes of one exec trace each other, and no others; the host's kernel.yama.ptrace_scope",
	"process_vm_readv":  "Landlock: within processes of one exec",
	"process_vm_writev": "Landlock: within processes of one exec",
	"chown":             "capability: CAP_CHOWN, which no jail has; only a group of the process's own can be given",
	"lchown":            "capability: CAP_CHOWN, which no jail has",
	"fchown":            "capability: CAP_CHOWN, which no jail has",
	"fchownat":          "capability: CAP_CHOWN, which no jail has",
	"setuid":            "capability: CAP_SETUID, which no jail has; a process's own id can be set",
	"setgid":            "capability: CAP_SETGID, which no jail has; a process's own id can be set",
	"setresuid":         "capability: CAP_SETUID, which no jail has; a process's own ids can be set",
	"setresgid":         "capability: CAP_SETGID, which no jail has; a process's own ids can be set",
	"setgroups":         "capability: CAP_SETGID, which no jail has",
	"setpriority":       "limit: RLIMIT_NICE is 0, so that priorities only get lower",
	"kill":              "Landlock: the jail's own processes only; process namespace",
	"inotify_add_watch": "limit: fs.inotify.max_user_watches, for each jail by itself",
	"inotify_init1":     "limit: fs.inotify.max_user_instances, for each jail by itself",
	"connect":           "network: nothing but lo, or what network.mode and network.allow permit",
	"bind":              "network: lo, or what network.mode permits",
	"mknod":             "capability: CAP_MKNOD, which no jail has, for devices",
	"mknodat":           "capability: CAP_MKNOD, which no jail has, for devices",
	"open":              "files: ids, read-only mounts and Landlock (see `agentjail why ID PATH`)",
	"openat":            "files: ids, read-only mounts and Landlock (see `agentjail why ID PATH`)",
	"sendfile":          "",
	"shmget":            "limit: the memory of the jail",
	"clone":             "limit: limits.pids; user.max_*_namespaces is 0",
	"seccomp":           "limit: about 4,096 instructions for a process",
	"prctl":             "",
}

// insteadOf is what serves in place of arguments that no profile lets pass.
var insteadOf = map[string]string{
	"socket":          "UNIX sockets, TCP and UDP; a connection to a port in place of a ping",
	"socketpair":      "UNIX pairs",
	"setsockopt":      "programs go on without the option",
	"clone":           "the jail is the sandbox: switch the program's own off",
	"ioctl":           "programs take ENOTTY for a file without the request",
	"prctl":           "programs take EINVAL for a kernel without it",
	"chmod":           "a mode without set-id bits",
	"fchmod":          "a mode without set-id bits",
	"fchmodat":        "a mode without set-id bits",
	"open":            "a mode without set-id bits",
	"openat":          "a mode without set-id bits",
	"creat":           "a mode without set-id bits",
	"mknod":           "fifos, sockets and regular files; docker run --device with devices.allow",
	"mknodat":         "fifos, sockets and regular files; docker run --device with devices.allow",
	"mmap":            "ordinary pages",
	"futex":           "the other operations, which C libraries use",
	"prlimit64":       "a program goes on: the limit on core files stays",
	"fcntl":           "record locks; leases and directory signals have inotify",
	"clock_nanosleep": "clocks of wall time",
	"timer_create":    "clocks of wall time; setitimer for profilers",
}

// socketLayers is what refuses socket families and types beside the filter.
var socketLayers = []struct{ word, then string }{
	{"AF_PACKET", "capability: CAP_NET_RAW, which no jail has"},
	{"SOCK_RAW", "capability: CAP_NET_RAW, which no jail has; connect to a port in place of a ping"},
	{"AF_VSOCK", "nothing: the host's hypervisor would answer"},
	{"AF_ALG", "nothing: programs fall back on their own ciphers"},
}
