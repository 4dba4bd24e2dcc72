package plan

import "slices"

// maskedPaths are hidden in every jail: those of moby (daemon/pkg/oci, DefaultLinuxSpec),
// containerd (pkg/oci, populateDefaultUnixSpec), CRI-O and Podman (containers/common,
// DefaultMaskedPaths), and further paths that reveal the host or control its kernel. Files that C
// libraries, language runtimes and their tools read to size themselves are not among them: a jail
// has its own of these (package procfiles, whose table lists every file that reveals the host).
var maskedPaths = []string{
	// Hardware and drivers.
	"/proc/acpi", "/proc/asound", "/proc/bus", "/proc/consoles", "/proc/devices", "/proc/dma", "/proc/driver", "/proc/fb",
	"/proc/interrupts", "/proc/iomem", "/proc/ioports", "/proc/irq", "/proc/mdstat", "/proc/misc", "/proc/mtrr", "/proc/partitions",
	"/proc/scsi", "/proc/xen",
	// The kernel's memory, symbols, configuration and logs.
	"/proc/allocinfo", "/proc/bootconfig", "/proc/cmdline", "/proc/config.gz", "/proc/crypto", "/proc/dynamic_debug",
	"/proc/execdomains", "/proc/filesystems", "/proc/kallsyms", "/proc/kcore", "/proc/key-users", "/proc/keys", "/proc/kmsg",
	"/proc/kpagecgroup", "/proc/kpagecount", "/proc/kpageflags", "/proc/modules", "/proc/sysrq-trigger",
	"/proc/version_signature", "/proc/vmcore",
	// Load of the whole host.
	"/proc/buddyinfo", "/proc/diskstats", "/proc/fs", "/proc/latency_stats", "/proc/locks", "/proc/lock_stat", "/proc/lockdep",
	"/proc/lockdep_chains", "/proc/lockdep_stats", "/proc/pagetypeinfo", "/proc/pressure", "/proc/profile", "/proc/sched_debug",
	"/proc/schedstat", "/proc/slab_allocators", "/proc/slabinfo", "/proc/softirqs", "/proc/timer_list",
	"/proc/timer_stats", "/proc/vmallocinfo", "/proc/zoneinfo",
	"/proc/sys/dev", "/proc/sys/fs/aio-nr", "/proc/sys/fs/dentry-state", "/proc/sys/fs/file-nr", "/proc/sys/fs/inode-nr",
	"/proc/sys/fs/inode-state", "/proc/sys/fs/quota", "/proc/sys/fs/xfs", "/proc/sys/kernel/pty/nr", "/proc/sys/kernel/sched_domain",
	"/proc/sys/vm/numa_stat", "/proc/tty/ldiscs",
	// Identity of the host.
	"/proc/sys/kernel/bootloader_type", "/proc/sys/kernel/bootloader_version", "/proc/sys/kernel/core_pattern",
	"/proc/sys/kernel/random/entropy_avail", "/proc/sys/kernel/tainted",
	// A jail's /sys is its own (package procfiles); these hold where the delegate mounts
	// more.
	"/sys/devices/virtual/powercap", "/sys/firmware", "/sys/fs/selinux", "/sys/kernel", "/sys/module",
}

// readonlyPaths can be read but not written, by anyone in the jail.
var readonlyPaths = []string{
	"/proc/sys",
	"/proc/sysvipc",
	"/proc/tty",
}

// MaskedPaths are hidden in every jail.
func MaskedPaths() []string { return slices.Clone(maskedPaths) }

// ReadonlyPaths can be read but not written in every jail.
func ReadonlyPaths() []string { return slices.Clone(readonlyPaths) }

// The file in which a jail reads its own refusals (journal.inside): its directory in the jail,
// and its name there. It is replaced as a whole.
const (
	DenialsDir  = "/run/agentjail"
	DenialsFile = "denials.json"
)
