package harden

import (
	"fmt"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/protect"
	"agentjail.dev/runtime/spec/bindsource"
	"agentjail.dev/runtime/spec/plan"
	"agentjail.dev/runtime/spec/report"
	"agentjail.dev/runtime/spec/rings"
)

// protectBind decides which files of a writable bind mount are protected from the jail, and
// whether the mount as a whole becomes read-only because the host runs it.
func protectBind(p *pass, m *specs.Mount, f *bindsource.Fact, b *plan.Bind, readOnly bool) bool {
	if f.Role == bindsource.Injected {
		return readOnly // the engine made it for this container
	}
	pol := p.pol.Binds
	for _, name := range f.AllNames() {
		if !pol.Protect || readOnly {
			break
		}
		if e, at := protect.Within(name, f.Home(), pol.Unprotect); e != nil {
			readOnly = true
			p.change(rings.Access, report.Lowered, mountField(m), "writable", "read-only",
				fmt.Sprintf("%s: %s (policy: binds.unprotect)", at, e.Why))
		}
	}
	if f.Kind != bindsource.Dir {
		return readOnly
	}
	b.Hide = len(pol.Hide) > 0
	if pol.Protect && !readOnly {
		b.Protect = true
		// The host runs nothing of a volume by its name, and programs want new ones
		// to be empty.
		b.Absent = f.Role == bindsource.Plain
	}
	return readOnly
}
