// Package hostfacts finds out what this host can do: control groups, security modules, namespaces,
// clocks and sizes. Facts are read, not guessed from version numbers (package check names the
// exceptions), and cheap enough for every start; what can only be learnt by trying is in package
// check.
package hostfacts

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/cgroups"
	"agentjail.dev/runtime/kernel/landlock"
	"agentjail.dev/runtime/kernel/pathname"
	"agentjail.dev/runtime/kernel/rootless"
)

// Facts is what hardening needs to know of the host. It is plain data, so that
// hardening stays a pure function.
type Facts struct {
	Arch     string `json:"arch"` // GOARCH
	CPUs     int    `json:"cpus"`
	MemTotal int64  `json:"memTotal"` // bytes
	Cgroup   Cgroup `json:"cgroup"`
	AppArmor bool   `json:"appArmor"`
	SELinux  bool   `json:"seLinux"`
	// Landlock is the version of the kernel's Landlock, 0 for none (landlock(7)).
	Landlock int `json:"landlock"`
	// ProcessLabel and FileLabel are what the host's SELinux policy has for
	// containers (lxc_contexts(5)), user:role:type:level; empty when it has none.
	ProcessLabel string `json:"processLabel,omitempty"`
	FileLabel    string `json:"fileLabel,omitempty"`
	TimeNS       bool   `json:"timeNS"`
	CgroupNS     bool   `json:"cgroupNS"`
	BootTime     int64  `json:"bootTime"`  // CLOCK_BOOTTIME, whole seconds
	Monotonic    int64  `json:"monotonic"` // CLOCK_MONOTONIC, whole seconds
	HardLimits   Limits `json:"hardLimits"`
	// HugePages are the sizes of huge pages that the hugetlb control group limits,
	// as OCI names them (2MB, 1GB).
	HugePages []string `json:"hugePages,omitempty"`
	// Rootless reports that this process is root of a user namespace only.
	Rootless bool `json:"rootless,omitempty"`
	// OOMScoreAdj is this process's own, which a child inherits
	// (proc_pid_oom_score_adj(5)).
	OOMScoreAdj int `json:"oomScoreAdj"`
	// LoadFiles are files of the kernel that expose the host's load, under names that depend on its
	// hardware.
	LoadFiles []string `json:"loadFiles,omitempty"`
}

// Limits are this process's own hard limits, which without CAP_SYS_RESOURCE
// cannot be raised for a child (setrlimit(2)). The key is the spec's name,
// such as RLIMIT_NOFILE.
type Limits map[string]uint64

// Cgroup reports which control group files exist.
type Cgroup struct {
	V2     bool `json:"v2"` // unified hierarchy
	Pids   bool `json:"pids"`
	Memory bool `json:"memory"`
	Swap   bool `json:"swap"` // memory+swap accounting
	CPU    bool `json:"cpu"`
	IO     bool `json:"io"` // bandwidth throttling
	// Sockets reports that socket buffers have a limit of their own (version 1).
	Sockets bool `json:"sockets"`
}

// Rlimits maps the names of the OCI spec (config-linux.md, POSIX process) to
// the kernel's numbers.
var Rlimits = map[string]int{
	"RLIMIT_AS": unix.RLIMIT_AS, "RLIMIT_CORE": unix.RLIMIT_CORE, "RLIMIT_CPU": unix.RLIMIT_CPU,
	"RLIMIT_DATA": unix.RLIMIT_DATA, "RLIMIT_FSIZE": unix.RLIMIT_FSIZE, "RLIMIT_LOCKS": unix.RLIMIT_LOCKS,
	"RLIMIT_MEMLOCK": unix.RLIMIT_MEMLOCK, "RLIMIT_MSGQUEUE": unix.RLIMIT_MSGQUEUE, "RLIMIT_NICE": unix.RLIMIT_NICE,
	"RLIMIT_NOFILE": unix.RLIMIT_NOFILE, "RLIMIT_NPROC": unix.RLIMIT_NPROC, "RLIMIT_RSS": unix.RLIMIT_RSS,
	"RLIMIT_RTPRIO": unix.RLIMIT_RTPRIO, "RLIMIT_RTTIME": unix.RLIMIT_RTTIME, "RLIMIT_SIGPENDING": unix.RLIMIT_SIGPENDING,
	"RLIMIT_STACK": unix.RLIMIT_STACK,
}

