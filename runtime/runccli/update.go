package runccli

import (
	"fmt"
	"strconv"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/spec/policy"
)

// An updateFlag is one of runc's flags for update and the field that it sets.
type updateFlag struct {
	name, usage string
	set         func(*specs.LinuxResources, string) error
}

var updateFlags = []updateFlag{
	{
		"memory", "memory limit in `BYTES`, or with a unit as 512m; more than policy's limits.memory is lowered to it",
		bytesInto(func(r *specs.LinuxResources, v int64) { mem(r).Limit = &v }),
	},
	{"memory-reservation", "soft memory limit in `BYTES`, or with a unit", bytesInto(func(r *specs.LinuxResources, v int64) {
		mem(r).Reservation = &v
	})},
	{"memory-swap", "limit of memory and swap together in `BYTES`, or with a unit", bytesInto(func(r *specs.LinuxResources, v int64) { mem(r).Swap = &v })},
	{"cpu-period", "period of the quota in `MICROSECONDS`", uintInto(64, func(r *specs.LinuxResources, v uint64) {
		cpu(r).Period = &v
	})},
	{"cpu-quota", "processor time per period in `MICROSECONDS`", intInto(func(r *specs.LinuxResources, v int64) {
		cpu(r).Quota = &v
	})},
	{"cpu-burst", "denied: it exceeds the quota", uintInto(64, func(r *specs.LinuxResources, v uint64) { cpu(r).Burst = &v })},
	{"cpu-share", "`WEIGHT` against other groups, 2 to 262144", uintInto(64, func(r *specs.LinuxResources, v uint64) {
		cpu(r).Shares = &v
	})},
	{"cpu-idle", "`1`: run only when others are idle", intInto(func(r *specs.LinuxResources, v int64) { cpu(r).Idle = &v })},
	{"cpuset-cpus", "processors to use, as `0-2,4`", func(r *specs.LinuxResources, v string) error { cpu(r).Cpus = v; return nil }},
	{"cpuset-mems", "NUMA nodes to use, as `0-1`", func(r *specs.LinuxResources, v string) error { cpu(r).Mems = v; return nil }},
	{
		"pids-limit", "`NUMBER` of processes and threads; more than policy's limits.pids is lowered to it",
		intInto(func(r *specs.LinuxResources, v int64) { r.Pids = &specs.LinuxPids{Limit: &v} }),
	},
	{"blkio-weight", "`WEIGHT` against other groups, 10 to 1000", uintInto(16, func(r *specs.LinuxResources, v uint64) {
		w := uint16(v)
		r.BlockIO = &specs.LinuxBlockIO{Weight: &w}
	})},
	{"cpu-rt-period", "denied: no real-time scheduling", uintInto(64, func(r *specs.LinuxResources, v uint64) {
		cpu(r).RealtimePeriod = &v
	})},
	{"cpu-rt-runtime", "denied: no real-time scheduling", intInto(func(r *specs.LinuxResources, v int64) {
		cpu(r).RealtimeRuntime = &v
	})},
	{"kernel-memory", "ignored: obsolete", func(*specs.LinuxResources, string) error { return nil }},
	{"kernel-memory-tcp", "ignored: obsolete", func(*specs.LinuxResources, string) error { return nil }},
}

func mem(r *specs.LinuxResources) *specs.LinuxMemory {
	if r.Memory == nil {
		r.Memory = &specs.LinuxMemory{}
	}
	return r.Memory
}

func cpu(r *specs.LinuxResources) *specs.LinuxCPU {
	if r.CPU == nil {
		r.CPU = &specs.LinuxCPU{}
	}
	return r.CPU
}

func intInto(set func(*specs.LinuxResources, int64)) func(*specs.LinuxResources, string) error {
	return func(r *specs.LinuxResources, s string) error {
		v, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			return fmt.Errorf("%q is not a whole number", s)
		}
		set(r, v)
		return nil
	}
}

func uintInto(bits int, set func(*specs.LinuxResources, uint64)) func(*specs.LinuxResources, string) error {
	return func(r *specs.LinuxResources, s string) error {
		v, err := strconv.ParseUint(s, 10, bits)
		if err != nil {
			return fmt.Errorf("%q is not a whole number from 0 to %d", s, uint64(1)<<bits-1)
		}
		set(r, v)
		return nil
	}
}

// bytesInto reads sizes as runc and Docker do: 64m, 64MB and 64MiB are the same; -1 is no limit.
func bytesInto(set func(*specs.LinuxResources, int64)) func(*specs.LinuxResources, string) error {
	return func(r *specs.LinuxResources, s string) error {
		if s == "-1" {
			set(r, -1)
			return nil
		}
		v, err := policy.ParseSize(s)
		if err != nil {
			return fmt.Errorf("%w; -1 is no limit", err)
		}
		set(r, int64(v))
		return nil
	}
}

func update() Verb {
	flags := []Flag{{Name: "resources", Short: "r", Usage: "limits as JSON, from `FILE`; - is standard input"}}
	for _, f := range updateFlags {
		flags = append(flags, Flag{Name: f.name, Usage: f.usage})
	}
	return Verb{
		Name: "update", Usage: "change a jail's limits, within policy", Args: "CONTAINER", Flags: flags, Run: runUpdate,
		Description: "What is not named stays as it is. Values beyond policy are lowered to policy's.",
	}
}

func runUpdate(c *Call) error {
	rt, id, err := c.jail()
	if err != nil {
		return err
	}
	r := new(specs.LinuxResources)
	if path := c.String("resources"); path != "" {
		if r, err = rt.ReadResources(path); err != nil {
			return err
		}
	}
	for _, f := range updateFlags {
		if v := c.String(f.name); v != "" {
			if err := f.set(r, v); err != nil {
				return fmt.Errorf("--%s: %w", f.name, err)
			}
		}
	}
	return rt.Update(id, r)
}
