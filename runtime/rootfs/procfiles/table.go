package procfiles

// Becomes is the replacement in a jail of a file that reveals the host.
type Becomes string

// Kinds of replacements.
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
	// Reveals is the information in the host's own file.
	Reveals string
	// Reads names the programs that read the file and the purpose, or the reason why the file
	// stays.
	Reads string
	// Of is the namespace that an Own entry belongs to, by its name in
	// /proc/PID/ns, or "image" for the image's file.
	Of string
	// AppArmor reports that the AppArmor profile denies a file that stays.
	AppArmor bool
}

// Table lists the ways in which containers are known to learn about their host: the channels of
// "ContainerLeaks" (Gao et al., DSN 2017), those found since, and those that agentjail found by
// comparing every file of a jail with the host's. Tests and `agentjail inspect` go through it.
var Table = []Entry{
	// Identity.
	{Path: "/proc/sys/kernel/hostname", Becomes: Own, Of: "uts", Reveals: "name"},
	{Path: "/proc/sys/kernel/domainname", Becomes: Own, Of: "uts", Reveals: "name"},
	{
		Path: "/proc/sys/kernel/random/boot_id", Becomes: View, Reveals: "one boot of one machine",
		Reads: "systemd's tools, databases: has this machine booted since",
	},
	{Path: "/etc/machine-id", Becomes: Own, Of: "image", Reveals: "one machine", Reads: "D-Bus, systemd's tools"},
	{
		Path: "/proc/version", Becomes: View, Reveals: "builder, build host and compiler of the kernel",
		Reads: "configure scripts, is-wsl: the release, as uname(2) returns it",
	},
	{Path: "/proc/cmdline", Becomes: Nothing, Reveals: "disks, consoles, mitigations"},
	{Path: "/proc/bootconfig", Becomes: Nothing, Reveals: "as cmdline"},
	{Path: "/proc/config.gz", Becomes: Nothing, Reveals: "the kernel's configuration"},
	{Path: "/proc/uptime", Becomes: Own, Of: "time", Reveals: "time since boot", Reads: "ps, uptime"},
	{Path: "/proc/sys/kernel/bootloader_type", Becomes: Nothing, Reveals: "boot loader"},
	{Path: "/proc/sys/kernel/core_pattern", Becomes: Nothing, Reveals: "crash handler"},
	{Path: "/proc/sys/kernel/tainted", Becomes: Nothing, Reveals: "drivers, past crashes"},
	{Path: "/sys/class/dmi", Becomes: Nothing, Reveals: "vendor, model, serial numbers"},

	// Sizes.
	{Path: "/proc/cpuinfo", Becomes: View, Reveals: "number, microcode, clock rates", Reads: "nproc, compilers, OpenBLAS, Node: number and instruction sets"},
	{
		Path: "/proc/meminfo", Becomes: View, Reveals: "amount and use of memory",
		Reads: "free, Node, Python, Java, databases: heap sizes",
	},
	{Path: "/proc/swaps", Becomes: View, Reveals: "swap devices and their use", Reads: "swapon --show"},
	{
		Path: "/sys/devices/system/cpu/online", Becomes: View, Reveals: "number of processors",
		Reads: "C libraries: sysconf(_SC_NPROCESSORS_ONLN)",
	},
	{Path: "/sys/devices/system/cpu/present", Becomes: View, Reveals: "number of processors", Reads: "lscpu"},
	{Path: "/sys/devices/system/cpu/vulnerabilities", Becomes: Nothing, Reveals: "mitigations in force"},
	{
		Path: "/sys/devices/system/cpu/cpu0/topology/core_siblings", Becomes: View, Reveals: "sockets and threads",
		Reads: "lscpu: one socket, one thread per core",
	},
	{Path: "/sys/devices/system/cpu/cpu0/cache", Becomes: Nothing, Reveals: "which processors share caches"},
	{Path: "/sys/devices/system/cpu/cpu0/cpufreq", Becomes: Nothing, Reveals: "clock rates of the moment"},
	{Path: "/sys/devices/system/cpu/cpu0/cpuidle", Becomes: Nothing, Reveals: "what others compute"},
	{Path: "/sys/devices/system/node", Becomes: Nothing, Reveals: "memory by node, and its use"},

	// Load, and its causes.
	{Path: "/proc/stat", Becomes: View, Reveals: "time by processor, boot time, forks", Reads: "top, vmstat, Node's os.cpus"},
	{Path: "/proc/loadavg", Becomes: View, Reveals: "load, number of processes", Reads: "uptime, make -l, ninja -l"},
	{Path: "/proc/vmstat", Becomes: View, Reveals: "paging", Reads: "vmstat"},
	{Path: "/proc/cgroups", Becomes: View, Reveals: "number of control groups", Reads: "Java: version of the hierarchy"},
	{Path: "/proc/schedstat", Becomes: Nothing, Reveals: "scheduling"},
	{Path: "/proc/softirqs", Becomes: Nothing, Reveals: "network and disk activity"},
	{Path: "/proc/interrupts", Becomes: Nothing, Reveals: "devices, and their activity"},
	{Path: "/proc/zoneinfo", Becomes: Nothing, Reveals: "memory"},
	{Path: "/proc/buddyinfo", Becomes: Nothing, Reveals: "memory"},
	{Path: "/proc/pagetypeinfo", Becomes: Nothing, Reveals: "memory"},
	{Path: "/proc/slabinfo", Becomes: Nothing, Reveals: "kernel objects of all"},
	{Path: "/proc/vmallocinfo", Becomes: Nothing, Reveals: "kernel addresses"},
	{Path: "/proc/diskstats", Becomes: Nothing, Reveals: "disks and their activity"},
	{Path: "/proc/partitions", Becomes: Nothing, Reveals: "disks"},
	{Path: "/proc/pressure", Becomes: Nothing, Reveals: "contention"},
	{Path: "/proc/locks", Becomes: Nothing, Reveals: "locked files of all"},
	{Path: "/proc/timer_list", Becomes: Nothing, Reveals: "timers of all"},
	{Path: "/proc/sched_debug", Becomes: Nothing, Reveals: "processes of all"},
	{Path: "/proc/sys/fs/dentry-state", Becomes: Nothing, Reveals: "file activity"},
	{Path: "/proc/sys/fs/inode-nr", Becomes: Nothing, Reveals: "file activity"},
	{Path: "/proc/sys/fs/inode-state", Becomes: Nothing, Reveals: "file activity"},
	{Path: "/proc/sys/fs/file-nr", Becomes: Nothing, Reveals: "open files of all"},
	{Path: "/proc/sys/fs/aio-nr", Becomes: Nothing, Reveals: "asynchronous I/O of all"},
	{Path: "/proc/sys/fs/quota", Becomes: Nothing, Reveals: "quotas in use"},
	{Path: "/proc/sys/kernel/pty/nr", Becomes: Nothing, Reveals: "terminals of all"},
	{Path: "/proc/sys/kernel/random/entropy_avail", Becomes: Nothing, Reveals: "use of random numbers"},
	{Path: "/proc/sys/kernel/sched_domain", Becomes: Nothing, Reveals: "scheduling, topology"},
	{Path: "/proc/sys/vm/numa_stat", Becomes: Nothing, Reveals: "whether memory of other nodes is counted"},
	{Path: "/proc/fs", Becomes: Nothing, Reveals: "disks and their file systems (ext4, jbd2, xfs)"},
	{Path: "/proc/sys/fs/xfs", Becomes: Nothing, Reveals: "file systems in use"},

	// Hardware and drivers.
	{Path: "/proc/modules", Becomes: Nothing, Reveals: "drivers"},
	{Path: "/proc/kallsyms", Becomes: Nothing, Reveals: "kernel build, addresses"},
	{Path: "/proc/iomem", Becomes: Nothing, Reveals: "hardware"},
	{Path: "/proc/ioports", Becomes: Nothing, Reveals: "hardware"},
	{Path: "/proc/dma", Becomes: Nothing, Reveals: "hardware"},
	{Path: "/proc/mtrr", Becomes: Nothing, Reveals: "hardware"},
	{Path: "/proc/irq", Becomes: Nothing, Reveals: "hardware"},
	{Path: "/proc/devices", Becomes: Nothing, Reveals: "drivers"},
	{Path: "/proc/misc", Becomes: Nothing, Reveals: "drivers"},
	{Path: "/proc/consoles", Becomes: Nothing, Reveals: "consoles"},
	{Path: "/proc/crypto", Becomes: Nothing, Reveals: "drivers"},
	{Path: "/proc/filesystems", Becomes: Nothing, Reveals: "drivers"},
	{Path: "/proc/execdomains", Becomes: Nothing, Reveals: "kernel build"},
	{Path: "/proc/mdstat", Becomes: Nothing, Reveals: "disks"},
	{Path: "/proc/scsi", Becomes: Nothing, Reveals: "disks"},
	{Path: "/proc/acpi", Becomes: Nothing, Reveals: "hardware"},
	{Path: "/proc/bus", Becomes: Nothing, Reveals: "hardware"},
	{Path: "/proc/driver", Becomes: Nothing, Reveals: "drivers"},
	{Path: "/proc/tty/drivers", Becomes: View, Reveals: "serial ports", Reads: "ps: terminals' names"},
	{Path: "/proc/tty/ldiscs", Becomes: Nothing, Reveals: "drivers"},
	{Path: "/sys/class", Becomes: Nothing, Reveals: "devices"},
	{Path: "/sys/bus", Becomes: Nothing, Reveals: "devices"},
	{Path: "/sys/block", Becomes: Nothing, Reveals: "disks", Reads: "lsblk"},
	{Path: "/sys/dev", Becomes: Nothing, Reveals: "devices"},
	{Path: "/sys/devices/virtual", Becomes: Nothing, Reveals: "devices"},
	{Path: "/sys/devices/pci0000:00", Becomes: Nothing, Reveals: "devices"},
	{Path: "/sys/kernel", Becomes: Nothing, Reveals: "kernel state", Reads: "Go, Java, jemalloc: huge pages; they do without"},
	{Path: "/sys/module", Becomes: Nothing, Reveals: "drivers"},
	{Path: "/sys/firmware", Becomes: Nothing, Reveals: "firmware and its tables"},
	{Path: "/sys/power", Becomes: Nothing, Reveals: "sleep states"},
	{Path: "/sys/fs/ext4", Becomes: Nothing, Reveals: "disks"},
	{Path: "/sys/fs/selinux", Becomes: Nothing, Reveals: "policy"},

	// Layout.
	{Path: "/proc/PID/mountinfo", Becomes: Own, Of: "mnt", Reveals: "directories of the host behind mounts"},
	{
		Path: "/proc/PID/cgroup", Becomes: Own, Of: "cgroup", Reveals: "place among the host's control groups",
		Reads: "Java, Node: own group",
	},
	{Path: "/proc/PID/cpuset", Becomes: Own, Of: "cgroup", Reveals: "place among the host's control groups"},
	{Path: "/proc/PID/net/unix", Becomes: Own, Of: "net", Reveals: "sockets of all"},
	{Path: "/proc/PID/net/dev", Becomes: Own, Of: "net", Reveals: "interfaces and their traffic"},
	{Path: "/proc/PID/net/tcp", Becomes: Own, Of: "net", Reveals: "connections"},
	{Path: "/proc/PID/net/arp", Becomes: Own, Of: "net", Reveals: "neighbours"},
	{Path: "/proc/sysvipc/shm", Becomes: Own, Of: "ipc", Reveals: "shared memory of all"},
	{Path: "/proc/keys", Becomes: Nothing, Reveals: "keys of the user id"},
	{Path: "/proc/key-users", Becomes: Nothing, Reveals: "users with keys"},
	{Path: "/proc/sys/kernel/ns_last_pid", Becomes: Own, Of: "pid", Reveals: "how fast processes are made"},

	// Entries that stay.
	{
		Path: "/proc/uptime (second number)", Becomes: Stays, Reveals: "idle time of the host's processors since boot",
		Reads: "the first number is the jail's and moves, which a plain file cannot: ps needs it",
	},
	{
		Path: "/proc/PID/timens_offsets", Becomes: Stays, AppArmor: true, Reveals: "how long the host was up when the jail was made",
		Reads: "each process has the file, so that no mount covers it",
	},
	{
		Path: "/proc/PID/net/softnet_stat", Becomes: Stays, AppArmor: true, Reveals: "packets of the host by processor",
		Reads: "each process has the file",
	},
	{Path: "/proc/PID/net/sockstat", Becomes: Stays, Reveals: "memory of all TCP sockets", Reads: "ss -s"},
	{
		Path: "/sys/devices/system/cpu/possible", Becomes: Stays, Reveals: "highest processor number",
		Reads: "allocators index tables by the processor that they run on: a lower number would be memory corruption",
	},
	{
		Path: "sysinfo(2)", Becomes: Stays, Reveals: "amount of memory, load, number of processes",
		Reads: "no mount covers a system call; C libraries take its answer unchecked",
	},
	{Path: "uname(2)", Becomes: Stays, Reveals: "kernel release and version", Reads: "installers, native modules"},
	{Path: "cpuid", Becomes: Stays, Reveals: "processor model", Reads: "an instruction: any program can query the processor itself"},
}

// Directories are the directories of /proc among the masked paths of jails, where the
// kernel has them.
var Directories = []string{
	"/proc/acpi", "/proc/asound", "/proc/bus", "/proc/driver", "/proc/dynamic_debug", "/proc/fs", "/proc/irq", "/proc/pressure",
	"/proc/scsi", "/proc/xen", "/proc/sys/dev", "/proc/sys/fs/quota", "/proc/sys/fs/xfs", "/proc/sys/kernel/sched_domain",
}
