package harden

import (
	"fmt"
	"slices"

	"agentjail.dev/runtime/spec/plan"
	"agentjail.dev/runtime/spec/policy"
	"agentjail.dev/runtime/spec/report"
	"agentjail.dev/runtime/spec/rings"
)

// NamedOwner is the user named as the owner of mounted files, in place of the first process's
// user.
type NamedOwner struct {
	User *plan.User // nil for none
	By   string
	// Ignored are names that could not be followed.
	Ignored []policy.Ignored
}

// mountOwner decides which user of the jail owns the files that OwnerDir maps. There is one such
// user for the whole jail, since a mount maps no two ids to one (user_namespaces(7)).
func mountOwner(p *pass) {
	const field = "mounts"
	u := p.spec.Process.User
	p.plan.User = plan.User{UID: u.UID, GID: u.GID}
	p.plan.OwnerAlone = len(p.pol.Process.Capabilities) > 0
	guestOwners(p)
	if !slices.ContainsFunc(p.plan.Binds, func(b plan.Bind) bool { return b.Owner == plan.OwnerDir }) {
		return
	}
	o := p.f.Owner
	for _, i := range o.Ignored {
		p.change(rings.Access, report.Dropped, i.Name, short(i.Value), "", "no owner of the mounts was taken from it: "+i.Why)
	}
	by := "the first process's user"
	if o.User != nil {
		_, ok1 := p.f.IDs.HostUID(o.User.UID)
		_, ok2 := p.f.IDs.HostGID(o.User.GID)
		if ok1 && ok2 {
			p.plan.User, by = *o.User, o.By
		} else {
			p.change(rings.Access, report.Dropped, o.By, fmt.Sprintf("%d:%d", o.User.UID, o.User.GID), "", "outside the jail's ids")
		}
	}
	p.change(rings.Access, report.Set, field, "", fmt.Sprintf("owned by uid %d, gid %d", p.plan.User.UID, p.plan.User.GID), by)
}
