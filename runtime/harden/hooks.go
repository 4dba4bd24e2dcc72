package harden

import (
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/report"
)

// hooks are programs of the host that the bundle names; some run with the
// image's environment (CVE-2025-23266). A jail runs none.
func hooks(p *pass) {
	h := p.spec.Hooks
	if h == nil {
		return
	}
	for _, k := range []struct {
		name  string
		hooks []specs.Hook
	}{
		//lint:ignore SA1019 prestart is what Docker uses
		{"prestart", h.Prestart}, {"createRuntime", h.CreateRuntime}, {"createContainer", h.CreateContainer},
		{"startContainer", h.StartContainer}, {"poststart", h.Poststart}, {"poststop", h.Poststop},
	} {
		for _, hk := range k.hooks {
			why := "a jail runs no program of the host"
			if strings.Contains(strings.Join(hk.Args, " "), "libnetwork-setkey") {
				why = "this would put the engine's network into the jail"
			}
			p.change(report.Resources, report.Dropped, "hooks."+k.name, short(hk.Path), "", why)
		}
	}
	p.spec.Hooks = nil
}
