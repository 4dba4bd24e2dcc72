package names

import (
	"context"
	"os/exec"
	"strings"
	"time"

	"agentjail.dev/runtime/helper"
	"agentjail.dev/runtime/network"
	"agentjail.dev/runtime/network/names/work"
)

// Probes try in a fresh network namespace what the helper does in a jail's. Only this mode's jails need it.
func (Mode) Probes() []network.Probe {
	return []network.Probe{{Name: "network-names", What: "network by name", Required: func(mode string) bool { return mode == name }, Run: probe}}
}

func probe() network.Answer {
	path, err := helper.Path(work.Program)
	if err != nil {
		return network.Answer{Detail: err.Error(), Remedy: "install " + work.Program + " beside agentjail, from the same build"}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, work.Probe).CombinedOutput()
	if err != nil {
		return network.Answer{Detail: strings.TrimSpace(string(out)) + " (" + err.Error() + ")", Remedy: "a kernel of version 5.9 or later with CONFIG_BPF_SYSCALL and CONFIG_INET, as root of the machine"}
	}
	return network.Answer{OK: true, Detail: "connections of a fresh network namespace can be taken (sk_lookup)"}
}
