package names

import (
	"fmt"

	"agentjail.dev/runtime/kernel/programs"
	"agentjail.dev/runtime/network/names/internal/helperproto"
	"agentjail.dev/runtime/network/names/internal/jailsock"
	"agentjail.dev/runtime/spec/network"
)

// Probes returns a probe that does the helper's set-up in a fresh network namespace. Only this
// mode's jails need it.
func (Mode) Probes() []network.Probe {
	return []network.Probe{{Name: "network-names", What: "network by name", Required: func(mode string) bool {
		return mode == name
	}, Run: probe}}
}

func probe() network.Answer {
	if _, err := programs.Open(helperproto.Program); err != nil {
		return network.Answer{Detail: err.Error(), Remedy: "install " + helperproto.Program + " beside agentjail, from the same build"}
	}
	got, err := jailsock.Probe()
	if err != nil {
		return network.Answer{Detail: err.Error(), Remedy: remedy}
	}
	return judged(got)
}

const remedy = "a kernel of version 5.9 or later with CONFIG_BPF_SYSCALL and CONFIG_INET, as root of the machine"

// judged returns the probe's answer for a way.
func judged(got helperproto.Arrival) network.Answer {
	detail := fmt.Sprintf("connections of a fresh network namespace are taken by %s", got.Way)
	if got.Way == helperproto.SkLookup {
		return network.Answer{OK: true, Detail: detail}
	}
	detail += ": " + helperproto.FallbackCost[got.Way]
	if got.Why != "" {
		detail += " (" + got.Why + ")"
	}
	return network.Answer{Warn: true, Detail: detail, Remedy: remedy}
}