// Read gathers the facts. A fact that cannot be read counts as absent.
func Read() Facts {
	f := Facts{
		Arch:     runtime.GOARCH,
		CPUs:     runtime.NumCPU(),
		Cgroup:   readCgroup(),
		Rootless: rootless.Inside(),
		AppArmor: isY("/sys/module/apparmor/parameters/enabled"),
		// The mount point is there if the kernel was booted with SELinux. Its files are not read: a
		// confined engine may not read them (refpolicy's dockerd_t), and a failure that counted as
		// absence would drop the container's label.
		SELinux:    exists("/sys/fs/selinux"),
		TimeNS:     exists("/proc/self/ns/time"),
		CgroupNS:   exists("/proc/self/ns/cgroup"),
		HardLimits: Limits{},
	}
	f.Landlock, _ = landlock.ABI()
	if f.Rootless {
		f.Cgroup = ownCgroup(f.Cgroup)
	} else {
		f.HugePages = hugePages(cgroups.Root, "/sys/kernel/mm/hugepages")
	}
	if b, err := os.ReadFile("/proc/self/oom_score_adj"); err == nil {
		f.OOMScoreAdj, _ = strconv.Atoi(strings.TrimSpace(string(b)))
	}
	if f.SELinux {
		f.ProcessLabel, f.FileLabel = containerLabels("/etc/selinux")
	}
	// Counters per processor, as moby and CRI-O mask them (moby advisory
	// GHSA-6fw5-f8r9-fgfm); virtual machines have none.
	if exists("/sys/devices/system/cpu/cpu0/thermal_throttle") {
		f.LoadFiles, _ = filepath.Glob("/sys/devices/system/cpu/cpu[0-9]*/thermal_throttle")
	}
	var si unix.Sysinfo_t
	if unix.Sysinfo(&si) == nil {
		f.MemTotal = int64(si.Totalram) * int64(si.Unit)
	}
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) == nil {
		f.BootTime = int64(ts.Sec)
	}
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) == nil {
		f.Monotonic = int64(ts.Sec)
	}
	for name, n := range Rlimits {
		var l unix.Rlimit
		if unix.Prlimit(0, n, nil, &l) == nil {
			f.HardLimits[name] = l.Max
		}
	}
	return f
}

func readCgroup() Cgroup {
	if cgroups.Version(cgroups.Root) == 2 {
		names, _ := cgroups.Controllers(cgroups.Root)
		all := Cgroup{Pids: true, Memory: true, Swap: exists("/proc/swaps"), CPU: true, IO: true}
		return all.only(names, Cgroup{V2: true})
	}
	// Version 1: a root control group lacks pids.max, so request the
	// controller's directory there.
	return Cgroup{
		Pids:   exists(cgroups.Root + "/pids/cgroup.procs"),
		Memory: exists(cgroups.Root + "/memory/memory.limit_in_bytes"),
		Swap:   exists(cgroups.Root + "/memory/memory.memsw.limit_in_bytes"),
		CPU:    exists(cgroups.Root+"/cpu/cpu.cfs_quota_us") || exists(cgroups.Root+"/cpu/cgroup.procs"),
		IO:     exists(cgroups.Root + "/blkio/blkio.throttle.write_bps_device"),

		Sockets: exists(cgroups.Root + "/memory/memory.kmem.tcp.limit_in_bytes"),
	}
}

// only adds to what these controllers have of c.
func (c Cgroup) only(controllers []string, to Cgroup) Cgroup {
	for _, name := range controllers {
		switch name {
		case "pids":
			to.Pids = c.Pids
		case "memory":
			to.Memory, to.Swap, to.Sockets = c.Memory, c.Swap, c.Sockets
		case "cpu":
			to.CPU = c.CPU
		case "io", "blkio":
			to.IO = c.IO
		}
	}
	return to
}

// ownCgroup leaves of the host's control groups what has been delegated to this
// process, whose groups a rootless engine's containers are made below
// (cgroups(7), Delegation).
func ownCgroup(c Cgroup) Cgroup {
	out := Cgroup{V2: c.V2}
	own, err := cgroups.Of("self")
	if err != nil {
		return out
	}
	for _, g := range own {
		names := g.List()
		dir := filepath.Join(cgroups.Root, g.Controllers, g.Path)
		if c.V2 && g.Controllers == "" {
			// The delegated group is the topmost one that is the user's: further below, systemd
			// turns controllers on as they are requested.
			for up := filepath.Dir(dir); pathname.Below(up, cgroups.Root) && unix.Access(up, unix.W_OK) == nil; up = filepath.Dir(up) {
				dir = up
			}
			names, _ = cgroups.Controllers(dir)
		}
		if unix.Access(dir, unix.W_OK) == nil {
			out = c.only(names, out)
		}
	}
	return out
}

func exists(path string) bool { return unix.Access(path, unix.F_OK) == nil }

func isY(path string) bool {
	b, err := os.ReadFile(path)
	return err == nil && bytes.HasPrefix(b, []byte("Y"))
}

// KernelRelease is uname -r.
func KernelRelease() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return "unknown"
	}
	return unix.ByteSliceToString(u.Release[:])
}
