package harden

import (
	"fmt"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/refusal"
	"agentjail.dev/runtime/spec/policy"
	"agentjail.dev/runtime/spec/report"
	"agentjail.dev/runtime/spec/rings"
)

// Process hardens a further process of a running jail: the same demands as at
// create. Engines pass their own capabilities and profile here, and with
// `docker exec --privileged` every capability there is.
func Process(in *specs.Process, pol policy.Policy, f Facts) (*specs.Process, *report.Report, error) {
	p := &pass{
		spec: &specs.Spec{Process: clone(in), Linux: &specs.Linux{}},
		pol:  pol, f: f, rep: new(report.Report),
	}
	if len(in.Args) == 0 {
		p.refuse(refusal.Arguments, "the process has no args")
	}
	for _, run := range []func(*pass){process, capabilities, environment, placeholders, lsm} {
		run(p)
	}
	if err := refusal.Join(p.refused); err != nil {
		return nil, p.rep, err
	}
	return p.spec.Process, p.rep, nil
}

// Resources hardens an update. Values that the update leaves out stay as they are in the running
// jail; policy limits the others. Zero also means left out, as with runc.
func Resources(in *specs.LinuxResources, pol policy.Policy, f Facts) (*specs.LinuxResources, *report.Report, error) {
	p := &pass{spec: &specs.Spec{}, pol: pol, f: f, rep: new(report.Report), update: true}
	if in == nil {
		return &specs.LinuxResources{}, p.rep, nil
	}
	r := clone(in)
	clampResources(p, r)
	const fixed = "a running jail's stay as they are"
	drop := func(ring rings.Ring, field string, n int) {
		if n > 0 {
			p.change(ring, report.Dropped, resources+field, fmt.Sprint(n), "", fixed)
		}
	}
	drop(rings.Access, "devices", len(r.Devices))
	drop(rings.Resources, "hugepageLimits", len(r.HugepageLimits))
	drop(rings.Resources, "rdma", len(r.Rdma))
	r.Devices, r.HugepageLimits, r.Rdma = nil, nil, nil
	// Throttles could be taken off the disks behind writable mounts.
	if b := r.BlockIO; b != nil {
		capRates(p, readRates, b.ThrottleReadBpsDevice, uint64(pol.Limits.IORead))
		capRates(p, writeRates, b.ThrottleWriteBpsDevice, uint64(pol.Limits.IOWrite))
	}
	if err := refusal.Join(p.refused); err != nil {
		return nil, p.rep, err
	}
	return r, p.rep, nil
}

// Updated returns a jail's limits after an update, as far as they size the jail: memory and
// processors.
func Updated(was, update *specs.LinuxResources) *specs.LinuxResources {
	out := clone(was)
	if out == nil {
		out = new(specs.LinuxResources)
	}
	if update == nil {
		return out
	}
	if m := update.Memory; m != nil {
		if out.Memory == nil {
			out.Memory = new(specs.LinuxMemory)
		}
		set(&out.Memory.Limit, m.Limit)
		set(&out.Memory.Swap, m.Swap)
	}
	if c := update.CPU; c != nil {
		if out.CPU == nil {
			out.CPU = new(specs.LinuxCPU)
		}
		set(&out.CPU.Quota, c.Quota)
		set(&out.CPU.Period, c.Period)
		if c.Cpus != "" {
			out.CPU.Cpus = c.Cpus
		}
	}
	for k, v := range update.Unified {
		if out.Unified == nil {
			out.Unified = map[string]string{}
		}
		out.Unified[k] = v
	}
	return out
}

// set replaces *to unless from is nil.
func set[T any](to **T, from *T) {
	if from != nil {
		*to = new(*from)
	}
}
