package harden

import (
	"fmt"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/refusal"
	"agentjail.dev/runtime/spec/bindsource"
	"agentjail.dev/runtime/spec/report"
	"agentjail.dev/runtime/spec/rings"
	"agentjail.dev/seccomp"
)

// Filter returns the parts of the jail's system call filter: policy's profile for the host's
// architecture, and the bundle's section, or nil.
func (e Effective) Filter(in *specs.Spec, f Facts) (seccomp.Options, *specs.LinuxSeccomp) {
	profile := e.Seccomp.Profile
	if profile == "service" && !f.sharesFiles(in) {
		profile += seccomp.SetGID
	}
	o := seccomp.Options{Profile: profile, Arch: f.Host.Arch, Kill: e.Seccomp.OnViolation == "kill", Only: e.Seccomp.List}
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

// sharesFiles reports whether a jail may get at a file outside of its own layer: by a mount of the
// host's, also a read-only one with a socket in it that passes descriptors, or from a jail whose
// namespaces it joins. A set-id bit must not get onto such a file. Of the engine's own files a jail
// has copies, or cannot write to them.
func (f Facts) sharesFiles(s *specs.Spec) bool {
	for i, m := range s.Mounts {
		if !IsBind(m) {
			continue
		}
		if i >= len(f.Sources) || f.Sources[i] == nil {
			return true
		}
		if f.Sources[i].Role != bindsource.Injected || f.Sources[i].Kind != bindsource.File {
			return true
		}
	}
	for _, j := range f.Joins {
		if j.Jail != "" {
			return true
		}
	}
	return false
}

// joinsSetGID refuses files of the host's in the namespaces of a jail that may set set-group-ID
// bits: descriptors pass between them.
func joinsSetGID(p *pass) {
	for _, j := range p.f.Joins {
		g := p.f
		g.Joins = nil
		if j.SetGID && g.sharesFiles(p.spec) {
			p.addRefusal(refusal.New(refusal.Namespace, "jail %s may set set-group-ID bits, and this one mounts files of the host's", j.Jail).
				About("linux.namespaces").WithRemedy("mount a volume into that jail, too, which then may not"))
			return
		}
	}
}

// filter sets the system call filter: the intersection of ours and the
// incoming one.
func filter(p *pass) {
	l := p.spec.Linux
	o, incoming := Effective{Policy: p.pol}.Filter(p.spec, p.f)
	p.pol.Seccomp.Profile = o.Profile
	joinsSetGID(p)
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
