package harden

import (
	"fmt"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/spec/policy"
	"agentjail.dev/runtime/spec/report"
	"agentjail.dev/runtime/spec/rings"
)

const resources = "linux.resources."

// limits bounds the jail's use of resources (cgroups(7)).
func limits(p *pass) {
	l := p.spec.Linux
	cg := p.f.Host.Cgroup
	whose := "the host has"
	if p.f.Host.Rootless {
		whose = "the user who runs the engine has"
	}
	if p.pol.Limits.Pids > 0 && !cg.Pids {
		p.missing(rings.Resources, resources+"pids", whose+" no pids control group: only RLIMIT_NPROC stands")
	}
	if p.pol.Limits.Memory > 0 && !cg.Memory {
		p.missing(rings.Resources, resources+"memory", whose+" no memory control group")
	}
	if p.pol.Limits.CPUs > 0 && !cg.CPU {
		p.missing(rings.Resources, resources+"cpu", whose+" no cpu control group")
	}
	clampResources(p, l.Resources)
	throttles(p, l.Resources)
	if l.IntelRdt != nil {
		p.deny(rings.Resources, "linux.intelRdt", "set", "", "cache allocation is the host's")
		l.IntelRdt = nil
	}
	if l.MemoryPolicy != nil {
		p.change(rings.Resources, report.Dropped, "linux.memoryPolicy", "set", "", "memory placement is the host's")
		l.MemoryPolicy = nil
	}
	if l.Personality != nil && (l.Personality.Domain != specs.PerLinux || len(l.Personality.Flags) > 0) {
		p.deny(rings.Kernel, "linux.personality", string(l.Personality.Domain), "", "native programs only")
		l.Personality = nil
	}
}

// clampResources limits resources for both create and update. In an update, a missing value keeps
// the running jail's value. Zero counts as missing where the delegate treats it so.
func clampResources(p *pass, r *specs.LinuxResources) {
	unified(p, r)
	pids(p, r)
	memory(p, r)
	sockets(p, r)
	hugePages(p, r)
	cpu(p, r)
	if r.Network != nil {
		p.change(rings.Resources, report.Dropped, resources+"network", "set", "", "the jail's network is empty")
		r.Network = nil
	}
}

func pids(p *pass, r *specs.LinuxResources) {
	max := p.pol.Limits.Pids
	given := r.Pids != nil && r.Pids.Limit != nil && *r.Pids.Limit != 0
	switch {
	case p.update && !given:
		r.Pids = nil
	case max == 0:
	case given && (*r.Pids.Limit < 0 || *r.Pids.Limit > max):
		p.above("pids", resources+"pids.limit", number(*r.Pids.Limit), fmt.Sprint(max), "limits.pids: a fork bomb stays inside")
		r.Pids = &specs.LinuxPids{Limit: new(max)}
	case !given && p.f.Host.Cgroup.Pids:
		p.bound(resources+"pids.limit", "", fmt.Sprint(max), "a fork bomb stays inside")
		r.Pids = &specs.LinuxPids{Limit: new(max)}
	case !given:
		r.Pids = nil
	}
}

// memoryCap is policy's limit on this host, or 0 for none.
func memoryCap(p *pass) int64 { return int64(p.pol.MaxMemory(p.f.Host.MemTotal)) }

func memory(p *pass, r *specs.LinuxResources) {
	const field = resources + "memory."
	limit := memoryCap(p)
	if r.Memory == nil {
		if p.update || limit == 0 || !p.f.Host.Cgroup.Memory {
			return
		}
		r.Memory = &specs.LinuxMemory{}
	}
	m := r.Memory
	for _, v := range []**int64{&m.Limit, &m.Swap, &m.Reservation} {
		if *v != nil && **v == 0 {
			*v = nil // as good as absent
		}
	}
	given := m.Limit != nil
	requested := m.Limit
	switch {
	case p.update && !given:
		if m.Swap != nil {
			// The limit decides how much swap that is.
			p.change(rings.Resources, report.Dropped, field+"swap", fmt.Sprint(*m.Swap), "",
				"the value is memory and swap together: set both")
			m.Swap = nil
		}
	case limit == 0:
	case given && (*m.Limit < 0 || *m.Limit > limit):
		p.above("", field+"limit", sizeText(*m.Limit), sizeText(limit), "limits.memory: a memory bomb stays inside")
		m.Limit = new(limit)
	case !given && p.f.Host.Cgroup.Memory:
		p.bound(field+"limit", "", policy.Size(limit).String(), "a memory bomb stays inside")
		m.Limit = new(limit)
	}
	if limit > 0 && m.Limit != nil {
		swap(p, m, requested, field)
	}
	if m.Reservation != nil {
		// In version 2 this keeps the jail's memory from being reclaimed
		// (memory.low), and -1 all of it.
		most := limit
		if m.Limit != nil && *m.Limit > 0 && (most == 0 || *m.Limit < most) {
			most = *m.Limit
		}
		if *m.Reservation < 0 || most > 0 && *m.Reservation > most {
			p.above("", field+"reservation", sizeText(*m.Reservation), "", "limits.memory: more than the limit")
			m.Reservation = nil
		}
	}
	if m.DisableOOMKiller != nil {
		if *m.DisableOOMKiller {
			p.deny(rings.Resources, field+"disableOOMKiller", "true", "", "a jail out of memory must not hang holding it")
		}
		m.DisableOOMKiller = nil
	}
	// Kernel memory is part of the limit, and its own one is refused by new
	// kernels; without hierarchy, groups below would not count.
	//lint:ignore SA1019 an old bundle may have it
	m.Kernel, m.UseHierarchy = nil, nil
	if m.CheckBeforeUpdate != nil && !*m.CheckBeforeUpdate {
		m.CheckBeforeUpdate = nil
	}
	if *m == (specs.LinuxMemory{}) {
		r.Memory = nil
	}
}

