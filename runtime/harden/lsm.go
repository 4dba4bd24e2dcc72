package harden

import (
	"fmt"
	"slices"
	"strings"

	"agentjail.dev/runtime/refusal"
	"agentjail.dev/runtime/spec/plan"
	"agentjail.dev/runtime/spec/report"
	"agentjail.dev/runtime/spec/rings"
	"agentjail.dev/seccomp"
)

// stack joins AppArmor profiles that hold together (apparmor(7), stacking).
const stack = "//&"

// engineProfiles are the profiles that engines apply to every container: agentjail's own replaces
// them. Any other profile was made for this container, and stays in force in addition.
var engineProfiles = []string{"docker-default", "containers-default-", "crio-default", "cri-containerd.apparmor.d"}

// lsm sets the AppArmor profile and sees to the SELinux label.
func lsm(p *pass) {
	pr := p.spec.Process
	switch {
	case p.f.Host.AppArmor:
		apparmor(p)
	case p.f.NoAppArmor != "" && pr.ApparmorProfile != "unconfined":
		// The engine's own profile, if there is one, is better than none.
	case pr.ApparmorProfile != "":
		p.change(rings.Access, report.Dropped, "process.apparmorProfile", pr.ApparmorProfile, "", "this kernel has no AppArmor")
		pr.ApparmorProfile = ""
	}
	selinux(p)
	if p.f.Host.AppArmor || (p.f.Host.SELinux && p.spec.Process.SelinuxLabel != "") {
		return
	}
	if p.pol.AppArmor.Required {
		p.addRefusal(refusal.New(refusal.LSM, "policy requires AppArmor or SELinux, and this kernel confines with neither").
			WithRemedy("boot with lsm=...,apparmor, or set apparmor.required = false, which leaves access to the other protections of ring 1"))
		return
	}
	why := "this kernel confines with neither AppArmor nor SELinux"
	if p.f.Sandbox != "" {
		why = "the kernel of a " + p.f.Sandbox + " sandbox has neither AppArmor nor SELinux"
	}
	if p.f.NoAppArmor != "" {
		why = p.f.NoAppArmor
	}
	p.missing(rings.Access, "process.apparmorProfile", why+"; the other protections of ring 1 stand")
}

func apparmor(p *pass) {
	pr, ours := p.spec.Process, p.pol.AppArmor.Profile
	was := pr.ApparmorProfile
	parts := strings.Split(was, stack)
	switch {
	case was == "unconfined":
		p.deny(rings.Access, "process.apparmorProfile", was, ours, "every jail is confined")
	case slices.Contains(parts, ours):
		return // ours is in force already, alone or beside another
	case was != "" && !slices.ContainsFunc(engineProfiles, func(e string) bool { return strings.HasPrefix(was, e) }):
		p.change(rings.Access, report.Set, "process.apparmorProfile", was, ours+stack+was, "both hold")
		pr.ApparmorProfile = ours + stack + was
		return
	default:
		p.change(rings.Access, report.Set, "process.apparmorProfile", was, ours, "every jail is confined")
	}
	pr.ApparmorProfile = ours
}

// landlock has the init step inside the jail enter a Landlock domain. It is not
// part of the spec: no delegate knows of it.
func landlock(p *pass) {
	const field = "Landlock"
	switch v := p.f.Host.Landlock; {
	case v >= plan.LandlockMin:
		p.change(rings.Access, report.Set, field, "", fmt.Sprintf("a domain (version %d)", v),
			"writes stay on the jail's writable mounts, mounts as they are, also where another protection fails")
	case p.pol.NeedsLandlock():
		other := "landlock.required = false, which leaves writes to the other protections of ring 1"
		if seccomp.Traces(p.pol.Seccomp.Profile) {
			other = "another seccomp.profile than " + p.pol.Seccomp.Profile
		}
		p.addRefusal(refusal.New(refusal.Landlock, "policy requires Landlock of version %d, and this kernel has version %d", plan.LandlockMin, v).
			WithRemedy("Linux 5.19 or later booted with lsm=landlock,..., or set %s", other))
	case p.f.Sandbox != "":
		p.missing(rings.Access, field, "the kernel of a "+p.f.Sandbox+" sandbox has none; the sandbox opens nothing but the jail's mounts")
	default:
		p.missing(rings.Access, field, fmt.Sprintf("this kernel has version %d, and %d is needed; the other protections of ring 1 stand", v, plan.LandlockMin))
	}
}
