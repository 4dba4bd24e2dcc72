package lifecycle

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"agentjail.dev/runtime/harden"
	"agentjail.dev/runtime/internal/crash"
	"agentjail.dev/runtime/internal/ringfault"
	"agentjail.dev/runtime/kernel/atomicfile"
	"agentjail.dev/runtime/spec/credential"
	"agentjail.dev/runtime/spec/plan"
	"agentjail.dev/runtime/spec/report"
	"agentjail.dev/seccomp/cache"
)

// takeIDs assigns host ids to the jail. Undoing the claim releases the ids.
func (a *attempt) takeIDs() error {
	if err := a.rt.assignIDs(a.j, a.p); err != nil {
		return err
	}
	a.p.facts.IDs = a.j.IDs
	crash.Point("create.ids")
	return nil
}

// harden decides the jail's spec, and makes its system call filter.
func (a *attempt) harden() error {
	r, p := a.rt, a.p
	if err := ensureLSM(a.ctx, &p.facts, r.Policy); err != nil {
		return err
	}
	policy := harden.Tighten(p.b.Spec, r.Policy)
	var err error
	a.filter, err = cache.Store{Dir: filepath.Join(r.Store.Root, "filters")}.Get(policy.Filter(p.b.Spec, p.facts.Host.Arch))
	if err != nil {
		p.facts.Filter = &harden.Filter{Err: err}
	} else {
		p.facts.Filter = &harden.Filter{Section: a.filter.Delegates, Notes: a.filter.Notes}
	}
	p.facts.Placeholders = policy.Credentials.Placeholders()
	if o := credential.OrderOf(policy.Credentials); !o.Empty() {
		keys, err := issue(a.ctx, o)
		if err != nil {
			return err
		}
		p.facts.Authority, a.authority = keys.Authority, keys.AuthorityPair
		p.facts.HostKey, a.hostKey = keys.HostKey, keys.HostKeyPrivate
	}
	p.res, p.rep, err = policy.Harden(p.b.Spec, p.facts)
	r.logUnmet(p.rep)
	if err != nil {
		return err
	}
	if c := a.d.Choice; c != nil && len(c.Not) > 0 {
		p.rep.Add(report.Change{Ring: report.Resources, Kind: report.Set, Field: "delegate", Now: a.d.Path, Why: "better ones cannot be used here: " + strings.Join(c.Not, "; ")})
	}
	for _, i := range slices.Backward(p.res.Plan.Dropped) {
		p.sources[i].File.Close()
		p.sources = slices.Delete(p.sources, i, i+1)
	}
	p.res.Plan.KeepHostOwners = a.o.PlainRoot
	p.res.Plan.Inside = insideFile(p.res.Policy, p.rep)
	a.spec = p.res.Spec
	return nil
}

// record puts the decisions into the jail's record, which write saves.
func (a *attempt) record() error {
	j, spec, binds := a.j, a.spec, a.p.res.Plan.Binds
	if a.p.res.Plan.Authority != "" {
		if err := atomicfile.Write(filepath.Join(a.rt.Store.Dir(j.Key), credential.AuthorityFile), a.authority, 0o600); err != nil {
			return fmt.Errorf("the jail's certificate authority: %w", err)
		}
	}
	if a.p.res.Plan.KnownHosts != "" {
		if err := atomicfile.Write(filepath.Join(a.rt.Store.Dir(j.Key), credential.HostKeyFile), a.hostKey, 0o600); err != nil {
			return fmt.Errorf("the jail's key for ssh: %w", err)
		}
	}
	if err := ringfault.Spec(spec, a.p.b.Spec); err != nil {
		return err
	}
	for i := range binds {
		if ringfault.Ring(1) {
			binds[i].Owner = plan.OwnerSame
		}
	}
	j.Process, j.Limits, j.CgroupsPath = spec.Process, spec.Linux.Resources, spec.Linux.CgroupsPath
	j.MountLabel, j.MountOwner = spec.Linux.MountLabel, mountOwner(a.p.res.Plan)
	var allGroups bool
	j.CgroupDirs, allGroups = cgroupDirs(j.CgroupsPath, a.o.ID, j.SystemdCgroup, a.d.Traits())
	j.Direct = allGroups && canSkipDelegate(spec)
	j.Policy = a.p.res.Policy
	j.Policy.Userns, j.PacketFilter = j.Userns, j.Policy.Network.Filter
	return nil
}

// logUnmet logs what the caller requested and did not get.
func (r *Runtime) logUnmet(rep *report.Report) {
	if rep == nil {
		return
	}
	for _, c := range rep.Of(report.Denied) {
		r.Log.Warnf("agentjail: denied: %s", c)
	}
	for _, c := range rep.Of(report.Dropped) {
		if c.Why == harden.NoHook {
			r.Log.Warnf("agentjail: %s", c)
		}
	}
	// What the host lacks is the same for each jail: the report, inspect and check name it every
	// time, the log once.
	for _, c := range rep.Of(report.Missing) {
		if r.Store.OncePerBoot(c.String()) {
			r.Log.Warnf("agentjail: this host cannot hold: %s", c)
		}
	}
}
