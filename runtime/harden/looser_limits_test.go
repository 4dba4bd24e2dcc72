package harden

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/spec/plan"
	"agentjail.dev/runtime/spec/policy"
)

// within reports whether a limit is set, within policy's bound (0 is none) and
// within the incoming one (nil or not above 0 is none).
func (j *judge) within(name string, group bool, got *int64, bound int64, was *int64) {
	switch {
	case bound > 0 && (got == nil && group || got != nil && (*got <= 0 || *got > bound)):
		j.say("%s %s, policy has %d", name, text(got), bound)
	case was != nil && *was > 0 && (got == nil || *got <= 0 || *got > *was):
		j.say("%s %s, the bundle has %d", name, text(got), *was)
	}
}

func text(p *int64) string {
	if p == nil {
		return "is not set"
	}
	return fmt.Sprint(*p)
}

func (j *judge) limits() {
	r, was := j.out.Linux.Resources, j.inResources()
	lim, cg := j.pol.Limits, j.f.Host.Cgroup
	for _, k := range slices.Sorted(maps.Keys(r.Unified)) {
		if was.Unified[k] != r.Unified[k] {
			j.say("unified %s from nowhere", k)
		}
	}
	j.unified(r.Unified)

	var got, before *int64
	if r.Pids != nil {
		got = r.Pids.Limit
	}
	if was.Pids != nil {
		before = was.Pids.Limit
	}
	j.within("pids", cg.Pids, got, lim.Pids, before)

	m, wm := r.Memory, was.Memory
	if m == nil {
		m = &specs.LinuxMemory{}
	}
	if wm == nil {
		wm = &specs.LinuxMemory{}
	}
	bound := int64(lim.Memory)
	if bound > 0 && j.f.Host.MemTotal > 0 {
		bound = min(bound, j.f.Host.MemTotal/4*3)
	}
	j.within("memory", cg.Memory, m.Limit, bound, wm.Limit)
	if cg.Swap && bound > 0 && m.Limit != nil {
		if m.Swap == nil || *m.Swap < *m.Limit || *m.Swap > *m.Limit+int64(lim.Swap) {
			j.say("memory and swap %s for %d", text(m.Swap), *m.Limit)
		} else if wm.Swap != nil && *wm.Swap > 0 && *m.Swap > max(*wm.Swap, *m.Limit) {
			j.say("memory and swap %d, the bundle has %d", *m.Swap, *wm.Swap)
		}
	}
	if cg.Sockets {
		j.within("sockets", true, m.KernelTCP, int64(lim.Sockets), wm.KernelTCP)
	} else if m.KernelTCP != nil {
		j.say("sockets %d, which the host cannot limit", *m.KernelTCP)
	}
	if m.Reservation != nil && (*m.Reservation < 0 || bound > 0 && *m.Reservation > bound || m.Limit != nil && *m.Limit > 0 && *m.Reservation > *m.Limit) {
		j.say("reservation %d", *m.Reservation)
	}
	if m.DisableOOMKiller != nil && *m.DisableOOMKiller {
		j.say("no OOM killer")
	}

	c, wc := r.CPU, was.CPU
	if c == nil {
		c = &specs.LinuxCPU{}
	}
	if wc == nil {
		wc = &specs.LinuxCPU{}
	}
	if lim.CPUs > 0 && (cg.CPU || c.Quota != nil) {
		got := share(c)
		if got <= 0 || got > lim.CPUs && *c.Quota > cpuQuotaMin {
			j.say("%g processors, policy has %g", got, lim.CPUs)
		}
		if before := share(wc); before > 0 && got > before*1.0001 && wc.Period != nil && *wc.Period >= cpuPeriodMin && *wc.Period <= cpuPeriodMax && *wc.Quota >= cpuQuotaMin {
			j.say("%g processors, the bundle has %g", got, before)
		}
	}
	if c.RealtimeRuntime != nil || c.RealtimePeriod != nil || c.Burst != nil && *c.Burst > 0 {
		j.say("real-time or burst: %+v", c)
	}
	if wc.Cpus != c.Cpus || wc.Mems != c.Mems {
		j.say("cpuset")
	}
	if r.Network != nil {
		j.say("network classes")
	}
	if len(was.HugepageLimits) > len(r.HugepageLimits) || len(was.Rdma) != len(r.Rdma) {
		j.say("limits on huge pages or RDMA are gone")
	}
	for _, size := range j.f.Host.HugePages {
		if !slices.Contains(r.HugepageLimits, specs.LinuxHugepageLimit{Pagesize: size}) {
			j.say("huge pages of %s: %v", size, r.HugepageLimits)
		}
	}
}

