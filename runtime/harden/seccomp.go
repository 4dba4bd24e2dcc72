package harden

import (
	"fmt"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/refusal"
	"agentjail.dev/runtime/report"
	"agentjail.dev/seccomp"
)

// filter sets the system call filter: the intersection of ours and the
// incoming one.
func filter(p *pass) {
	l := p.spec.Linux
	o := seccomp.Options{
		Profile: p.pol.Seccomp.Profile,
		Arch:    p.f.Host.Arch,
		Kill:    p.pol.Seccomp.OnViolation == "kill",
	}
	incoming := l.Seccomp
	// A section without default action and rules is none (runc
	// libcontainer/specconv, SetupSeccomp).
	if incoming != nil && incoming.DefaultAction == "" && len(incoming.Syscalls) == 0 {
		incoming = nil
	}
	meet := p.f.Filter
	if meet == nil {
		meet = meetFilters
	}
	f, notes, err := meet(o, incoming)
	if err != nil {
		p.refuse(refusal.Filter, "seccomp: %v", err)
		return
	}
	l.Seccomp = f
	if incoming == nil {
		p.lost(report.Kernel, "linux.seccomp", "unconfined", "profile "+o.Profile, "unlisted system calls do not exist in a jail")
		return
	}
	for _, n := range notes {
		p.change(report.Kernel, report.Lowered, "linux.seccomp", "", "", n)
	}
	p.change(report.Kernel, report.Set, "linux.seccomp", "", fmt.Sprintf("profile %s and the bundle's own", o.Profile), "what either refuses does not exist in a jail")
}

func meetFilters(o seccomp.Options, incoming *specs.LinuxSeccomp) (*specs.LinuxSeccomp, []string, error) {
	ours, err := seccomp.OCI(o)
	if err != nil {
		return nil, nil, err
	}
	f, notes := seccomp.Intersect(ours, incoming)
	return f, notes, nil
}
