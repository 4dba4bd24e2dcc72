package harden

import (
	"agentjail.dev/runtime/report"
)

// lsm sets the AppArmor profile, or keeps the SELinux label that the engine
// made: a container type with a category pair of its own.
func lsm(p *pass) {
	pr := p.spec.Process
	prof := p.pol.AppArmor.Profile
	switch {
	case p.f.Host.AppArmor:
		if pr.ApparmorProfile == "unconfined" {
			p.lost(report.Access, "process.apparmorProfile", "unconfined", prof, "every jail is confined")
		} else if pr.ApparmorProfile != prof {
			p.change(report.Access, report.Set, "process.apparmorProfile", pr.ApparmorProfile, prof, "every jail is confined")
		}
		pr.ApparmorProfile = prof
	case pr.ApparmorProfile != "":
		p.change(report.Access, report.Dropped, "process.apparmorProfile", pr.ApparmorProfile, "", "this kernel has no AppArmor")
		pr.ApparmorProfile = ""
	}
	if !p.f.Host.SELinux {
		// A label without SELinux stops the delegate, or means nothing.
		if pr.SelinuxLabel != "" || p.spec.Linux.MountLabel != "" {
			p.change(report.Access, report.Dropped, "process.selinuxLabel", pr.SelinuxLabel, "", "this kernel has no SELinux")
		}
		pr.SelinuxLabel, p.spec.Linux.MountLabel = "", ""
	} else if pr.SelinuxLabel == "" {
		p.missing(report.Access, "process.selinuxLabel", "the engine set no label: start it with SELinux on (Docker: selinux-enabled)")
	}
	if p.f.Host.AppArmor || (p.f.Host.SELinux && pr.SelinuxLabel != "") {
		return
	}
	if p.pol.AppArmor.Required {
		p.refuse("policy requires AppArmor or SELinux, and this kernel confines with neither (remedy: boot with lsm=...,apparmor, or set apparmor.required = false)")
		return
	}
	why := "this kernel confines with neither AppArmor nor SELinux"
	if p.f.NoAppArmor != "" {
		why = p.f.NoAppArmor
	}
	p.missing(report.Access, "process.apparmorProfile", why+"; the other walls of ring 1 stand")
}