// swap bounds memory and swap together, as OCI counts them. requested is the memory limit of the
// bundle, from which engines compute their default.
func swap(p *pass, m *specs.LinuxMemory, requested *int64, field string) {
	if !p.f.Host.Cgroup.Swap {
		if m.Swap != nil {
			p.change(rings.Resources, report.Dropped, field+"swap", fmt.Sprint(*m.Swap), "", "the host does not account swap")
		}
		m.Swap = nil
		return
	}
	total := *m.Limit + int64(p.pol.Limits.Swap)
	switch {
	case m.Swap == nil || *m.Swap < 0 || *m.Swap > total:
		const why = "limits.swap: memory and swap together"
		switch {
		case m.Swap == nil, requested != nil && *m.Swap == 2*(*requested): // Docker's and Podman's default
			p.bound(field+"swap", "", sizeText(total), why)
		case requested != nil && *m.Swap >= 0 && *m.Swap-*requested <= int64(p.pol.Limits.Swap):
			p.bound(field+"swap", sizeText(*m.Swap), sizeText(total), why) // as the memory was lowered
		default:
			p.above("", field+"swap", sizeText(*m.Swap), sizeText(total), why)
		}
		m.Swap = new(total)
	case *m.Swap < *m.Limit:
		m.Swap = new(*m.Limit) // less than memory alone is invalid
	}
}

// The CPU controller's period in microseconds, and the kernel's bounds on it
// and on the quota (kernel/sched/core.c, tg_set_cfs_bandwidth).
const (
	cpuPeriod    = 100000
	cpuPeriodMin = 1000
	cpuPeriodMax = 1000000
	cpuQuotaMin  = 1000
)

func cpu(p *pass, r *specs.LinuxResources) {
	const field = resources + "cpu."
	if r.CPU == nil {
		if p.update || p.pol.Limits.CPUs == 0 || !p.f.Host.Cgroup.CPU {
			return
		}
		r.CPU = &specs.LinuxCPU{}
	}
	c := r.CPU
	if c.Quota != nil && *c.Quota == 0 {
		c.Quota = nil
	}
	if c.Period != nil && *c.Period == 0 {
		c.Period = nil
	}
	if p.pol.Limits.CPUs > 0 {
		quota(p, c, field)
	}
	if c.RealtimeRuntime != nil && *c.RealtimeRuntime != 0 || c.RealtimePeriod != nil && *c.RealtimePeriod != 0 {
		p.deny(rings.Resources, field+"realtimeRuntime", "set", "", "real-time scheduling can starve the host")
	}
	c.RealtimeRuntime, c.RealtimePeriod = nil, nil
	if c.Idle != nil && *c.Idle == 0 && !p.update { // where a group begins; an update goes back to it
		c.Idle = nil
	}
	if c.Burst != nil {
		if *c.Burst > 0 {
			p.above("", field+"burst", fmt.Sprint(*c.Burst), "", "it goes beyond the quota")
		}
		c.Burst = nil
	}
	if *c == (specs.LinuxCPU{}) {
		r.CPU = nil
	}
}

// quota bounds processor time per period. Quota and period have a meaning only together, so that
// an update has to set both.
func quota(p *pass, c *specs.LinuxCPU, field string) {
	if c.Quota == nil && p.update {
		if c.Period != nil {
			p.change(rings.Resources, report.Dropped, field+"period", fmt.Sprint(*c.Period), "",
				"a period without a quota would change the share")
			c.Period = nil
		}
		return
	}
	if c.Quota == nil && !p.f.Host.Cgroup.CPU {
		return // nothing to bound, and nothing to bound it with
	}
	period := uint64(cpuPeriod)
	if c.Period != nil {
		period = *c.Period
	}
	if period < cpuPeriodMin || period > cpuPeriodMax {
		p.change(rings.Resources, report.Dropped, field+"period", fmt.Sprint(period), fmt.Sprint(cpuPeriod),
			"outside the kernel's bounds")
		period, c.Quota = cpuPeriod, nil
	}
	most := int64(p.pol.Limits.CPUs * float64(period))
	if most < cpuQuotaMin {
		// The share is too small for this period: only a longer period can express it.
		period, most = cpuPeriodMax, max(int64(p.pol.Limits.CPUs*cpuPeriodMax), cpuQuotaMin)
		c.Quota = nil
	}
	why := fmt.Sprintf("limits.cpus: %g processors", p.pol.Limits.CPUs)
	if above := p.f.ParentQuota; above.Quota > 0 && above.of(period) < most {
		// With less, a longer period would be needed; the group above has the bound all the same.
		most, why = max(above.of(period), cpuQuotaMin), "as the control group above"
	}
	if c.Quota == nil || *c.Quota < 0 || *c.Quota > most {
		now := fmt.Sprintf("%d of %d", most, period)
		if c.Quota != nil {
			p.above("quota", field+"quota", number(*c.Quota), now, why)
		} else {
			p.bound(field+"quota", "", now, why)
		}
		c.Quota = new(most)
	}
	c.Period = new(period)
}
