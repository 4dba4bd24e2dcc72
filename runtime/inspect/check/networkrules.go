package check

import (
	"fmt"
	"strings"

	"agentjail.dev/runtime/network/modes"
	"agentjail.dev/runtime/spec/netrules/publicsuffix"
	"agentjail.dev/runtime/spec/network"
	"agentjail.dev/runtime/spec/policy"
)

// maxWarned bounds the warnings that are shown.
const maxWarned = 3

// networkRules looks at the policy's rules for a network by name: wildcards over zones in which
// strangers have names.
func networkRules(e *env) answer {
	n := e.policy.Network
	mode, err := modes.Named(n.Mode)
	if err != nil {
		return fail("network.mode in the policy", "%v", err)
	}
	if !mode.Terms(network.Decision{Mode: n.Mode, Namespace: network.Own}).ByRules {
		if e.policy.NamesNothing() {
			return warn("network.allow in the policy", "no jail has a network: %s", policy.NothingNamed)
		}
		if net, err := policy.Load(e.opts.PolicyPath, "net"); err == nil && net.NamesNothing() {
			return ok("no jail has a network by name (network.mode = %q), nor has one of agentjail-net: %s", n.Mode, policy.NothingNamed)
		}
		return ok("no jail has a network by name (network.mode = %q)", n.Mode)
	}
	set, err := n.Rules()
	if err != nil {
		return fail("correct it; until then no jail starts", "%v", err)
	}
	if len(set.Rules()) == 0 {
		return warn("network.allow in the policy", "a network by name, and no name is allowed")
	}
	var warned []string
	for _, r := range set.Rules() {
		if w := publicsuffix.Warning(r); w != "" {
			warned = append(warned, w)
		}
	}
	if len(warned) == 0 {
		return ok("%d entries; no wildcard over a zone in which strangers are known to have names", len(set.Rules()))
	}
	shown := strings.Join(warned[:min(len(warned), maxWarned)], "; ")
	if more := len(warned) - maxWarned; more > 0 {
		shown += fmt.Sprintf("; and %d more", more)
	}
	return warn("exact names in network.allow", "%s", shown)
}

// networkPorts reports what bounds the ports that helpers of a network by name connect from. An
// ended connection keeps its port for a minute.
func networkPorts(cannot error) answer {
	if cannot != nil {
		return warn("Linux 6.3 or later", "a network by name connects from any of the host's ports, 50 times a second for each jail (%v): several jails can use up the ports to one server", cannot)
	}
	return ok("a network by name connects from the upper half of the host's ports, each jail from its share")
}
