package harden

import (
	"fmt"
	"slices"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/spec/report"
	"agentjail.dev/runtime/spec/rings"
)

// hugePages denies the pages of the host's reserved pool, which count against
// no memory limit (hugetlbpage.rst). The filter refuses to request them; this
// stands where an image's or a volume's own way to them is found. Kubernetes
// sets the same 0 for containers that request none.
func hugePages(p *pass, r *specs.LinuxResources) {
	if p.update {
		return // a running jail's limits stay (see Resources)
	}
	const field = resources + "hugepageLimits"
	limits := slices.Clone(r.HugepageLimits)
	for _, size := range p.f.Host.HugePages {
		i := slices.IndexFunc(limits, func(l specs.LinuxHugepageLimit) bool { return l.Pagesize == size })
		switch {
		case i < 0:
			limits = append(limits, specs.LinuxHugepageLimit{Pagesize: size})
			p.change(rings.Resources, report.Set, field+"["+size+"]", "", "0", "no memory limit counts them")
		case limits[i].Limit > 0:
			p.above("", field+"["+size+"]", fmt.Sprint(limits[i].Limit), "0", "no memory limit counts them")
			limits[i].Limit = 0
		}
	}
	r.HugepageLimits = limits
}
