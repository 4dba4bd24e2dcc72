package procfiles

import (
	"fmt"
	"strconv"
	"strings"
)

// meminfo returns /proc/meminfo (proc_meminfo(5)): all of the jail's memory, and none of it in
// use, since a plain file cannot report use. Programs that need the free amount read the control
// group; those that size themselves read MemTotal and MemAvailable.
func meminfo(j Jail) string {
	kb := func(bytes int64) int64 { return bytes / 4096 * 4 } // whole pages
	total, swap := kb(j.Memory), kb(j.Swap)
	var b strings.Builder
	for _, l := range []struct {
		name string
		kb   int64
	}{
		{"MemTotal", total},
		{"MemFree", total},
		{"MemAvailable", total},
		{"Buffers", 0},
		{"Cached", 0},
		{"SwapCached", 0},
		{"Active", 0},
		{"Inactive", 0},
		{"Active(anon)", 0},
		{"Inactive(anon)", 0},
		{"Active(file)", 0},
		{"Inactive(file)", 0},
		{"Unevictable", 0},
		{"Mlocked", 0},
		{"SwapTotal", swap},
		{"SwapFree", swap},
		{"Dirty", 0},
		{"Writeback", 0},
		{"AnonPages", 0},
		{"Mapped", 0},
		{"Shmem", 0},
		{"KReclaimable", 0},
		{"Slab", 0},
		{"SReclaimable", 0},
		{"SUnreclaim", 0},
		{"KernelStack", 0},
		{"PageTables", 0},
		{"NFS_Unstable", 0},
		{"Bounce", 0},
		{"WritebackTmp", 0},
		// The kernel's default ratio (proc_sys_vm(5), overcommit_ratio).
		{"CommitLimit", total/2 + swap},
		{"Committed_AS", 0},
		{"VmallocTotal", 34359738367},
		{"VmallocUsed", 0},
		{"VmallocChunk", 0},
		{"Percpu", 0},
		{"AnonHugePages", 0},
	} {
		fmt.Fprintf(&b, "%-15s %8d kB\n", l.name+":", l.kb)
	}
	for _, name := range []string{"Total", "Free", "Rsvd", "Surp"} {
		fmt.Fprintf(&b, "%-15s %8d\n", "HugePages_"+name+":", 0)
	}
	fmt.Fprintf(&b, "%-15s %8d kB\n%-15s %8d kB\n", "Hugepagesize:", 2048, "Hugetlb:", 0)
	return b.String()
}

// cpuFields are the fields of a processor in /proc/cpuinfo that stay, in the kernel's order
// (arch/x86/kernel/cpu/proc.c, arch/arm64/kernel/cpuinfo.c): compilers and libraries choose
// instructions by them. Any program can read the same values from the processor itself. The other
// fields identify a machine (microcode, clock rate, serial) or reveal the host's topology.
var cpuFields = map[string]bool{
	"vendor_id": true, "cpu family": true, "model": true, "model name": true, "stepping": true, "cache size": true,
	"fpu": true, "fpu_exception": true, "cpuid level": true, "wp": true, "flags": true,
	"clflush size": true, "cache_alignment": true, "address sizes": true, "power management": true,
	"Features": true, "CPU implementer": true, "CPU architecture": true, "CPU variant": true, "CPU part": true, "CPU revision": true,
}

// topology are the fields that number processors: one package, in which each
// processor is a core.
var topology = map[string]func(i, n int) int{
	"processor": self, "core id": self, "apicid": self, "initial apicid": self,
	"physical id": func(int, int) int { return 0 },
	"siblings":    all, "cpu cores": all,
}

func self(i, _ int) int { return i }
func all(_, n int) int  { return n }

// cpuinfo is /proc/cpuinfo: the host's first processor, as often as the jail has
// processors.
func cpuinfo(j Jail, h Host) string {
	part, _, _ := strings.Cut(h.CPUInfo, "\n\n")
	var b strings.Builder
	for i := range j.CPUs {
		for line := range strings.SplitSeq(part, "\n") {
			name, _, ok := strings.Cut(line, ":")
			key := strings.TrimSpace(name)
			if number, is := topology[key]; ok && is {
				b.WriteString(name + ": " + strconv.Itoa(number(i, j.CPUs)) + "\n")
			} else if ok && cpuFields[key] {
				b.WriteString(line + "\n")
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// idle is the time that each processor has been idle for, in clock ticks: one
// second, since programs divide by the sum of times.
const idle = 100

// stat is /proc/stat (proc_stat(5)): processors that have done nothing, booted
// when the jail was made.
func stat(j Jail) string {
	var b strings.Builder
	fmt.Fprintf(&b, "cpu  0 0 0 %d 0 0 0 0 0 0\n", idle*j.CPUs)
	for i := range j.CPUs {
		fmt.Fprintf(&b, "cpu%d 0 0 0 %d 0 0 0 0 0 0\n", i, idle)
	}
	fmt.Fprintf(&b, "intr 0\nctxt 0\nbtime %d\nprocesses 1\nprocs_running 1\nprocs_blocked 0\nsoftirq 0 0 0 0 0 0 0 0 0 0 0\n", j.Born.Unix())
	return b.String()
}

// version returns /proc/version (proc_version(5)): the content of uname(2), without the kernel's
// builder and compiler.
func version(h Host) string {
	return fmt.Sprintf("Linux version %s (agentjail@jail) (cc) %s\n", h.Release, h.Version)
}

// cgroups is /proc/cgroups (cgroups(7)), from which Java learns which version
// the controllers are of, without the number of the host's groups.
func cgroups(h Host) string {
	var b strings.Builder
	for _, line := range strings.SplitAfter(h.Cgroups, "\n") {
		f := strings.Fields(line)
		switch {
		case strings.HasPrefix(line, "#"):
			b.WriteString(line)
		case len(f) == 4 && strings.HasSuffix(line, "\n"):
			f[2] = "1"
			b.WriteString(strings.Join(f, "\t") + "\n")
		}
	}
	return b.String()
}

// Views that are the same in every jail.
const (
	// No load; one process, which runs (proc_loadavg(5)).
	loadavg = "0.00 0.00 0.00 1/1 1\n"
	// No swap areas, even if the jail may use the host's swap (proc_swaps(5)).
	swaps = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"
	// From which ps learns terminals' names (proc_tty_drivers(5)).
	drivers = "/dev/tty             /dev/tty        5       0 system:/dev/tty\n" +
		"/dev/console         /dev/console    5       1 system:console\n" +
		"/dev/ptmx            /dev/ptmx       5       2 system\n" +
		"pty_slave            /dev/pts      136 0-1048575 pty:slave\n" +
		"pty_master           /dev/ptm      128 0-1048575 pty:master\n"
	// vmstat(8) reads this file, and does not start without it (proc_vmstat(5)).
	vmstat = "nr_free_pages 0\npgpgin 0\npgpgout 0\npswpin 0\npswpout 0\npgfault 0\npgmajfault 0\noom_kill 0\n"
)
