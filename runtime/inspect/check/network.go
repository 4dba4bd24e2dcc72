package check

import (
	"agentjail.dev/runtime/network/modes"
	"agentjail.dev/runtime/spec/network"
	"agentjail.dev/runtime/spec/policy"
	"agentjail.dev/runtime/spec/rings"
)

// networkProbes are what the network modes need of the host.
func networkProbes() []probe {
	var out []probe
	for _, m := range modes.All() {
		for _, p := range m.Probes() {
			out = append(out, probe{
				p.Name, rings.Resources, p.What, func(pol policy.Policy) bool { return p.Required(pol.Network.Mode) },
				func(*env) answer { return answerOf(p.Run()) },
			})
		}
	}
	return out
}

func answerOf(a network.Answer) answer {
	return answer{ok: a.OK, warn: a.Warn, detail: a.Detail, remedy: a.Remedy}
}