// share is how many processors a quota is.
func share(c *specs.LinuxCPU) float64 {
	if c.Quota == nil || *c.Quota <= 0 {
		return 0
	}
	period := 100000.0
	if c.Period != nil && *c.Period > 0 {
		period = float64(*c.Period)
	}
	return float64(*c.Quota) / period
}

// unified files are written last, over everything else.
func (j *judge) unified(u map[string]string) {
	bounds := map[string]int64{"pids.max": j.pol.Limits.Pids, "memory.max": int64(j.pol.Limits.Memory)}
	for k, v := range u {
		if strings.ContainsAny(v, "\n") {
			j.say("unified %s has lines", k)
		}
		n, err := strconv.ParseInt(v, 10, 64)
		switch k {
		case "pids.max", "memory.max":
			if b := bounds[k]; b > 0 && (err != nil || n > b || n < 0) {
				j.say("unified %s is %s", k, v)
			}
		case "memory.swap.max":
			if j.pol.Limits.Memory > 0 && (err != nil || n > int64(j.pol.Limits.Swap) || n < 0) {
				j.say("unified %s is %s", k, v)
			}
		case "cpu.max":
			var quota, period float64
			if got, _ := fmt.Sscanf(v, "%g %g", &quota, &period); j.pol.Limits.CPUs > 0 && (got != 2 || quota <= 0 || period <= 0 || quota/period > j.pol.Limits.CPUs*1.0001) {
				j.say("unified %s is %s", k, v)
			}
		case "io.max":
			for f := range strings.FieldsSeq(v) {
				key, n, _ := strings.Cut(f, "=")
				b := map[string]policy.Size{"rbps": j.pol.Limits.IORead, "wbps": j.pol.Limits.IOWrite}[key]
				if rate, err := strconv.ParseInt(n, 10, 64); b > 0 && (err != nil || rate > int64(b)) {
					j.say("unified %s is %s", k, v)
				}
			}
		case "memory.min", "memory.low", "cpu.max.burst", "io.latency", "cpuset.cpus.partition", "cpu.uclamp.min", "memory.reclaim":
			j.say("unified %s", k)
		}
		if strings.HasPrefix(k, "cgroup.") || strings.Contains(k, "/") {
			j.say("unified %s", k)
		}
	}
}

func (j *judge) io() {
	r := j.out.Linux.Resources
	rate := func(list []specs.LinuxThrottleDevice, major, minor int64) uint64 {
		var got uint64 // the last one counts; 0 is none
		for _, t := range list {
			if t.Major == major && t.Minor == minor {
				got = t.Rate
			}
		}
		return got
	}
	b, was := r.BlockIO, j.inResources().BlockIO
	if b == nil {
		b = &specs.LinuxBlockIO{}
	}
	if was == nil {
		was = &specs.LinuxBlockIO{}
	}
	if j.f.Host.Cgroup.IO {
		for _, p := range j.plan.Binds {
			f := j.f.Sources[p.Index]
			if p.ReadOnly || f.DiskMajor == 0 {
				continue
			}
			for _, d := range []struct {
				name  string
				list  []specs.LinuxThrottleDevice
				bound uint64
			}{
				{"read", b.ThrottleReadBpsDevice, uint64(j.pol.Limits.IORead)}, {"write", b.ThrottleWriteBpsDevice, uint64(j.pol.Limits.IOWrite)},
			} {
				if got := rate(d.list, int64(f.DiskMajor), int64(f.DiskMinor)); d.bound > 0 && (got == 0 || got > d.bound) {
					j.say("%s rate %d on %d:%d", d.name, got, f.DiskMajor, f.DiskMinor)
				}
			}
		}
	}
	for _, p := range []struct {
		name     string
		out, was []specs.LinuxThrottleDevice
	}{
		{"read", b.ThrottleReadBpsDevice, was.ThrottleReadBpsDevice},
		{"write", b.ThrottleWriteBpsDevice, was.ThrottleWriteBpsDevice},
		{"read operations", b.ThrottleReadIOPSDevice, was.ThrottleReadIOPSDevice},
		{"write operations", b.ThrottleWriteIOPSDevice, was.ThrottleWriteIOPSDevice},
	} {
		for _, t := range p.was {
			before, now := rate(p.was, t.Major, t.Minor), rate(p.out, t.Major, t.Minor)
			if before > 0 && (now == 0 || now > before) {
				j.say("%s rate %d on %d:%d, the bundle has %d", p.name, now, t.Major, t.Minor, before)
			}
		}
	}
}

