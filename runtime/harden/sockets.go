package harden

import (
	"fmt"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/spec/report"
	"agentjail.dev/runtime/spec/rings"
)

// sockets bounds the buffers of the jail's sockets, UDP's among them, on control
// groups of version 1, which do not count them as memory
// (Documentation/admin-guide/cgroup-v1/memory.rst, 2.7 and 4;
// mm/memcontrol-v1.c). On version 2 they are a part of the memory limit.
func sockets(p *pass, r *specs.LinuxResources) {
	const field, why = resources + "memory.kernelTCP", "the kernel has one budget for all sockets of the host"
	var requested *int64
	if r.Memory != nil {
		requested, r.Memory.KernelTCP = r.Memory.KernelTCP, nil
	}
	if requested != nil && *requested == 0 {
		requested = nil // as good as absent
	}
	limit, cg := int64(p.pol.Limits.Sockets), p.f.Host.Cgroup
	switch {
	case p.update && requested != nil:
		p.change(rings.Resources, report.Dropped, field, fmt.Sprint(*requested), "", "a running jail's stays as it is")
	case p.update:
	case !cg.Sockets:
		if limit > 0 && cg.Memory && !cg.V2 {
			p.missing(rings.Resources, field, "this kernel does not count socket buffers (CONFIG_MEMCG_V1): only the number of open files bounds them")
		}
		if requested != nil {
			p.change(rings.Resources, report.Dropped, field, fmt.Sprint(*requested), "", "the host has no limit of its own for them")
		}
	case requested != nil && *requested > 0 && (limit == 0 || *requested <= limit):
		setSockets(r, *requested)
	case requested != nil && limit > 0:
		p.above("", field, sizeText(*requested), sizeText(limit), "limits.sockets: "+why)
		setSockets(r, limit)
	case limit > 0:
		p.bound(field, "", sizeText(limit), why)
		setSockets(r, limit)
	}
	if r.Memory != nil && *r.Memory == (specs.LinuxMemory{}) {
		r.Memory = nil
	}
}

func setSockets(r *specs.LinuxResources, n int64) {
	if r.Memory == nil {
		r.Memory = &specs.LinuxMemory{}
	}
	r.Memory.KernelTCP = new(n)
}
