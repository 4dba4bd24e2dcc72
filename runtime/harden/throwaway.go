package harden

import (
	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/refusal"
	"agentjail.dev/runtime/spec/bindsource"
	"agentjail.dev/runtime/spec/plan"
	"agentjail.dev/runtime/spec/report"
	"agentjail.dev/runtime/spec/rings"
)

// throwAway decides on a directory whose changes end with the jail. The directory itself is only
// read: what may be mounted read-only may be mounted so.
func throwAway(p *pass, i int, m *specs.Mount, f *bindsource.Fact) {
	if f.Kind != bindsource.Dir {
		p.addRefusal(refusal.New(refusal.BindSource, "a %s has no changes to throw away", f.Kind).About("mount of %s at %s", m.Source,
			m.Destination))
		return
	}
	if !mayMount(p, m, f, true, false) {
		return
	}
	b := plan.Bind{
		Index: i, NonRecursive: true, NoExec: has(m.Options, "noexec", "rnoexec"), Source: f.Path, Storage: plan.StorageThrowAway,
		Owner: owner(p, m, f, true, f.IsPublic()),
	}
	p.change(rings.Resources, report.Set, mountField(m), "", "changes in the ephemeral layer",
		"they end with the jail, and its size bounds them")
	bindOptions(p, m, f, &b)
	p.plan.Binds = append(p.plan.Binds, b)
}