func (j *judge) rlimits() {
	seen := map[string]bool{}
	before := map[string]uint64{}
	for _, l := range j.in.Process.Rlimits {
		before[l.Type] = l.Hard
	}
	for _, l := range j.out.Process.Rlimits {
		if seen[l.Type] {
			j.say("%s twice", l.Type)
		}
		seen[l.Type] = true
		if l.Soft > l.Hard {
			j.say("%s soft %d over hard %d", l.Type, l.Soft, l.Hard)
		}
		if l.Type == "RLIMIT_CORE" {
			// The one value that starts no handler is the tightest.
			if h, ok := j.f.Host.HardLimits[l.Type]; l.Hard != 1 || l.Soft != 1 {
				if !ok || h >= 1 {
					j.say("RLIMIT_CORE %d of %d", l.Soft, l.Hard)
				}
			}
		} else if was, ok := before[l.Type]; ok && l.Hard > was {
			j.say("%s %d, the bundle has %d", l.Type, l.Hard, was)
		}
		if h, ok := j.f.Host.HardLimits[l.Type]; ok && l.Hard > h {
			j.say("%s %d, the engine has %d", l.Type, l.Hard, h)
		}
		if b, ok := plan.RlimitBounds(j.pol.Limits)[l.Type]; ok && l.Hard > b {
			j.say("%s %d, policy has %d", l.Type, l.Hard, b)
		}
	}
	for name := range plan.RlimitBounds(j.pol.Limits) {
		if !seen[name] {
			j.say("%s is the engine's", name)
		}
	}
	for name := range before {
		if !seen[name] {
			j.say("%s is gone", name)
		}
	}
}

func (j *judge) priorities() {
	p, was := j.out.Process, j.in.Process
	adj := j.f.Host.OOMScoreAdj
	if p.OOMScoreAdj != nil {
		adj = *p.OOMScoreAdj
	}
	if adj < 900 || was.OOMScoreAdj != nil && adj < *was.OOMScoreAdj {
		j.say("oom_score_adj %d", adj)
	}
	if s := p.Scheduler; s != nil && (s.Nice < 0 || s.Priority != 0 || s.Runtime != 0 || len(s.Flags) > 0 || !slices.Contains([]specs.LinuxSchedulerPolicy{"SCHED_OTHER", "SCHED_BATCH", "SCHED_IDLE"}, s.Policy)) {
		j.say("scheduler %+v", s)
	}
	if io := p.IOPriority; io != nil && !(io.Class == specs.IOPRIO_CLASS_IDLE || io.Class == specs.IOPRIO_CLASS_BE && io.Priority >= 4) {
		j.say("I/O priority %+v", io)
	}
	if p.ExecCPUAffinity != nil {
		j.say("processor affinity")
	}
}

func (j *judge) sysctls() {
	own := map[specs.LinuxNamespaceType]bool{}
	for _, n := range j.out.Linux.Namespaces {
		own[n.Type] = n.Path == "" || n.Type == "network" && j.f.Joins[n.Type].Pinned
	}
	c := j.in.Process.Capabilities
	low := own["network"] && (j.plan.Network.Mode == policy.NetworkEngine || len(j.plan.Capabilities) > 0) && c != nil && slices.Contains(c.Bounding, "CAP_NET_BIND_SERVICE")
	for k, v := range j.out.Linux.Sysctl {
		dotted := strings.ReplaceAll(k, "/", ".")
		ok := (j.inLinux().Sysctl[k] == v || low && k == "net.ipv4.ip_unprivileged_port_start" && v == "0") && !strings.Contains(dotted, "..")
		if dotted == "net.ipv4.ping_group_range" {
			var from, to, low, high uint64
			_, err1 := fmt.Sscanf(j.inLinux().Sysctl[k], "%d %d", &from, &to)
			_, err2 := fmt.Sscanf(v, "%d %d", &low, &high)
			ok = err1 == nil && err2 == nil && low == from && high <= to
		}
		switch {
		case strings.HasPrefix(dotted, "net."):
			ok = ok && own["network"]
		case strings.HasPrefix(dotted, "fs.mqueue."), strings.HasPrefix(dotted, "kernel.msg"), strings.HasPrefix(dotted, "kernel.shm"), dotted == "kernel.sem":
			ok = ok && own["ipc"]
		case dotted == "kernel.domainname":
			ok = ok && own["uts"]
		default:
			ok = false
		}
		if !ok || strings.Contains(dotted, "forward") || strings.Contains(dotted, "route_localnet") {
			j.say("sysctl %s=%s", k, v)
		}
	}
}

