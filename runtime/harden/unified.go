package harden

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/spec/policy"
	"agentjail.dev/runtime/spec/report"
	"agentjail.dev/runtime/spec/rings"
)

// unifiedRules are the files of a control group of version 2 that a bundle may write directly
// (OCI runtime-spec, config-linux.md, Unified). Delegates write these files last, over the values
// of the other fields, so that policy limits each here. Files are left out that protect the
// jail's share from others (memory.min, memory.low, io.latency, cpu.uclamp.min,
// cpuset.cpus.partition), exceed a limit (cpu.max.burst), or act on the group (cgroup.*,
// memory.reclaim). See Documentation/admin-guide/cgroup-v2.rst.
var unifiedRules = map[string]func(p *pass, v string) bool{
	"pids.max":   func(p *pass, v string) bool { return atMost(v, p.pol.Limits.Pids) },
	"memory.max": func(p *pass, v string) bool { return atMost(v, memoryCap(p)) },
	"memory.swap.max": func(p *pass, v string) bool {
		return memoryCap(p) == 0 || v == "0" || p.pol.Limits.Swap > 0 && atMost(v, int64(p.pol.Limits.Swap))
	},
	"cpu.max":          cpuMax,
	"io.max":           ioMax,
	"memory.high":      anyValue,
	"memory.swap.high": anyValue,
	"memory.zswap.max": anyValue,
	"memory.oom.group": anyValue,
	"cpu.weight":       anyValue,
	"cpu.idle":         anyValue,
	"cpu.uclamp.max":   anyValue,
	"io.weight":        anyValue,
	"io.bfq.weight":    anyValue,
	"cpuset.cpus":      anyValue,
	"cpuset.mems":      anyValue,
	"rdma.max":         anyValue,
	"misc.max":         anyValue,
}

func none(_ *pass, v string) bool { return v == "0" }

// unified drops the files that could go past a limit.
func unified(p *pass, r *specs.LinuxResources) {
	for _, k := range slices.Sorted(maps.Keys(r.Unified)) {
		v := r.Unified[k]
		ok := unifiedRules[k]
		if strings.HasPrefix(k, "hugetlb.") && strings.HasSuffix(k, ".max") && len(k) > len("hugetlb..max") &&
			!strings.Contains(k, "/") {
			ok = none
		}
		if ok != nil && !strings.ContainsAny(v, "\n\r") && ok(p, v) {
			continue
		}
		field := resources + "unified[" + short(k) + "]"
		if ok != nil {
			p.above("", field, short(v), "", "it goes past a limit of policy's")
		} else {
			p.change(rings.Resources, report.Dropped, field, short(v), "", "it could go past a limit, or before others")
		}
		delete(r.Unified, k)
	}
	if len(r.Unified) == 0 {
		r.Unified = nil
	}
}

// atMost is for a number within a bound, of which 0 is none.
func atMost(v string, bound int64) bool {
	if bound == 0 {
		return true
	}
	n, err := strconv.ParseInt(v, 10, 64)
	return err == nil && n >= 0 && n <= bound
}

// cpuMax is QUOTA PERIOD, or QUOTA alone with the period as it is.
func cpuMax(p *pass, v string) bool {
	if p.pol.Limits.CPUs == 0 {
		return true
	}
	f := strings.Fields(v)
	if len(f) != 2 {
		return false
	}
	quota, err1 := strconv.ParseInt(f[0], 10, 64)
	period, err2 := strconv.ParseInt(f[1], 10, 64)
	return err1 == nil && err2 == nil && quota > 0 && period >= cpuPeriodMin && period <= cpuPeriodMax &&
		float64(quota) <= p.pol.Limits.CPUs*float64(period)
}

// ioMax is MAJOR:MINOR KEY=VALUE... of one disk.
func ioMax(p *pass, v string) bool {
	for i, f := range strings.Fields(v) {
		if i == 0 {
			continue
		}
		k, n, _ := strings.Cut(f, "=")
		var bound policy.Size
		switch k {
		case "rbps":
			bound = p.pol.Limits.IORead
		case "wbps":
			bound = p.pol.Limits.IOWrite
		case "riops", "wiops":
		default:
			return false
		}
		if !atMost(n, int64(bound)) {
			return false
		}
	}
	return true
}
