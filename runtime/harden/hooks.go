package harden

import (
	"slices"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/spec/network"
	"agentjail.dev/runtime/spec/report"
	"agentjail.dev/runtime/spec/rings"
)

// NoHook is why a hook is dropped, but for one by which an engine would put its network into the
// jail.
const NoHook = "a jail runs no program of the host"

// hooks are programs of the host that the bundle names; some run with the
// image's environment (CVE-2025-23266). A jail runs none.
func hooks(p *pass) {
	h := p.spec.Hooks
	if h == nil {
		return
	}
	var kept *specs.Hooks
	for _, k := range []struct {
		name  string
		hooks []specs.Hook
	}{
		//lint:ignore SA1019 prestart is what Docker uses
		{"prestart", h.Prestart},
		{"createRuntime", h.CreateRuntime},
		{"createContainer", h.CreateContainer},
		{"startContainer", h.StartContainer},
		{"poststart", h.Poststart},
		{"poststop", h.Poststop},
	} {
		for _, hk := range k.hooks {
			if k.name == "prestart" && p.network.EngineHook && isSetKey(hk, p.f.ID) {
				if kept == nil {
					kept = &specs.Hooks{}
				}
				hk.Env = nil
				//lint:ignore SA1019 prestart is what Docker uses
				kept.Prestart = append(kept.Prestart, hk)
				continue
			}
			if k.name == "prestart" && p.network.HookOutside && p.plan.Network.Hook == nil && isSetKey(hk, p.f.ID) {
				p.plan.Network.Hook = &network.Hook{Path: hk.Path, Args: hk.Args}
				p.change(rings.Resources, report.Set, "hooks.prestart", short(hk.Path), "for the network helper",
					"the engine's network is for the helper outside, and not put into the jail; of the ports that it publishes, those answer that network.publish has")
				continue
			}
			why := NoHook
			if strings.Contains(strings.Join(hk.Args, " "), "libnetwork-setkey") {
				why = "this would put the engine's network into the jail"
			}
			p.change(rings.Resources, report.Dropped, "hooks."+k.name, short(hk.Path), "", why)
		}
	}
	p.spec.Hooks = kept
}

// isSetKey recognises the hook by which Docker up to 27 learns of a container's
// network namespace, to put its interface there. The program is the daemon
// itself, by its process; nothing of the image or the caller is in its words.
func isSetKey(h specs.Hook, id string) bool {
	pid, ok := strings.CutPrefix(h.Path, "/proc/")
	if !ok {
		return false
	}
	pid, ok = strings.CutSuffix(pid, "/exe")
	if !ok || pid == "" || strings.Trim(pid, "0123456789") != "" {
		return false
	}
	return len(h.Args) >= 3 && len(h.Args) <= 5 && h.Args[0] == "libnetwork-setkey" && slices.Contains(h.Args, id)
}
