package why

import "agentjail.dev/runtime/report"

// A message is an error that programs print in jails, or engines about them, with its causes. Likelier entries stand first: the first
// whose pattern matches answers.
type message struct {
	id string
	// like is a regular expression over the whole text, without regard to case. Groups named host, port, path and call say what the
	// message is about, which is then asked as well.
	like string
	// says are messages as programs print them; a test holds that this entry answers them.
	says   []string
	causes []cause
}

// A cause is one reason for a message.
type cause struct {
	what string
	by   string
	ring *report.Ring
	// sign is what of the jail shows that it was this cause (signs.go); "" is for what leaves no trace.
	sign     string
	remedies []Remedy
	purpose  bool
	instead  string
}

var (
	kernel    = ring(report.Kernel)
	access    = ring(report.Access)
	resources = ring(report.Resources)
)

// thePolicy stands for the place where a jail's policy is written.
const thePolicy = "the policy, for jails that are made from then on"

func policyLine(line, opens string) Remedy {
	return Remedy{Write: line, Where: thePolicy, Opens: opens}
}

func commandLine(line, opens string) Remedy {
	return Remedy{Write: line, Where: "the container's command line", Opens: opens}
}

func inside(line, opens string) Remedy { return Remedy{Write: line, Where: "the jail", Opens: opens} }

// debugProfile is the remedy for tracing.
var debugProfile = Remedy{Write: `seccomp.profile = "debug" (docker run --runtime=agentjail-debug)`, Where: thePolicy,
	Opens: "ptrace, process_vm_readv and process_vm_writev within the jail, getdents, and who may trace (docs/debugging.md)"}

const asUser = "docker run -u USER (agentjail sandbox works as the workspace's owner)"

