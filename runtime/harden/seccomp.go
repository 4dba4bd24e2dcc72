package harden

import (
	"fmt"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/refusal"
	"agentjail.dev/runtime/spec/report"
	"agentjail.dev/runtime/spec/rings"
	"agentjail.dev/seccomp"
)

// Filter returns the parts of the jail's system call filter: policy's profile for the host's
// architecture, and the bundle's section, or nil.
func (e Effective) Filter(in *specs.Spec, arch string) (seccomp.Options, *specs.LinuxSeccomp) {
	o := seccomp.Options{Profile: e.Seccomp.Profile, Arch: arch, Kill: e.Seccomp.OnViolation == "kill", Only: e.Seccomp.List}
	if in.Linux == nil {
		return o, nil
	}
	// A section without default action and rules is none (runc
	// libcontainer/specconv, SetupSeccomp).
	if s := in.Linux.Seccomp; s != nil && (s.DefaultAction != "" || len(s.Syscalls) > 0) {
		return o, s
	}
	return o, nil
}

// filter sets the system call filter: the intersection of ours and the
// incoming one.
func filter(p *pass) {
	l := p.spec.Linux
	o, incoming := Effective{Policy: p.pol}.Filter(p.spec, p.f.Host.Arch)
	if incoming != nil {
		if err := seccomp.Check(incoming); err != nil {
			p.refuse(refusal.Filter, "%v", err)
			return
		}
	}
	made := p.f.Filter
	if made == nil {
		made = meetFilters(o, incoming)
	}
	if made.Err != nil {
		p.refuse(refusal.Filter, "seccomp: %v", made.Err)
		return
	}
	l.Seccomp = made.Section
	if incoming == nil {
		if p.f.OwnBundle {
			return
		}
		p.deny(rings.Kernel, "linux.seccomp", "unconfined", "profile "+o.Profile, "unlisted system calls do not exist in a jail")
		return
	}
	for _, n := range made.Notes {
		p.change(rings.Kernel, report.Lowered, "linux.seccomp", "", "", n)
	}
	p.change(rings.Kernel, report.Set, "linux.seccomp", "", fmt.Sprintf("profile %s and the bundle's own", o.Profile),
		"what either refuses does not exist in a jail")
}

func meetFilters(o seccomp.Options, incoming *specs.LinuxSeccomp) *Filter {
	ours, err := seccomp.OCI(o)
	if err != nil {
		return &Filter{Err: err}
	}
	f, notes := seccomp.Intersect(ours, incoming)
	return &Filter{Section: f, Notes: notes}
}
