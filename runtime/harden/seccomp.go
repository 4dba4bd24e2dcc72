package harden

import (
	"fmt"

	"agentjail.dev/runtime/report"
	"agentjail.dev/seccomp"
)

// filter sets the system call filter: the intersection of ours and the
// incoming one.
func filter(p *pass) {
	l := p.spec.Linux
	ours, err := seccomp.OCI(seccomp.Options{
		Profile: p.pol.Seccomp.Profile,
		Arch:    p.f.Host.Arch,
		Kill:    p.pol.Seccomp.OnViolation == "kill",
	})
	if err != nil {
		p.refuse("seccomp: %v", err)
		return
	}
	// A section without default action and rules is none (runc
	// libcontainer/specconv, SetupSeccomp).
	if l.Seccomp == nil || l.Seccomp.DefaultAction == "" && len(l.Seccomp.Syscalls) == 0 {
		p.lost(report.Kernel, "linux.seccomp", "unconfined", "profile "+p.pol.Seccomp.Profile, "unlisted system calls do not exist in a jail")
		l.Seccomp = ours
		return
	}
	f, notes := seccomp.Intersect(ours, l.Seccomp)
	for _, n := range notes {
		p.change(report.Kernel, report.Lowered, "linux.seccomp", "", "", n)
	}
	p.change(report.Kernel, report.Set, "linux.seccomp", "", fmt.Sprintf("profile %s and the bundle's own", p.pol.Seccomp.Profile), "what either refuses does not exist in a jail")
	l.Seccomp = f
}
