// Package procfiles makes the synthetic files that describe the machine to a jail. The kernel has
// no namespace for them: /proc/meminfo, cpuinfo, stat and the like report the whole host. A jail
// would learn about its neighbours from them, and programs would size their heaps and thread
// pools for a machine that they do not have (lxcfs(1) exists for that reason). A synthetic file has
// the same form with the jail's limits. It is a plain file, written when the jail is made and again
// when its limits change: no process has to run for it.
//
// [Table] lists every file that reveals the host, and what a jail has in its place.
package procfiles

import (
	"strconv"
	"strings"
	"time"

	"github.com/opencontainers/runtime-spec/specs-go"
)

// Jail has the sizes of a jail from which its synthetic files are made.
type Jail struct {
	CPUs   int       // processors, at least 1
	Memory int64     // bytes
	Swap   int64     // bytes, beyond Memory
	BootID string    // the jail's own, a UUID
	Born   time.Time // when the jail was made, by the host's clock
}

// For sizes a jail by its limits (cgroups(7)); unlimited resources are the host's. bootID and
// born are used unchanged.
func For(r *specs.LinuxResources, h Host, bootID string, born time.Time) Jail {
	j := Jail{CPUs: CPUs(r, h.CPUs), Memory: h.Memory, BootID: bootID, Born: born}
	if r == nil {
		return j
	}
	var limit, swap int64 // swap alone
	if m := r.Memory; m != nil && m.Limit != nil {
		limit = *m.Limit
		// Memory and swap together, as OCI counts them.
		if m.Swap != nil {
			swap = *m.Swap - limit
		}
	}
	// Files of a group of version 2 are written last.
	unified(r, "memory.max", &limit)
	unified(r, "memory.swap.max", &swap)
	if limit > 0 && (j.Memory <= 0 || limit < j.Memory) {
		j.Memory, j.Swap = limit, max(swap, 0)
	}
	return j
}

// unified reads a number of bytes; "max" is none.
func unified(r *specs.LinuxResources, key string, to *int64) {
	v, ok := r.Unified[key]
	if !ok {
		return
	}
	*to = 0
	if n, err := strconv.ParseInt(strings.TrimSpace(v), 10, 64); err == nil {
		*to = n
	}
}

// CPUs is how many processors a jail has by its limits, at least 1: its quota
// per period (cpu.max, cpu.cfs_quota_us), rounded up as container-aware runtimes
// do, the size of its cpuset, or all of the host's, whichever is the least.
func CPUs(r *specs.LinuxResources, host int) int {
	n := max(host, 1)
	if r == nil {
		return n
	}
	var quota int64
	period, set := uint64(defaultPeriod), ""
	if c := r.CPU; c != nil {
		if c.Quota != nil {
			quota = *c.Quota
		}
		if c.Period != nil && *c.Period > 0 {
			period = *c.Period
		}
		set = c.Cpus
	}
	if v, ok := r.Unified["cpu.max"]; ok {
		quota = 0
		f := append(strings.Fields(v), "", "")
		if q, err := strconv.ParseInt(f[0], 10, 64); err == nil {
			quota = q
		}
		if p, err := strconv.ParseUint(f[1], 10, 64); err == nil && p > 0 {
			period = p
		}
	}
	if v, ok := r.Unified["cpuset.cpus"]; ok {
		set = v
	}
	if quota > 0 {
		n = int(min(int64(n), (quota-1)/int64(min(period, 1<<32))+1))
	}
	if size := listSize(set); size > 0 {
		n = min(n, size)
	}
	return n
}

// defaultPeriod is the kernel's, in microseconds (proc_cgroups(5), cpu.max).
const defaultPeriod = 100000

// maxCPU bounds processor numbers in lists: the kernel's own bound is 8192
// (CONFIG_NR_CPUS).
const maxCPU = 1 << 16

// listSize counts the processors of a list such as 0-3,7 (cpuset(7), List format); 0 for text
// that is no list.
func listSize(s string) int {
	seen := map[int]bool{}
	for part := range strings.SplitSeq(strings.TrimSpace(s), ",") {
		from, to, isRange := strings.Cut(part, "-")
		if !isRange {
			to = from
		}
		lo, err1 := strconv.Atoi(strings.TrimSpace(from))
		hi, err2 := strconv.Atoi(strings.TrimSpace(to))
		if err1 != nil || err2 != nil || lo < 0 || hi < lo || hi >= maxCPU {
			return 0
		}
		for i := lo; i <= hi; i++ {
			seen[i] = true
		}
	}
	return len(seen)
}

// A File is one synthetic file.
type File struct {
	Path string // where the jail sees it, absolute
	Text string
}

// cpuDir is where sysfs has the processors.
const cpuDir = "/sys/devices/system/cpu/"

// Single are the synthetic files that are mounted one by one: over the kernel's own files,
// and over those in the jail's /sys that change with its limits.
func Single(j Jail, h Host) []File {
	return append(Sized(j, h), []File{
		{"/proc/cgroups", cgroups(h)},
		{"/proc/loadavg", loadavg},
		{"/proc/swaps", swaps},
		{"/proc/sys/kernel/random/boot_id", j.BootID + "\n"},
		{"/proc/tty/drivers", drivers},
		{"/proc/version", version(h)},
		{"/proc/vmstat", vmstat},
	}...)
}

// Sized are the files that change with the jail's limits, those of /sys among
// them.
func Sized(j Jail, h Host) []File {
	return []File{
		{"/proc/cpuinfo", cpuinfo(j, h)},
		{"/proc/meminfo", meminfo(j)},
		{"/proc/stat", stat(j)},
		{cpuDir + "online", list(j.CPUs)},
	}
}
