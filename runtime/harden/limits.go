package harden

import (
	"fmt"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/policy"
	"agentjail.dev/runtime/report"
)

// cpuPeriod is the usual period of the CPU controller in microseconds.
const cpuPeriod = 100000

// limits bounds what the jail uses up (cgroups(7)).
func limits(p *pass) {
	l := p.spec.Linux
	clampResources(p, l.Resources)
	ioLimits(p, l.Resources)
	if l.IntelRdt != nil {
		p.lost(report.Resources, "linux.intelRdt", "set", "", "cache allocation is the host's")
		l.IntelRdt = nil
	}
	if l.MemoryPolicy != nil {
		p.change(report.Resources, report.Dropped, "linux.memoryPolicy", "set", "", "memory placement is the host's")
		l.MemoryPolicy = nil
	}
	if l.Personality != nil && (l.Personality.Domain != specs.PerLinux || len(l.Personality.Flags) > 0) {
		p.lost(report.Kernel, "linux.personality", string(l.Personality.Domain), "", "native programs only")
		l.Personality = nil
	}
}

// clampResources is what create and update demand of resources alike.
func clampResources(p *pass, r *specs.LinuxResources) {
	pol := p.pol.Limits
	cg := p.f.Host.Cgroup
	const field = "linux.resources."

	if pol.Pids > 0 {
		switch {
		case !cg.Pids:
			p.missing(report.Resources, field+"pids", "the host has no pids control group: only RLIMIT_NPROC stands")
		case p.update && r.Pids == nil:
		case r.Pids == nil || r.Pids.Limit == nil || *r.Pids.Limit <= 0 || *r.Pids.Limit > pol.Pids:
			was := ""
			if r.Pids != nil && r.Pids.Limit != nil {
				was = fmt.Sprint(*r.Pids.Limit)
			}
			p.bound(field+"pids.limit", was, fmt.Sprint(pol.Pids), "a fork bomb stays inside")
			r.Pids = &specs.LinuxPids{Limit: ptr(pol.Pids)}
		}
	}

	memory(p, r, field)

	if pol.CPUs > 0 && cg.CPU && !(p.update && (r.CPU == nil || r.CPU.Quota == nil)) {
		if r.CPU == nil {
			r.CPU = &specs.LinuxCPU{}
		}
		c := r.CPU
		period := uint64(cpuPeriod)
		if c.Period != nil && *c.Period >= 1000 && *c.Period <= 1000000 {
			period = *c.Period
		} else if c.Period != nil && *c.Period != 0 {
			p.change(report.Resources, report.Dropped, field+"cpu.period", fmt.Sprint(*c.Period), fmt.Sprint(period), "outside the kernel's bounds")
			c.Quota = nil
		}
		quota := int64(pol.CPUs * float64(period))
		if c.Quota == nil || *c.Quota <= 0 || *c.Quota > quota {
			was := ""
			if c.Quota != nil {
				was = fmt.Sprint(*c.Quota)
			}
			p.bound(field+"cpu.quota", was, fmt.Sprintf("%d of %d", quota, period), fmt.Sprintf("%g processors", pol.CPUs))
			c.Quota, c.Period = ptr(quota), ptr(period)
		}
	} else if pol.CPUs > 0 && !cg.CPU {
		p.missing(report.Resources, field+"cpu", "the host has no cpu control group")
	}
	if r.CPU != nil {
		c := r.CPU
		if c.RealtimeRuntime != nil && *c.RealtimeRuntime > 0 || c.RealtimePeriod != nil && *c.RealtimePeriod > 0 {
			p.lost(report.Resources, field+"cpu.realtimeRuntime", "set", "", "real-time scheduling can starve the host")
		}
		c.RealtimeRuntime, c.RealtimePeriod = nil, nil
		if c.Idle != nil && *c.Idle == 0 {
			c.Idle = nil
		}
		if c.Burst != nil && *c.Burst > 0 {
			p.change(report.Resources, report.Dropped, field+"cpu.burst", fmt.Sprint(*c.Burst), "", "it goes beyond the quota")
			c.Burst = nil
		}
	}
	// Raw files of cgroup v2 would be written last, over all of the above.
	for _, k := range sortedKeys(r.Unified) {
		if unifiedSafe[k] {
			continue
		}
		p.change(report.Resources, report.Dropped, field+"unified["+short(k)+"]", short(r.Unified[k]), "", "it could go past a limit")
		delete(r.Unified, k)
	}
	if len(r.Unified) == 0 {
		r.Unified = nil
	}
}

// unifiedSafe are the control group files that can only slow a jail down or
// order it among others, and that no limit is kept in.
var unifiedSafe = map[string]bool{"memory.high": true, "cpu.weight": true, "io.weight": true, "cpuset.cpus": true, "cpuset.mems": true}

