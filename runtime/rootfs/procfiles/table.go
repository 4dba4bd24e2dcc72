package procfiles

// Becomes reports what a jail finds where the kernel would tell of the host.
type Becomes string

// What becomes of a file.
const (
	// View is a file of this package.
	View Becomes = "view"
	// Nothing is an empty file or directory, or none: a masked path, or a part of
	// /sys that a jail does not have.
	Nothing Becomes = "nothing"
	// Own is the kernel's answer for a namespace of the jail's.
	Own Becomes = "own"
	// Stays is the host's own answer: nothing that a runtime can
	// mount hides it, or hiding it would break programs.
	Stays Becomes = "host"
)

// An Entry is one way to learn of the host.
type Entry struct {
	// Path is absolute; PID stands for any process of the jail.
	Path    string
	Becomes Becomes
	// Tells is what the host's own file says of it.
	Tells string
	// Reads names who reads it in a toolchain and for what, or why it stays.
	Reads string
	// Of is the namespace that an Own entry belongs to, by its name in
	// /proc/PID/ns, or "image" for the image's file.
	Of string
	// AppArmor reports that the AppArmor profile denies a file that stays.
	AppArmor bool
}

// Table lists what containers are known to learn of their host from: the
// channels of "ContainerLeaks" (Gao et al., DSN 2017) and those found since, and
// what agentjail found by comparing every file of a jail with the host's. Tests
// and `agentjail inspect` go through it.
var Table = []Entry{
	// Identity.
	{Path: "/proc/sys/kernel/hostname", Becomes: Own, Of: "uts", Tells: "name"},
	{Path: "/proc/sys/kernel/domainname", Becomes: Own, Of: "uts", Tells: "name"},
	{Path: "/proc/sys/kernel/random/boot_id", Becomes: View, Tells: "one boot of one machine", Reads: "systemd's tools, databases: has this machine booted since"},
	{Path: "/etc/machine-id", Becomes: Own, Of: "image", Tells: "one machine", Reads: "D-Bus, systemd's tools"},
	{Path: "/proc/version", Becomes: View, Tells: "who built the kernel, where and with what", Reads: "configure scripts, is-wsl: the release, as uname(2) tells it"},
	{Path: "/proc/cmdline", Becomes: Nothing, Tells: "disks, consoles, mitigations"},
	{Path: "/proc/bootconfig", Becomes: Nothing, Tells: "as cmdline"},
	{Path: "/proc/config.gz", Becomes: Nothing, Tells: "the kernel's configuration"},
	{Path: "/proc/uptime", Becomes: Own, Of: "time", Tells: "time since boot", Reads: "ps, uptime"},
	{Path: "/proc/sys/kernel/bootloader_type", Becomes: Nothing, Tells: "boot loader"},
	{Path: "/proc/sys/kernel/core_pattern", Becomes: Nothing, Tells: "crash handler"},
	{Path: "/proc/sys/kernel/tainted", Becomes: Nothing, Tells: "drivers, past crashes"},
	{Path: "/sys/class/dmi", Becomes: Nothing, Tells: "vendor, model, serial numbers"},

	// Sizes.
	{Path: "/proc/cpuinfo", Becomes: View, Tells: "number, microcode, clock rates", Reads: "nproc, compilers, OpenBLAS, Node: number and instruction sets"},
	{Path: "/proc/meminfo", Becomes: View, Tells: "amount and use of memory", Reads: "free, Node, Python, Java, databases: heap sizes"},
	{Path: "/proc/swaps", Becomes: View, Tells: "swap devices and their use", Reads: "swapon --show"},
	{Path: "/sys/devices/system/cpu/online", Becomes: View, Tells: "number of processors", Reads: "C libraries: sysconf(_SC_NPROCESSORS_ONLN)"},
	{Path: "/sys/devices/system/cpu/present", Becomes: View, Tells: "number of processors", Reads: "lscpu"},
	{Path: "/sys/devices/system/cpu/vulnerabilities", Becomes: Nothing, Tells: "mitigations in force"},
	{Path: "/sys/devices/system/cpu/cpu0/topology/core_siblings", Becomes: View, Tells: "sockets and threads", Reads: "lscpu: one socket, one thread per core"},
	{Path: "/sys/devices/system/cpu/cpu0/cache", Becomes: Nothing, Tells: "which processors share caches"},
	{Path: "/sys/devices/system/cpu/cpu0/cpufreq", Becomes: Nothing, Tells: "clock rates of the moment"},
	{Path: "/sys/devices/system/cpu/cpu0/cpuidle", Becomes: Nothing, Tells: "what others compute"},
	{Path: "/sys/devices/system/node", Becomes: Nothing, Tells: "memory by node, and its use"},

	// Load, and who causes it.
	{Path: "/proc/stat", Becomes: View, Tells: "time by processor, boot time, forks", Reads: "top, vmstat, Node's os.cpus"},
	{Path: "/proc/loadavg", Becomes: View, Tells: "load, number of processes", Reads: "uptime, make -l, ninja -l"},
	{Path: "/proc/vmstat", Becomes: View, Tells: "paging", Reads: "vmstat"},
	{Path: "/proc/cgroups", Becomes: View, Tells: "number of control groups", Reads: "Java: version of the hierarchy"},
	{Path: "/proc/schedstat", Becomes: Nothing, Tells: "scheduling"},
	{Path: "/proc/softirqs", Becomes: Nothing, Tells: "network and disk activity"},
	{Path: "/proc/interrupts", Becomes: Nothing, Tells: "devices, and their activity"},
	{Path: "/proc/zoneinfo", Becomes: Nothing, Tells: "memory"},
	{Path: "/proc/buddyinfo", Becomes: Nothing, Tells: "memory"},
	{Path: "/proc/pagetypeinfo", Becomes: Nothing, Tells: "memory"},
	{Path: "/proc/slabinfo", Becomes: Nothing, Tells: "kernel objects of all"},
	{Path: "/proc/vmallocinfo", Becomes: Nothing, Tells: "kernel addresses"},
	{Path: "/proc/diskstats", Becomes: Nothing, Tells: "disks and their activity"},
	{Path: "/proc/partitions", Becomes: Nothing, Tells: "disks"},
	{Path: "/proc/pressure", Becomes: Nothing, Tells: "contention"},
	{Path: "/proc/locks", Becomes: Nothing, Tells: "locked files of all"},
	{Path: "/proc/timer_list", Becomes: Nothing, Tells: "timers of all"},
	{Path: "/proc/sched_debug", Becomes: Nothing, Tells: "processes of all"},
	{Path: "/proc/sys/fs/dentry-state", Becomes: Nothing, Tells: "file activity"},
	{Path: "/proc/sys/fs/inode-nr", Becomes: Nothing, Tells: "file activity"},
	{Path: "/proc/sys/fs/inode-state", Becomes: Nothing, Tells: "file activity"},
	{Path: "/proc/sys/fs/file-nr", Becomes: Nothing, Tells: "open files of all"},
	{Path: "/proc/sys/fs/aio-nr", Becomes: Nothing, Tells: "asynchronous I/O of all"},
	{Path: "/proc/sys/fs/quota", Becomes: Nothing, Tells: "quotas in use"},
	{Path: "/proc/sys/kernel/pty/nr", Becomes: Nothing, Tells: "terminals of all"},
	{Path: "/proc/sys/kernel/random/entropy_avail", Becomes: Nothing, Tells: "use of random numbers"},
	{Path: "/proc/sys/kernel/sched_domain", Becomes: Nothing, Tells: "scheduling, topology"},
	{Path: "/proc/sys/vm/numa_stat", Becomes: Nothing, Tells: "whether memory of other nodes is counted"},
	{Path: "/proc/fs", Becomes: Nothing, Tells: "disks and their file systems (ext4, jbd2, xfs)"},
	{Path: "/proc/sys/fs/xfs", Becomes: Nothing, Tells: "file systems in use"},

	// Hardware and drivers.
	{Path: "/proc/modules", Becomes: Nothing, Tells: "drivers"},
	{Path: "/proc/kallsyms", Becomes: Nothing, Tells: "kernel build, addresses"},
	{Path: "/proc/iomem", Becomes: Nothing, Tells: "hardware"},
	{Path: "/proc/ioports", Becomes: Nothing, Tells: "hardware"},
	{Path: "/proc/dma", Becomes: Nothing, Tells: "hardware"},
	{Path: "/proc/mtrr", Becomes: Nothing, Tells: "hardware"},
	{Path: "/proc/irq", Becomes: Nothing, Tells: "hardware"},
	{Path: "/proc/devices", Becomes: Nothing, Tells: "drivers"},
	{Path: "/proc/misc", Becomes: Nothing, Tells: "drivers"},
	{Path: "/proc/consoles", Becomes: Nothing, Tells: "consoles"},
	{Path: "/proc/crypto", Becomes: Nothing, Tells: "drivers"},
	{Path: "/proc/filesystems", Becomes: Nothing, Tells: "drivers"},
	{Path: "/proc/execdomains", Becomes: Nothing, Tells: "kernel build"},
	{Path: "/proc/mdstat", Becomes: Nothing, Tells: "disks"},
	{Path: "/proc/scsi", Becomes: Nothing, Tells: "disks"},
	{Path: "/proc/acpi", Becomes: Nothing, Tells: "hardware"},
	{Path: "/proc/bus", Becomes: Nothing, Tells: "hardware"},
	{Path: "/proc/driver", Becomes: Nothing, Tells: "drivers"},
	{Path: "/proc/tty/drivers", Becomes: View, Tells: "serial ports", Reads: "ps: terminals' names"},
	{Path: "/proc/tty/ldiscs", Becomes: Nothing, Tells: "drivers"},
	{Path: "/sys/class", Becomes: Nothing, Tells: "devices"},
	{Path: "/sys/bus", Becomes: Nothing, Tells: "devices"},
	{Path: "/sys/block", Becomes: Nothing, Tells: "disks", Reads: "lsblk"},
	{Path: "/sys/dev", Becomes: Nothing, Tells: "devices"},
	{Path: "/sys/devices/virtual", Becomes: Nothing, Tells: "devices"},
	{Path: "/sys/devices/pci0000:00", Becomes: Nothing, Tells: "devices"},
	{Path: "/sys/kernel", Becomes: Nothing, Tells: "kernel state", Reads: "Go, Java, jemalloc: huge pages; they do without"},
	{Path: "/sys/module", Becomes: Nothing, Tells: "drivers"},
	{Path: "/sys/firmware", Becomes: Nothing, Tells: "firmware and its tables"},
	{Path: "/sys/power", Becomes: Nothing, Tells: "sleep states"},
	{Path: "/sys/fs/ext4", Becomes: Nothing, Tells: "disks"},
	{Path: "/sys/fs/selinux", Becomes: Nothing, Tells: "policy"},

	// Layout.
	{Path: "/proc/PID/mountinfo", Becomes: Own, Of: "mnt", Tells: "directories of the host behind mounts"},
	{Path: "/proc/PID/cgroup", Becomes: Own, Of: "cgroup", Tells: "place among the host's control groups", Reads: "Java, Node: own group"},
	{Path: "/proc/PID/cpuset", Becomes: Own, Of: "cgroup", Tells: "place among the host's control groups"},
	{Path: "/proc/PID/net/unix", Becomes: Own, Of: "net", Tells: "sockets of all"},
	{Path: "/proc/PID/net/dev", Becomes: Own, Of: "net", Tells: "interfaces and their traffic"},
	{Path: "/proc/PID/net/tcp", Becomes: Own, Of: "net", Tells: "connections"},
	{Path: "/proc/PID/net/arp", Becomes: Own, Of: "net", Tells: "neighbours"},
	{Path: "/proc/sysvipc/shm", Becomes: Own, Of: "ipc", Tells: "shared memory of all"},
	{Path: "/proc/keys", Becomes: Nothing, Tells: "keys of the user id"},
	{Path: "/proc/key-users", Becomes: Nothing, Tells: "users with keys"},
	{Path: "/proc/sys/kernel/ns_last_pid", Becomes: Own, Of: "pid", Tells: "how fast processes are made"},

	// What stays.
	{Path: "/proc/uptime (second number)", Becomes: Stays, Tells: "idle time of the host's processors since boot", Reads: "the first number is the jail's and moves, which a plain file cannot: ps needs it"},
	{Path: "/proc/PID/timens_offsets", Becomes: Stays, AppArmor: true, Tells: "how long the host was up when the jail was made", Reads: "each process has the file, so that no mount covers it"},
	{Path: "/proc/PID/net/softnet_stat", Becomes: Stays, AppArmor: true, Tells: "packets of the host by processor", Reads: "each process has the file"},
	{Path: "/proc/PID/net/sockstat", Becomes: Stays, Tells: "memory of all TCP sockets", Reads: "ss -s"},
	{Path: "/sys/devices/system/cpu/possible", Becomes: Stays, Tells: "highest processor number", Reads: "allocators index tables by the processor that they run on: a lower number would be memory corruption"},
	{Path: "sysinfo(2)", Becomes: Stays, Tells: "amount of memory, load, number of processes", Reads: "no mount covers a system call; C libraries take its answer unchecked"},
	{Path: "uname(2)", Becomes: Stays, Tells: "kernel release and version", Reads: "installers, native modules"},
	{Path: "cpuid", Becomes: Stays, Tells: "processor model", Reads: "an instruction: any program can ask the processor itself"},
}

// Directories are the directories of /proc among the masked paths of jails, where the
// kernel has them.
var Directories = []string{
	"/proc/acpi", "/proc/asound", "/proc/bus", "/proc/driver", "/proc/dynamic_debug", "/proc/fs", "/proc/irq", "/proc/pressure",
	"/proc/scsi", "/proc/xen", "/proc/sys/dev", "/proc/sys/fs/quota", "/proc/sys/fs/xfs", "/proc/sys/kernel/sched_domain",
}