func (j *judge) rest() {
	o, in := j.out, j.in
	if h := o.Hooks; h != nil && (j.plan.Network.Mode != policy.NetworkEngine || len(h.CreateRuntime)+len(h.CreateContainer)+len(h.StartContainer)+len(h.Poststart)+len(h.Poststop) > 0) {
		j.say("hooks")
	}
	for k, v := range o.Annotations {
		if in.Annotations[k] != v {
			j.say("annotation %s from nowhere", k)
		}
		for _, bad := range []string{"run.oci.", "org.criu.", "org.systemd.property.", "krun.", "module.wasm.image/"} {
			if strings.HasPrefix(strings.ToLower(k), bad) {
				j.say("annotation %s", k)
			}
		}
		if strings.EqualFold(k, "bundle") {
			j.say("annotation %s", k)
		}
	}
	l := o.Linux
	if l.IntelRdt != nil || l.MemoryPolicy != nil || l.Personality != nil && (l.Personality.Domain != specs.PerLinux || len(l.Personality.Flags) > 0) {
		j.say("placement or personality: %+v %+v %+v", l.IntelRdt, l.MemoryPolicy, l.Personality)
	}
	if o.Root.Path != in.Root.Path || in.Root.Readonly && !o.Root.Readonly {
		j.say("root %+v for %+v", o.Root, in.Root)
	}
	if l.CgroupsPath != j.inLinux().CgroupsPath || slices.Contains(strings.FieldsFunc(l.CgroupsPath, func(r rune) bool { return r == '/' || r == ':' }), "..") || strings.Trim(l.CgroupsPath, "/.") == "" && l.CgroupsPath != "" {
		j.say("cgroup path %q", l.CgroupsPath)
	}
	if !slices.Equal(o.Process.Args, in.Process.Args) || !sameEnv(o.Process.Env, in.Process.Env) || o.Process.Cwd != in.Process.Cwd ||
		o.Process.Terminal != in.Process.Terminal || in.Hostname != "" && o.Hostname != in.Hostname || o.Domainname != in.Domainname {
		j.say("the process is another one")
	}
	if c := o.Process.Cwd; !strings.HasPrefix(c, "/") || c == "/proc" || strings.HasPrefix(c, "/proc/") {
		j.say("working directory %q", c)
	}
	if o.Windows != nil || o.Solaris != nil || o.VM != nil || o.ZOS != nil || o.FreeBSD != nil {
		j.say("another platform")
	}
	if j.plan.Root.Size > j.pol.Root.Size || j.plan.Root.Inodes > j.pol.Root.Inodes || j.plan.Root.Size <= 0 {
		j.say("layer %+v", j.plan.Root)
	}
}

// sameEnv reports whether a process has the environment that was requested, and beside
// it none but the defaults.
func sameEnv(out, in []string) bool {
	if len(out) < len(in) || !slices.Equal(out[:len(in)], in) {
		return false
	}
	for _, e := range out[len(in):] {
		name, _, _ := strings.Cut(e, "=")
		known := slices.Contains([]string{"TAR_OPTIONS=--no-same-owner", "ASAN_OPTIONS=detect_leaks=0", "LSAN_OPTIONS=detect_leaks=0"}, e)
		if !known || slices.ContainsFunc(in, func(s string) bool { return strings.HasPrefix(s, name+"=") }) {
			return false
		}
	}
	return true
}
