package harden

import (
	"fmt"
	"slices"

	"agentjail.dev/runtime/spec/lists"
	"agentjail.dev/runtime/spec/plan"
	"agentjail.dev/runtime/spec/report"
	"agentjail.dev/runtime/spec/rings"
)

// paths makes the masked and read-only paths a superset of the incoming ones,
// where a masked path counts as read-only. A privileged container comes with
// none.
func paths(p *pass) {
	l := p.spec.Linux
	if len(l.MaskedPaths) == 0 && len(l.ReadonlyPaths) == 0 {
		p.deny(rings.Access, "linux.maskedPaths", "none", "all", "kernel tunables and the host's secrets in /proc and /sys stay out of reach")
	}
	l.MaskedPaths = union(p, "linux.maskedPaths", l.MaskedPaths, plan.MaskedPaths(), p.f.Host.LoadFiles)
	l.ReadonlyPaths = union(p, "linux.readonlyPaths", l.ReadonlyPaths, plan.ReadonlyPaths())
	l.ReadonlyPaths = slices.DeleteFunc(l.ReadonlyPaths, func(s string) bool { return slices.Contains(l.MaskedPaths, s) })
	switch l.RootfsPropagation {
	case "", "private", "rprivate", "slave", "rslave", "unbindable", "runbindable":
	default:
		p.deny(rings.Resources, "linux.rootfsPropagation", l.RootfsPropagation, "rprivate", "a jail's mounts do not travel to the host")
	}
	l.RootfsPropagation = "rprivate"
}

func union(p *pass, field string, have []string, want ...[]string) []string {
	out := lists.Union(slices.Clone(have), slices.Concat(want...)...)
	if added := len(out) - len(have); added > 0 && len(have) > 0 {
		p.change(rings.Access, report.Set, field, fmt.Sprintf("%d paths", len(have)), fmt.Sprintf("%d paths", len(out)),
			"paths that reveal the host or control its kernel")
	}
	return out
}