var messages = [...]message{
	{
		id: "userns", like: `(bwrap|bubblewrap|unshare|setting up uid map|newuidmap|user ?namespace|no permissions to create( a)? new namespace|clone_newuser|rootlesskit|fakechroot)`,
		says: []string{"bwrap: No permissions to create a new namespace", "unshare: unshare failed: Function not implemented", "bwrap: setting up uid map: Permission denied", "newuidmap: write to uid_map failed: Operation not permitted",
			"bwrap: Creating new namespace failed: Function not implemented", "Failed to move to new namespace: PID namespaces supported, Network namespace supported, but failed: errno = Operation not permitted, CLONE_NEWUSER"},
		causes: []cause{{what: "no process of a jail makes a namespace", by: "system call filter (unshare, setns, clone with CLONE_NEW*), user.max_*_namespaces of 0", ring: kernel,
			purpose: true, instead: "the jail is the sandbox: switch the program's own off (codex: sandbox_mode = \"danger-full-access\", claude: sandbox off, bwrap: run the command without it)"}},
	},
	{
		id: "browser", like: `(no usable sandbox|chrome[- ]sandbox|suid sandbox|zygote_host_impl|--no-sandbox)`,
		says:   []string{"FATAL:zygote_host_impl_linux.cc(117)] No usable sandbox! Update your kernel", "The SUID sandbox helper binary was found, but is not configured correctly", "Running as root without --no-sandbox is not supported"},
		causes: []cause{{what: "browsers make namespaces for their own sandbox, and no process of a jail does", by: "system call filter", ring: kernel, remedies: []Remedy{inside("chromium --no-sandbox", "nothing of the jail: the browser's processes are no longer kept from each other")}, instead: "the jail is the sandbox"}},
	},
	{
		id: "docker in docker", like: `(docker daemon|docker\.sock|is the docker daemon running|podman\.sock|containerd\.sock|dockerd|cannot connect to podman)`,
		says: []string{"Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?", "permission denied while trying to connect to the Docker daemon socket", "mount of /var/run/docker.sock: refused: a socket speaks for whoever listens on it",
			"failed to start daemon: Error initializing network controller, dockerd"},
		causes: []cause{{what: "an engine's socket is root of the host, and an engine of its own needs namespaces and mounts", by: "mounts (bind.socket), system call filter", ring: resources, purpose: true,
			instead: "the outer engine starts sibling containers for the jail; for tests TESTCONTAINERS_RYUK_DISABLED=true and services started outside"}},
	},
	{
		id: "socket mount", like: `a socket speaks for whoever listens on it|mount of \S*\.sock|ssh_auth_sock|could not open a connection to your authentication agent|error connecting to agent|ssh-agent`,
		says: []string{"mount of /tmp/ssh-abc/agent.1: refused: a socket speaks for whoever listens on it (remedy: policy: binds.allow)", "Could not open a connection to your authentication agent.", "Error connecting to agent: No such file or directory"},
		causes: []cause{{what: "a socket of the host's is not mounted: its listener would act for the jail, with keys that the jail does not have", by: "mounts (bind.socket)", ring: resources,
			remedies: []Remedy{policyLine(`binds.allow = ["/path/of/the.sock"]`, "all that its listener does for whoever asks: an agent signs with every key that it holds")},
			instead:  "a credential that the jail can use and not read (docs/credentials.md)"}},
	},
	{
		id: "kvm", like: `(/dev/kvm|kvm kernel module|kvm is not available|hardware acceleration)`,
		says: []string{"Could not access KVM kernel module: No such file or directory", "qemu-system-x86_64: failed to initialize kvm: /dev/kvm: No such file"},
		causes: []cause{{what: "a jail has no device but the standard ones", by: "devices", ring: resources,
			remedies: []Remedy{policyLine(`devices.allow = ["/dev/kvm"], and docker run --device /dev/kvm`, "the host kernel's KVM, a large interface with guest-to-host exploits")}, instead: "qemu -accel tcg"}},
	},
	{
		id: "fuse", like: `(\bfuse|libfuse|sshfs|squashfuse|appimage)`,
		says: []string{"fuse: device not found, try 'modprobe fuse' first", "fusermount3: mount failed: Operation not permitted", "dlopen(): error loading libfuse.so.2 AppImages require FUSE to run."},
		causes: []cause{{what: "FUSE needs /dev/fuse and a mount, and no process of a jail mounts", by: "devices, system call filter (mount)", ring: kernel, purpose: true,
			instead: "mount on the host and give the jail the directory (-v); AppImage: --appimage-extract-and-run"}},
	},
	{
		id: "device", like: `(/dev/(net/tun|tun|nvidia\S*|dri\S*|video\d*|snd\S*|loop\S*|mem|sd\S*|bus/usb\S*|input\S*))`,
		says: []string{"Cannot open TUN/TAP dev /dev/net/tun: No such file or directory", "failed to open /dev/dri/card0: No such file or directory", "losetup: cannot find an unused loop device: /dev/loop0"},
		causes: []cause{{what: "a jail has no device but the standard ones", by: "devices", ring: resources,
			remedies: []Remedy{policyLine(`devices.allow = ["/dev/DEVICE"], and docker run --device /dev/DEVICE`, "the device's driver, with every request that Landlock then lets through for it")}}},
	},
	{
		id: "mount refused", like: `(mount of (?P<path>/\S*) at .*refused|it belongs to the host's root|it holds the host's configuration|binds\.(allow|root))`,
		says:   []string{"mount of /srv/builds at /w: refused: it belongs to the host's root, and would be writable", "mount of /etc at /w: refused: it holds the host's configuration (remedy: policy: binds.allow)"},
		causes: []cause{{what: "the directory gives a jail a part of the host's system", by: "mounts", ring: resources, remedies: []Remedy{policyLine(`binds.allow = ["DIR"]`, "all below DIR, with its owner's rights, root's too"), commandLine("-v DIR:/place:ro", "")}, instead: "chown the directory to the user who works in it (docs/mounts.md)"}},
	},
	{
		id: "mount", like: `(\bmount(\(2\))?:? |mount: |mount\(2\)|umount|must be superuser to use mount|overlay\S* (is )?not supported)`,
		says:   []string{"mount: /mnt: mount(2) system call failed: Function not implemented.", "mount: only root can do that", "umount: /tmp: must be superuser to unmount.", "mount: /mnt: permission denied."},
		causes: []cause{{what: "no process of a jail mounts", by: "system call filter; Landlock; no CAP_SYS_ADMIN", ring: kernel, purpose: true, instead: "the engine mounts before the start: -v DIR:/place, --tmpfs /place"}},
	},
	{
		id: "io_uring", like: `(io_?uring|liburing)`,
		says:   []string{"io_uring_setup: Function not implemented", "io_uring_queue_init failed: ENOSYS", "Failed to init io_uring: Operation not permitted"},
		causes: []cause{{what: "io_uring is not in any profile", by: "system call filter (io_uring_setup)", ring: kernel, purpose: true, instead: "the program's other way: epoll, threads, pread (fio --ioengine=psync, nginx and node by themselves)"}},
	},
	{
		id: "perf", like: `(perf_event|perf: |perf record|perf stat|\bperf\b.*(not implemented|permitted|paranoid)|no permission to enable (cycles|task-clock)|rr: )`,
		says:   []string{"perf_event_open(...): Function not implemented", "Error: No permission to enable cycles event.", "rr: Unable to open performance counter with 'perf_event_open'; are hardware perf events available?"},
		causes: []cause{{what: "perf_event_open is not in any profile", by: "system call filter (perf_event_open)", ring: kernel, purpose: true, instead: "perf on the host for the jail's control group (perf record -G); py-spy and gdb in the profile debug; time"}},
	},
	{
		id: "ebpf", like: `(\bbpf\b|bpftrace|libbpf|bcc:|rlimit_memlock.*bpf)`,
		says:   []string{"bpf: Failed to load program: Function not implemented", "libbpf: Error in bpf_object__probe_loading(): Function not implemented", "ERROR: bpftrace currently only supports running as the root user."},
		causes: []cause{{what: "bpf(2) is not in any profile", by: "system call filter (bpf)", ring: kernel, purpose: true, instead: "tracing on the host"}},
	},
	{
		id: "ptrace", like: `(ptrace|leaksanitizer has encountered|strace: |gdb: |could not attach|py-spy|process_vm_readv|dlv)`,
		says: []string{"ptrace: Function not implemented.", "strace: ptrace(PTRACE_TRACEME, ...): Function not implemented", "LeakSanitizer has encountered a fatal error.", "could not attach to pid 7: function not implemented", "Could not attach to process. If your uid matches"},
		causes: []cause{
			{what: "the profile does not have ptrace", by: "system call filter (ptrace)", ring: kernel, sign: "no call ptrace", remedies: []Remedy{debugProfile}, instead: "ASAN_OPTIONS=detect_leaks=0 for LeakSanitizer"},
			{what: "in profile debug, processes of another exec are in another Landlock domain", by: "Landlock", ring: access, sign: "call ptrace", purpose: true, instead: "start the debugger and the program by the same exec"},
		},
	},
	{
		id: "ping", like: `(ping|traceroute|icmp|raw socket|sock_raw|nmap.*(root|raw)|tcpdump|you don't have permission to (capture|perform))`,
		says:   []string{"ping: permission denied (are you root?)", "ping: socktype: SOCK_RAW: Operation not permitted", "ping: socket: Operation not permitted", "tcpdump: eth0: You don't have permission to capture on that device", "Couldn't open a raw socket. Error: (1) Operation not permitted", "ping: connect: Network is unreachable"},
		causes: []cause{{what: "raw sockets, and with them ICMP, are in no profile and take CAP_NET_RAW", by: "system call filter (socket); no capability", ring: kernel, purpose: true, instead: "connect to a port: curl, nc -z HOST PORT, nmap -sT"}},
	},
	{
		id: "tun", like: `(cap_net_admin|iptables|nft(ables)?\b|rtnetlink answers: operation not permitted|ip link)`,
		says:   []string{"RTNETLINK answers: Operation not permitted", "iptables v1.8.9 (legacy): can't initialize iptables table `filter': Permission denied (you must be root)", "netlink: Error: cache initialization failed: Protocol not supported nft"},
		causes: []cause{{what: "no jail has CAP_NET_ADMIN, and of netlink only reading routes and links", by: "no capability; system call filter (socket)", ring: access, purpose: true, instead: "policy says what is reached: network.mode, network.allow"}},
	},
	{
		id: "sudo", like: `(sudo|perm_sudoers|"no new privileges" flag|effective uid is not 0|must be setuid|doas:)`,
		says:   []string{"sudo: The \"no new privileges\" flag is set, which prevents sudo from running as root.", "sudo: PERM_SUDOERS: setresuid(-1, 1, -1): Operation not permitted", "sudo: effective uid is not 0, is /usr/bin/sudo on a file system with the 'nosuid' option set"},
		causes: []cause{{what: "nobody becomes another user in a jail, and set-id bits have no effect", by: "no_new_privs, no capability, nosuid mounts", ring: access, purpose: true, instead: "leave sudo out; what needs root of the image is done when the image is built; start as root of the jail: docker run -u 0"}},
	},
	{
		id: "switch user", like: `(gosu|su-exec|failed switching to|\bsu: |runuser|setpriv|setresuid|setuid|setgid|setgroups|cannot set groups|start-stop-daemon|initgroups|ah02156)`,
		says: []string{"error: failed switching to \"postgres\": operation not permitted", "su: cannot set groups: Operation not permitted", "setpriv: setresuid failed: Operation not permitted", "start-stop-daemon: unable to set gid to 1000",
			"E: setgroups 65534 failed - setgroups (1: Operation not permitted)", "AH02156: setgid: unable to set group id to Group 33"},
		causes: []cause{{what: "no jail has CAP_SETUID or CAP_SETGID", by: "no capability", ring: access, remedies: []Remedy{commandLine(asUser, "")}, instead: "start as the user that the entry point would become (docs/compatibility.md#users); apt: -o APT::Sandbox::User=root"}},
	},
	{
		id: "chown", like: `(chown|changing ownership|cannot change ownership|error setting ownership|set owner|lchown|cannot change owner)`,
		says: []string{"chown: changing ownership of 'f': Operation not permitted", "tar: f: Cannot change ownership to uid 1000, gid 1000: Operation not permitted", "dpkg: error processing archive x.deb (--unpack): error setting ownership of './x': Operation not permitted",
			"npm ERR! code EPERM npm ERR! syscall chown", "Stopped: chown 100:101 /var/lib/redis: Operation not permitted", "nginx: [emerg] chown(\"/var/cache/nginx/client_temp\", 101) failed (1: Operation not permitted)"},
		causes: []cause{{what: "no jail has CAP_CHOWN: whose a file is stays", by: "no capability", ring: access, purpose: true,
			instead: "tar --no-same-owner, cp -r --preserve=mode,timestamps, install without -o; packages with other owners are installed when the image is built; start as the user (-u)"}},
	},
	{
		id: "set-id", like: `(error setting permissions|chmod.*(u\+s|g\+s|[2467]\d{3})|set-?uid bit|changing permissions.*operation not permitted)`,
		says:   []string{"dpkg: error setting permissions of './usr/bin/su': Operation not permitted", "chmod: changing permissions of 'f': Operation not permitted"},
		causes: []cause{{what: "set-id bits cannot be set: in a mounted directory such a file would run with its owner's ids on the host", by: "system call filter (chmod, fchmod, fchmodat, open, mknod)", ring: kernel, purpose: true, instead: "chmod without the bit; set-id programs have no effect in a jail anyway"}, {what: "the file belongs to somebody else", by: "owner of the file", ring: access, remedies: []Remedy{commandLine(asUser, "")}}},
	},
	{
		id: "mknod", like: `mknod`,
		says:   []string{"mknod: /tmp/d: Operation not permitted"},
		causes: []cause{{what: "no device file is made in a jail; fifos and sockets are", by: "system call filter (mknod); Landlock; no CAP_MKNOD", ring: kernel, purpose: true, instead: "mkfifo; docker run --device with devices.allow"}},
	},
	{
		id: "keyctl", like: `(keyctl|add_key|request_key|keyring)`,
		says:   []string{"keyctl_join_session_keyring: Function not implemented", "add_key: Function not implemented", "mount.cifs: could not join session keyring"},
		causes: []cause{{what: "the kernel's keyrings are in no profile", by: "system call filter (keyctl, add_key, request_key)", ring: kernel, purpose: true, instead: "a file; docker login and gh write one; python's keyring: PYTHON_KEYRING_BACKEND=keyrings.alt.file.PlaintextKeyring"}},
	},
	{
		id: "own filter", like: `(pr_set_seccomp|seccomp|libseccomp|sandbox_init|landlock.*seccomp)`,
		says: []string{"prctl(PR_SET_SECCOMP): Invalid argument", "seccomp_load: Function not implemented", "error applying seccomp filter: prctl(PR_SET_SECCOMP) Invalid argument", "file: could not load seccomp filter"},
		causes: []cause{{what: "programs load no filter of their own in this profile", by: "system call filter (seccomp, prctl)", ring: kernel, sign: "no call seccomp", remedies: []Remedy{policyLine(`seccomp.profile = "server"`, "seccomp, sendfile, System V shared memory, preadv, sched_setaffinity; on Linux 6.9 and later thousands of freed filters can stop the host (docs/seccomp-filters.md)")},
			instead: "switch the program's own sandbox off: the jail is one"}},
	},
	{
		id: "shared memory", like: `(shmget|shmat|shared memory segment|could not create shared memory|system v)`,
		says: []string{"FATAL:  could not create shared memory segment: Function not implemented", "shmget: Function not implemented"},
		causes: []cause{{what: "System V shared memory is in the profile server only", by: "system call filter (shmget)", ring: kernel, sign: "no call shmget",
			remedies: []Remedy{policyLine(`seccomp.profile = "server"`, "sendfile, filters of a program's own, preadv, sched_setaffinity")}}},
	},
	{
		id: "sendfile", like: `sendfile`,
		says: []string{"sendfile() failed (22: Invalid argument) while sending response to client", "nginx: sendfile() failed"},
		causes: []cause{{what: "sendfile is in the profile server only", by: "system call filter (sendfile)", ring: kernel, sign: "no call sendfile", remedies: []Remedy{inside("sendfile off;   (nginx.conf)", ""),
			policyLine(`seccomp.profile = "server"`, "System V shared memory, filters of a program's own, preadv, sched_setaffinity")}}},
	},
	{
		id: "clock or log", like: `(cannot set date|settimeofday|adjtime|read kernel buffer|dmesg|sethostname|hostname: you must be root|hwclock|klogctl)`,
		says:   []string{"date: cannot set date: Function not implemented", "dmesg: read kernel buffer failed: Function not implemented", "hostname: you must be root to change the host name"},
		causes: []cause{{what: "the clock, the kernel's log and the names are the host's", by: "system call filter; no capability", ring: kernel, purpose: true, instead: "libfaketime; docker run --hostname; dmesg on the host"}},
	},
	{
		id: "priority", like: `(set pid .*policy|ioprio_set|sched_set|renice|setpriority|nice: cannot|numactl|set_mempolicy|mbind|mlock|insecure memory|memory locking)`,
		says:   []string{"chrt: failed to set pid 7's policy: Operation not permitted", "ionice: ioprio_set failed: Operation not permitted", "gpg: Warning: using insecure memory!", "nice: cannot set niceness: Permission denied", "numactl: set_mempolicy: Function not implemented"},
		causes: []cause{{what: "priorities, processors and locked memory are the limits' business", by: "system call filter; RLIMIT_NICE, RLIMIT_MEMLOCK; no capability", ring: resources, purpose: true, instead: "limits.cpus, limits.memory; nice with a positive number; programs go on without"}},
	},
	{
		id: "processes", like: `(resource temporarily unavailable|eagain|cannot fork|fork: retry|can't start new thread|pthread_create failed|unable to create (new )?native thread|failed to create new os thread|unable to start.*thread|runtime: may need to increase max user processes)`,
		says: []string{"bash: fork: retry: Resource temporarily unavailable", "RuntimeError: can't start new thread", "java.lang.OutOfMemoryError: unable to create native thread", "runtime: failed to create new OS thread (have 900 already; errno=11)", "pthread_create failed: Resource temporarily unavailable", "sh: 1: Cannot fork"},
		causes: []cause{
			{what: "the jail reached its limit of processes and threads", by: "pids limit (limits.pids)", ring: resources, sign: "pids", remedies: []Remedy{policyLine("limits.pids = 4096", "")}, instead: "fewer jobs at once: make -j4, GOMAXPROCS, UV_THREADPOOL_SIZE"},
			{what: "a socket or pipe that does not block has nothing yet: the program's own doing"},
		},
	},
	{
		id: "killed", like: `(^killed$|\bkilled\b|exit(ed)?( with)?( status| code)?:? 137|\b137\b|out of memory|oom[- ]?kill|oomkilled|cannot allocate memory|enomem|memoryerror|heap out of memory|std::bad_alloc|virtual memory exhausted)`,
		says: []string{"Killed", "command exited with code 137", "cc1plus: out of memory allocating 65536 bytes", "FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory", "OSError: [Errno 12] Cannot allocate memory", "c++: fatal error: Killed signal terminated program cc1plus", "exit status 137"},
		causes: []cause{
			{what: "the jail reached its memory limit, to which what is in its layer and in each tmpfs counts", by: "memory limit (limits.memory)", ring: resources, sign: "memory", remedies: []Remedy{policyLine(`limits.memory = "8GiB"`, "")},
				instead: "files in a mounted directory in place of the layer; fewer jobs at once; node: NODE_OPTIONS=--max-old-space-size"},
			{what: "huge pages of the host's pool are not given", by: "system call filter (mmap with MAP_HUGETLB)", ring: kernel, purpose: true, instead: "programs go on with ordinary pages"},
			{what: "somebody outside killed it: docker stop, a time limit of the caller's, or the host ran out of memory"},
		},
	},
	{
		id: "open files", like: `(too many open files|emfile|enfile|max file descriptors|nofile|file descriptors? .*(too low|at least))`,
		says: []string{"OSError: [Errno 24] Too many open files", "Error: EMFILE: too many open files, watch", "max file descriptors [16384] for elasticsearch process is too low, increase to at least [65535]"},
		causes: []cause{
			{what: "the process reached its limit of open files", by: "RLIMIT_NOFILE (limits.nofile)", ring: resources, remedies: []Remedy{policyLine("limits.nofile = 65536", "")}},
			{what: "inotify instances: EMFILE from inotify_init is the limit on those, for each jail by itself", by: "fs.inotify.max_user_instances", ring: resources, remedies: []Remedy{{Write: "sysctl -w fs.inotify.max_user_instances=512", Where: "the host", Opens: "as many for every user of the host and every jail"}}},
		},
	},
	{
		id: "inotify", like: `(inotify|file watchers|max_user_watches|system limit for number of file)`,
		says: []string{"Error: ENOSPC: System limit for number of file watchers reached, watch '/work'", "inotify_add_watch failed: No space left on device", "tail: inotify resources exhausted"},
		causes: []cause{{what: "the kernel's limit for one user, which each jail has for itself", by: "fs.inotify.max_user_watches, max_user_instances", ring: resources,
			remedies: []Remedy{{Write: "sysctl -w fs.inotify.max_user_watches=1048576", Where: "the host", Opens: "as many for every user of the host and every jail"}}, instead: "watch fewer directories; polling (CHOKIDAR_USEPOLLING=1)"}},
	},
	{
		id: "space", like: `(no space left on device|enospc|disk quota exceeded|errno 28|enough (free )?(disk )?space|disk is full)`,
		says: []string{"write /app/x: no space left on device", "OSError: [Errno 28] No space left on device", "cp: error writing 'f': No space left on device", "npm ERR! code ENOSPC", "You don't have enough free space in /var/cache/apt/archives/."},
		causes: []cause{
			{what: "the ephemeral layer is full", by: "size of the layer (root.size)", ring: resources, sign: "layer", remedies: []Remedy{policyLine(`root.size = "4GiB"`, ""), policyLine(`limits.memory = "8GiB"`, "more memory: the layer counts towards it")}, instead: "a mounted directory or a volume for what is large"},
			{what: "the ephemeral layer has all the files that it may have", by: "number of files of the layer (root.inodes)", ring: resources, sign: "layer files", remedies: []Remedy{policyLine("root.inodes = 1048576", "")}, instead: "a mounted directory for node_modules and caches"},
			{what: "a tmpfs (/tmp, /dev/shm, /run) is full", by: "size of each tmpfs (tmpfs.size, tmpfs.inodes)", ring: resources, sign: "tmpfs", remedies: []Remedy{policyLine(`tmpfs.size = "1GiB"`, ""), policyLine("tmpfs.inodes = 65536", "")}, instead: "TMPDIR in a mounted directory"},
			{what: "the disk of a mounted directory is full: the host's"},
		},
	},
	{
		id: "sysctl", like: `(sysctl|/proc/sys/|permission denied on key)`,
		says:   []string{"sysctl: permission denied on key \"vm.max_map_count\"", "sh: can't create /proc/sys/vm/overcommit_memory: Read-only file system", "error: write /proc/sys/net/core/somaxconn: read-only file system"},
		causes: []cause{{what: "/proc/sys is read-only: most of it is the host's", by: "read-only mount; Landlock", ring: resources, remedies: []Remedy{commandLine("docker run --sysctl net.KEY=VALUE, for what belongs to the jail's own network", "that setting of the jail's network")}, instead: "vm.* and kernel.* are set on the host"}},
	},
	{
		id: "read-only hooks", like: `(\.git/(hooks|config)|husky|pre-commit install|git lfs install|\.vscode|\.idea|\.claude|\.mcp\.json|\.envrc|\.gitmodules|\.devcontainer).*(read-only|permission|busy|cannot|unable|could not|failed)|(read-only|busy).*(\.git/(hooks|config)|\.vscode|\.claude|\.husky)`,
		says: []string{"error: could not write .git/hooks/pre-commit: Read-only file system", "husky - .git/config: Read-only file system", "error: unable to create file .vscode/settings.json: Read-only file system", "mv: cannot move '.git': Device or resource busy .git/hooks"},
		causes: []cause{{what: "the host runs it by itself, so that jails can read and not change it", by: "protected paths (binds.protect)", ring: access,
			remedies: []Remedy{policyLine(`binds.unprotect = [".git/hooks"]   (or ".vscode", ".claude", an absolute path)`, "what is written there runs on the host when somebody next works in the directory")}, instead: "make the change on the host (docs/protected-paths.md)"}},
	},
	{
		id: "read-only", like: `(read-only file system|erofs|errno 30)`,
		says: []string{"touch: cannot touch '/usr/x': Read-only file system", "OSError: [Errno 30] Read-only file system: '/work/x'"},
		causes: []cause{
			{what: "the mount is read-only: the engine asked for that, or it is the host's own", by: "mount", ring: resources, remedies: []Remedy{commandLine("-v DIR:/place without :ro; docker run without --read-only", "what the jail writes there")}},
			{what: "the path is one that the host runs of a mounted directory", by: "protected paths (binds.protect)", ring: access, sign: "protected", remedies: []Remedy{policyLine(`binds.unprotect = ["PATH"]`, "what is written there may run on the host")}},
		},
	},
	{
		id: "dubious ownership", like: `(dubious ownership|safe\.directory|unsafe repository)`,
		says: []string{"fatal: detected dubious ownership in repository at '/work'", "fatal: unsafe repository ('/work' is owned by someone else)"},
		causes: []cause{{what: "the mounted directory belongs to one user of the jail, and git runs as another", by: "owners of mounted directories (binds.owner)", ring: access,
			remedies: []Remedy{commandLine("docker run -u UID, the user who works there; or -l dev.agentjail.binds.owner=UID", ""), inside("git config --global --add safe.directory DIR", "git trusts that directory's settings")}}},
	},
	{
		id: "bind port", like: `(listen|bind|address).*(permission denied|eacces|cannot assign requested address)|eacces.*0\.0\.0\.0:\d+|bind: permission denied`,
		says: []string{"listen tcp 0.0.0.0:80: bind: permission denied", "Error: listen EACCES: permission denied 0.0.0.0:80", "bind: Cannot assign requested address"},
		causes: []cause{{what: "ports below net.ipv4.ip_unprivileged_port_start take CAP_NET_BIND_SERVICE, which no jail has; and a jail has the addresses of lo alone", by: "no capability; network", ring: access,
			remedies: []Remedy{inside("a port of 1024 or more", ""), commandLine("docker run --sysctl net.ipv4.ip_unprivileged_port_start=0", "every port of the jail's own network")}}},
	},
	{
		id: "publish", like: `(connection reset by peer.*(localhost|127\.0\.0\.1|published)|published port|empty reply from server|wait(ing)? for (the )?port|port.*(timed out|timeout)|ports? publish)`,
		says: []string{"curl: (52) Empty reply from server", "testcontainers: waiting for port 5432 timed out", "published port answers nobody"},
		causes: []cause{
			{what: "a jail has no network but lo: published ports start and answer nobody", by: "network.mode = \"none\"", ring: resources, sign: "network none", remedies: []Remedy{
				policyLine(`network.mode = "names", network.publish = ["8080"], and the annotation dev.agentjail.network.publish=8080:80 (agentjail sandbox --publish 8080:80)`, "connections to that port, and no name"),
				commandLine("docker run --runtime=agentjail-net -p 8080:80 (profile net)", "the engine's whole network")}},
		},
	},
	{
		id: "name refused", like: `(access[_ ]denied.*alert|alert.*access[_ ]denied|tlsv1 alert access denied|tls: access denied|ssl_error_access_denied|403 forbidden.*agentjail|agentjail.*refused)`,
		says:   []string{"curl: (35) error:0A000419:SSL routines::tlsv1 alert access denied", "remote error: tls: access denied", "SSLError: [SSL: TLSV1_ALERT_ACCESS_DENIED] tlsv1 alert access denied"},
		causes: []cause{{what: "the TLS connection names another server than the one that was looked up, hides it (ECH), or is to a name that is not allowed", by: "network.allow", ring: resources, sign: "name", remedies: []Remedy{policyLine(`network.allow = ["NAME:PORT"]`, "")}, instead: "`agentjail network log ID` says which name, and why"}},
	},
	{
		id: "name", like: `(could ?n.t resolve host(name)?|could not resolve( proxy| hostname)?|temporary failure in name resolution|name or service not known|nodename nor servname|no such host|getaddrinfo (enotfound|eai_again|eai_fail)|enotfound|eai_again|unknownhostexception|unable to resolve host|failed to lookup address|name resolution|dns (error|lookup|resolution)|nxdomain|temporary failure resolving|no address associated with hostname|dial tcp: lookup)[^\w.-]*(:? ?'?"?(?P<host>[a-z0-9-]+(\.[a-z0-9-]+)+))?`,
		says: []string{"curl: (6) Could not resolve host: pypi.org", "fatal: unable to access 'https://github.com/x/y/': Could not resolve host: github.com", "npm ERR! network request to https://registry.npmjs.org/x failed, reason: getaddrinfo EAI_AGAIN registry.npmjs.org",
			"Error: getaddrinfo ENOTFOUND api.example.org", "dial tcp: lookup proxy.golang.org: no such host", "java.net.UnknownHostException: repo.maven.apache.org", "WARNING: Retrying: NewConnectionError: [Errno -3] Temporary failure in name resolution",
			"ssh: Could not resolve hostname github.com: Temporary failure in name resolution", "wget: unable to resolve host address 'example.org'", "Temporary failure resolving 'deb.debian.org'", "error: failed to lookup address information: Temporary failure in name resolution",
			"dial tcp: lookup proxy.golang.org on [::1]:53: read udp [::1]:36221->[::1]:53: read: connection refused"},
		causes: namesCauses,
	},
	{
		id: "connect", like: `(network is unreachable|enetunreach|no route to host|ehostunreach|connection refused|econnrefused|connection timed out|etimedout|failed to connect to|connecttimeout|no network)`,
		says:   []string{"curl: (7) Failed to connect to 192.0.2.1 port 443: Network is unreachable", "connect ENETUNREACH 104.16.0.1:443", "connect: No route to host", "dial tcp 10.0.0.5:5432: connect: connection refused", "ConnectionRefusedError: [Errno 111] Connection refused"},
		causes: append(append([]cause{}, namesCauses...), cause{what: "nothing listens there: of another container nothing is reached but by name and policy, and on lo only what the jail itself runs", remedies: []Remedy{commandLine("--network container:JAIL, to work with a server of another jail", "that jail's whole network")}}),
	},
	{
		id: "udp", like: `(quic|http/?3|udp.*(unreachable|denied|failed|timeout)|ntp|stun|webrtc)`,
		says:   []string{"QUIC handshake timed out", "ntpdate: no server suitable for synchronization found"},
		causes: []cause{{what: "a network by name carries TCP alone", by: "network.mode = \"names\"", ring: resources, purpose: true, instead: "HTTP/2 over TCP, which clients fall back to; the profile net where UDP is needed"}},
	},
	{
		id: "certificate", like: `(unable to get local issuer certificate|self[- ]signed certificate|certificate verify failed|x509: certificate signed by unknown authority|pkix path building failed)`,
		says: []string{"curl: (60) SSL certificate problem: unable to get local issuer certificate", "x509: certificate signed by unknown authority", "PKIX path building failed: unable to find valid certification path"},
		causes: []cause{{what: "a credential with tls = \"end\": the jail's helper answers with the jail's own authority, and the program has a store of its own", by: "credentials", ring: resources, sign: "tls end",
			remedies: []Remedy{inside("the program's setting for a file of authorities: /etc/agentjail/bundle.pem (Java: keytool -importcert -file /etc/agentjail/authority.pem)", "")}, instead: "the plain route: http://NAME.jail/ (docs/credentials.md)"},
			{what: "the image has no certificates", remedies: []Remedy{commandLine("-v /etc/ssl/certs/ca-certificates.crt:/etc/ssl/certs/ca-certificates.crt:ro", "")}}},
	},
	{
		id: "address family", like: `(address family not supported|eafnosupport|protocol not supported|eprotonosupport|vsock|af_alg|algif)`,
		says: []string{"socket: Address family not supported by protocol", "OSError: [Errno 97] Address family not supported by protocol", "vsock: socket: Address family not supported by protocol", "can't create socket: Protocol not supported"},
		causes: []cause{
			{what: "this profile has no sockets at all", by: "system call filter (socket)", ring: kernel, sign: "no call socket", remedies: []Remedy{policyLine(`seccomp.profile = "default"`, "sockets on lo, and 14 more calls of agents' work")}},
			{what: "families but UNIX, IPv4, IPv6 and netlink's routes are in no profile", by: "system call filter (socket)", ring: kernel, purpose: true, instead: "TCP, UDP or UNIX sockets"},
		},
	},
	{
		id: "bad call", like: `(bad system call|sigsys|exit(ed)?( with)?( status| code)?:? 159|signal: bad system call|core dumped.*syscall)`,
		says: []string{"Bad system call (core dumped)", "signal: bad system call", "exit status 159"},
		causes: []cause{
			{what: "policy ends a process that calls what is not listed", by: "system call filter (seccomp.on_violation = \"kill\")", ring: kernel, sign: "kill", remedies: []Remedy{policyLine(`seccomp.on_violation = "errno"`, "no call: programs see ENOSYS and fall back")}},
			{what: "a 32-bit or x32 program: calls of other ABIs end the process in every profile", by: "system call filter", ring: kernel, purpose: true, instead: "a 64-bit build of the program"},
		},
	},
	{
		id: "attributes", like: `(xattr|extended attribute|setfattr|operation not supported|enotsup|eopnotsupp|errno 95)`,
		says:   []string{"OSError: [Errno 95] Operation not supported: '/work/f'", "setfattr: f: Operation not supported", "rsync: rsync_xal_set: lsetxattr(\"f\",\"user.x\") failed: Operation not supported (95)"},
		causes: []cause{{what: "the layer and mounted directories take no attributes from a jail", by: "system call filter (setxattr)", ring: kernel, purpose: true, instead: "rsync without -X, cp without --preserve=xattr"}},
	},
	{
		id: "attach", like: `(exec failed|unable to join session keyring|container.*not running|oci runtime exec failed)`,
		says:   []string{"OCI runtime exec failed: exec failed: unable to start container process", "container is not running"},
		causes: []cause{{what: "the jail has ended, or the program is not in it", remedies: []Remedy{{Write: "agentjail inspect ID", Where: "the host: it says whether the jail runs"}}}},
	},
	{
		id: "ids", like: `no free range of host ids|userns\.pool`,
		says:   []string{"no free range of host ids: all 2046 blocks of userns.pool are taken (remedy: `agentjail gc`, or a larger pool)"},
		causes: []cause{{what: "as many jails as the pool has ranges, or what crashes left", by: "userns.pool", ring: access, remedies: []Remedy{{Write: "agentjail gc", Where: "the host"}, policyLine(`userns.pool = "FIRST:COUNT"`, "")}}},
	},
	{
		id: "build", like: `a step of an image's build|dockerfile.*run.*refused`,
		says:   []string{"refused: a step of an image's build is to keep what it changes, and a jail throws that away"},
		causes: []cause{{what: "a jail's changes are thrown away, and a build keeps them", by: "build.step", ring: resources, remedies: []Remedy{commandLine("DOCKER_BUILDKIT=1 docker build; podman build --runtime=crun", "the build runs outside of jails")}}},
	},
	{
		id: "not implemented", like: `(?P<call>[a-z_0-9]+)\(?[^()]*\)?:? (function not implemented|enosys)|function not implemented|enosys|errno 38|not implemented`,
		says:   []string{"Function not implemented", "OSError: [Errno 38] Function not implemented", "memfd_secret: Function not implemented"},
		causes: []cause{{what: "a system call that the profile does not list answers ENOSYS, on which programs fall back", by: "system call filter", ring: kernel, instead: "find the call: `strace -f PROGRAM` outside of the jail, or `agentjail learn -- COMMAND`; then `agentjail why ID CALL`"}},
	},
	{
		id: "permission", like: `(permission denied|eacces|errno 13)`,
		says: []string{"cat: /etc/shadow: Permission denied", "PermissionError: [Errno 13] Permission denied: '/work/f'", "bash: ./run.sh: Permission denied"},
		causes: []cause{
			{what: "mode and owner of the file do not let this user: in a mounted directory one user of the jail is the owner, all others are strangers", by: "file permissions (binds.owner)", ring: access, sign: "other user",
				remedies: []Remedy{commandLine("docker run -u UID, or -l dev.agentjail.binds.owner=UID: who works in the mounted directory", "")}, instead: "`agentjail why ID /PATH` says whose the file is"},
			{what: "the file is written on a mount that is not writable, or a program is started from one that runs nothing (noexec)", by: "Landlock, mount", ring: access, instead: "`agentjail why ID /PATH`"},
		},
	},
	{
		id: "not permitted", like: `(operation not permitted|eperm|errno 1\b|not permitted|must be root|are you root|requires root|superuser)`,
		says: []string{"Operation not permitted", "PermissionError: [Errno 1] Operation not permitted", "you must be root to do that", "this command requires root"},
		causes: []cause{
			{what: "it takes a capability, and no jail has any", by: "no capability", ring: access, purpose: true, instead: "the parts of root's work that need one are done when the image is built, or on the host"},
			{what: "an argument that the system call filter refuses with EPERM: set-id bits, devices, new namespaces, raw sockets", by: "system call filter", ring: kernel, purpose: true, instead: "`agentjail why ID CALL` with the call"},
		},
	},
	{
		id: "missing", like: `(/sys/|/proc/)\S*.*(no such file|not found)`,
		says:   []string{"open /sys/class/net/eth0/speed: No such file or directory", "cat: /proc/config.gz: No such file or directory"},
		causes: []cause{{what: "a jail's /proc and /sys say nothing of the host", by: "masked paths, synthetic files", ring: resources, purpose: true, instead: "the limits in /sys/fs/cgroup, /proc/cpuinfo and /proc/meminfo are the jail's own"}},
	},
}

// namesCauses are those of what is not reached.
var namesCauses = []cause{
	{what: "a jail has no network but lo", by: "network.mode = \"none\"", ring: resources, sign: "network none", remedies: []Remedy{
		policyLine(`network.mode = "names", network.allow = ["NAME:PORT"] (agentjail sandbox --allow NAME)`, ""),
		commandLine("docker run --runtime=agentjail-net (profile net)", "the engine's whole network")}},
	{what: "the name is not one that policy allows", by: "network.allow", ring: resources, sign: "name", remedies: []Remedy{policyLine(`network.allow = ["NAME:PORT"]`, "")}, instead: "`agentjail network log ID` says what was asked for, `agentjail why ID NAME:PORT` what to write"},
	{what: "an address that no name of policy's leads to: what is not looked up is not reached", by: "network.mode = \"names\"", ring: resources, sign: "network names", remedies: []Remedy{policyLine(`network.allow = ["ADDRESS:PORT"]`, "")}},
}
