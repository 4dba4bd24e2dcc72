package runccli

import (
	"fmt"
	"strconv"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/spec/policy"
)

// limits are those of a control group.
type limits = specs.LinuxResources

// An updateFlag is one of runc's flags for update and the field that it sets.
type updateFlag struct {
	name, usage string
	set         func(*limits, string) error
}

var updateFlags = []updateFlag{
	{
		"memory", "memory limit in `BYTES`, or with a unit as 512m; more than policy's limits.memory is lowered to it",
		size(func(r *limits) **int64 { return &mem(r).Limit }),
	},
	{
		"memory-reservation", "soft memory limit in `BYTES`, or with a unit",
		size(func(r *limits) **int64 { return &mem(r).Reservation }),
	},
	{
		"memory-swap", "limit of memory and swap together in `BYTES`, or with a unit",
		size(func(r *limits) **int64 { return &mem(r).Swap }),
	},
	{"cpu-period", "period of the quota in `MICROSECONDS`", unsigned(64, func(r *limits) **uint64 { return &cpu(r).Period })},
	{"cpu-quota", "processor time per period in `MICROSECONDS`", signed(func(r *limits) **int64 { return &cpu(r).Quota })},
	{"cpu-burst", "denied: it exceeds the quota", unsigned(64, func(r *limits) **uint64 { return &cpu(r).Burst })},
	{"cpu-share", "`WEIGHT` against other groups, 2 to 262144", unsigned(64, func(r *limits) **uint64 { return &cpu(r).Shares })},
	{"cpu-idle", "`1`: run only when others are idle", signed(func(r *limits) **int64 { return &cpu(r).Idle })},
	{"cpuset-cpus", "processors to use, as `0-2,4`", func(r *limits, v string) error { cpu(r).Cpus = v; return nil }},
	{"cpuset-mems", "NUMA nodes to use, as `0-1`", func(r *limits, v string) error { cpu(r).Mems = v; return nil }},
	{
		"pids-limit", "`NUMBER` of processes and threads; more than policy's limits.pids is lowered to it",
		signed(func(r *limits) **int64 { r.Pids = &specs.LinuxPids{}; return &r.Pids.Limit }),
	},
	{
		"blkio-weight", "`WEIGHT` against other groups, 10 to 1000",
		unsigned(16, func(r *limits) **uint16 { r.BlockIO = &specs.LinuxBlockIO{}; return &r.BlockIO.Weight }),
	},
	{"cpu-rt-period", "denied: no real-time scheduling", unsigned(64, func(r *limits) **uint64 { return &cpu(r).RealtimePeriod })},
	{"cpu-rt-runtime", "denied: no real-time scheduling", signed(func(r *limits) **int64 { return &cpu(r).RealtimeRuntime })},
	{"kernel-memory", "ignored: obsolete", func(*limits, string) error { return nil }},
	{"kernel-memory-tcp", "ignored: obsolete", func(*limits, string) error { return nil }},
}

func mem(r *limits) *specs.LinuxMemory {
	if r.Memory == nil {
		r.Memory = &specs.LinuxMemory{}
	}
	return r.Memory
}

func cpu(r *limits) *specs.LinuxCPU {
	if r.CPU == nil {
		r.CPU = &specs.LinuxCPU{}
	}
	return r.CPU
}

func signed(field func(*limits) **int64) func(*limits, string) error {
	return func(r *limits, s string) error {
		v, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			return fmt.Errorf("%q is not a whole number", s)
		}
		*field(r) = &v
		return nil
	}
}

func unsigned[T uint16 | uint64](bits int, field func(*limits) **T) func(*limits, string) error {
	return func(r *limits, s string) error {
		v, err := strconv.ParseUint(s, 10, bits)
		if err != nil {
			return fmt.Errorf("%q is not a whole number from 0 to %d", s, uint64(1)<<bits-1)
		}
		*field(r) = new(T(v))
		return nil
	}
}

// size reads sizes as runc and Docker do: 64m, 64MB and 64MiB are the same; -1 is no limit.
func size(field func(*limits) **int64) func(*limits, string) error {
	return func(r *limits, s string) error {
		if s == "-1" {
			*field(r) = new(int64(-1))
			return nil
		}
		v, err := policy.ParseSize(s)
		if err != nil {
			return fmt.Errorf("%w; -1 is no limit", err)
		}
		*field(r) = new(int64(v))
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