func memory(p *pass, r *specs.LinuxResources, field string) {
	limit := int64(p.pol.Limits.Memory)
	if limit == 0 {
		return
	}
	if p.f.Host.MemTotal > 0 {
		// A limit above what the host has is none.
		limit = min(limit, p.f.Host.MemTotal/4*3)
	}
	if !p.f.Host.Cgroup.Memory {
		p.missing(report.Resources, field+"memory", "the host has no memory control group")
		return
	}
	if p.update && (r.Memory == nil || r.Memory.Limit == nil) {
		if m := r.Memory; m != nil && m.Swap != nil && (*m.Swap <= 0 || *m.Swap > limit+int64(p.pol.Limits.Swap)) {
			m.Swap = ptr(limit + int64(p.pol.Limits.Swap))
		}
		return
	}
	if r.Memory == nil {
		r.Memory = &specs.LinuxMemory{}
	}
	m := r.Memory
	if m.Limit == nil || *m.Limit <= 0 || *m.Limit > limit {
		was := ""
		if m.Limit != nil && *m.Limit > 0 {
			was = policy.Size(*m.Limit).String()
		}
		p.bound(field+"memory.limit", was, policy.Size(limit).String(), "a memory bomb stays inside")
		m.Limit = ptr(limit)
	}
	// OCI's swap is memory and swap together.
	total := *m.Limit + int64(p.pol.Limits.Swap)
	switch {
	case !p.f.Host.Cgroup.Swap:
		if m.Swap != nil {
			p.change(report.Resources, report.Dropped, field+"memory.swap", fmt.Sprint(*m.Swap), "", "the host does not account swap")
		}
		m.Swap = nil
	case m.Swap == nil || *m.Swap <= 0 || *m.Swap > total:
		m.Swap = ptr(total)
		p.bound(field+"memory.swap", "", policy.Size(total).String(), "memory and swap together")
	case *m.Swap < *m.Limit:
		m.Swap = ptr(*m.Limit) // less than memory alone is invalid
	}
	if m.Reservation != nil && *m.Reservation > *m.Limit {
		m.Reservation = ptr(*m.Limit)
	}
	if m.DisableOOMKiller != nil && *m.DisableOOMKiller {
		p.lost(report.Resources, field+"memory.disableOOMKiller", "true", "", "a jail out of memory must not hang holding it")
		m.DisableOOMKiller = nil
	}
	m.Kernel, m.KernelTCP = nil, nil //nolint:staticcheck // deprecated, and refused by new kernels
	if m.CheckBeforeUpdate != nil && !*m.CheckBeforeUpdate {
		m.CheckBeforeUpdate = nil
	}
}

// ioLimits throttles the disks behind writable bind mounts, in bytes per
// second.
func ioLimits(p *pass, r *specs.LinuxResources) {
	rd, wr := uint64(p.pol.Limits.IORead), uint64(p.pol.Limits.IOWrite)
	if rd == 0 && wr == 0 {
		return
	}
	type device struct{ major, minor int64 }
	var devs []device
	for _, b := range p.plan.Binds {
		if b.ReadOnly {
			continue
		}
		f := p.f.Sources[b.Index]
		d := device{int64(f.DiskMajor), int64(f.DiskMinor)}
		if d.major == 0 || contains(devs, d) {
			continue
		}
		devs = append(devs, d)
	}
	if len(devs) == 0 {
		return
	}
	if !p.f.Host.Cgroup.IO {
		p.missing(report.Resources, "linux.resources.blockIO", "the host cannot throttle disks: writable mounts are as fast as the disk")
		return
	}
	if r.BlockIO == nil {
		r.BlockIO = &specs.LinuxBlockIO{}
	}
	for _, d := range devs {
		if rd > 0 {
			throttle(p, "throttleReadBpsDevice", &r.BlockIO.ThrottleReadBpsDevice, d.major, d.minor, rd)
		}
		if wr > 0 {
			throttle(p, "throttleWriteBpsDevice", &r.BlockIO.ThrottleWriteBpsDevice, d.major, d.minor, wr)
		}
	}
}

func throttle(p *pass, name string, list *[]specs.LinuxThrottleDevice, major, minor int64, rate uint64) {
	found := false
	for i := range *list {
		t := &(*list)[i]
		if t.Major != major || t.Minor != minor {
			continue
		}
		found = true
		if t.Rate == 0 || t.Rate > rate {
			t.Rate = rate
		}
	}
	if !found {
		t := specs.LinuxThrottleDevice{Rate: rate}
		t.Major, t.Minor = major, minor
		*list = append(*list, t)
		p.bound("linux.resources.blockIO."+name, "", fmt.Sprintf("%s/s on %d:%d", policy.Size(rate), major, minor), "the disk behind a writable mount stays usable")
	}
}

// bound reports a limit: lowered where there was a higher one, else set.
func (p *pass) bound(field, was, now, why string) {
	kind := report.Set
	if was != "" {
		kind = report.Lowered
	}
	p.change(report.Resources, kind, field, was, now, why)
}

func contains[T comparable](s []T, v T) bool {
	for _, x := range s {
		if x == v {
			return true
		}
	}
	return false
}
