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
	"agentjail.dev/runtime/kernel/idmap"
	"agentjail.dev/runtime/network/modes"
	"agentjail.dev/runtime/observe/account"
	"agentjail.dev/runtime/spec/credential"
	"agentjail.dev/runtime/spec/network"
	"agentjail.dev/runtime/spec/plan"
	"agentjail.dev/runtime/spec/report"
	"agentjail.dev/runtime/spec/rings"
	"agentjail.dev/seccomp"
	"agentjail.dev/seccomp/cache"
)

// assignIDs assigns host ids to the jail: those of its bundle, or its own block of the
// pool. The record has them once it is saved again: Store.Release finds them also without. Undoing
// the claim releases the ids.
func (a *attempt) assignIDs() error {
	j, store := a.j, a.rt.Store
	ids, other, preset, err := a.gatherer().PresetIDs(a.in)
	if m, ok := ringfault.IDs(); ok {
		ids, other, preset, err = m, nil, true, nil
	}
	if err == nil && !preset {
		ids, err = a.allocateIDs()
	}
	if err != nil {
		return err
	}
	j.IDs = ids
	if other != nil {
		j.Userns = other.Userns
		if !ids.Given {
			err = store.Share(j.Userns, ids, j.Key)
		}
	}
	a.in.Facts.IDs = ids
	crash.Point("create.ids")
	return err
}

// allocateIDs takes a block of the pool.
func (a *attempt) allocateIDs() (idmap.Map, error) {
	r := a.rt
	ids, err := r.Store.Allocate(r.Policy.Userns, a.j.Key)
	if err != nil {
		return ids, err
	}
	ids = a.gatherer().Map(a.in, ids)
	if mode, err := modes.Named(r.Policy.Network.Mode); err == nil && mode.Terms(mode.Decide(network.Found{})).SpareID {
		ids = ids.WithoutSpare()
	}
	return ids, nil
}

// hardenSpec decides the jail's spec, and makes its system call filter.
func (a *attempt) hardenSpec() error {
	r, in := a.rt, a.in
	if err := ensureLSM(a.ctx, &in.Facts, r.Policy); err != nil {
		return err
	}
	policy := harden.Tighten(in.Bundle.Spec, r.Policy)
	var err error
	a.filter, err = cache.Store{Dir: filepath.Join(r.Store.Root, "filters")}.Get(policy.Filter(in.Bundle.Spec, in.Facts))
	if err != nil {
		in.Facts.Filter = &harden.Filter{Err: err}
	} else {
		in.Facts.Filter = &harden.Filter{Section: a.filter.Delegates, Notes: a.filter.Notes}
	}
	in.Facts.Placeholders = policy.Credentials.Placeholders()
	if o := credential.OrderOf(policy.Credentials); !o.Empty() {
		if a.keys, err = issue(a.ctx, o); err != nil {
			return err
		}
		in.Facts.Authority, in.Facts.HostKey = a.keys.Authority, a.keys.HostKey
	}
	in.Facts.Denied = a.o.Denied
	a.res, a.rep, err = policy.Harden(in.Bundle.Spec, in.Facts)
	r.logUnmet(a.rep)
	if err != nil {
		return err
	}
	if c := a.d.Choice; c != nil && len(c.Not) > 0 {
		a.rep.Add(report.Change{
			Ring: rings.Resources, Kind: report.Set, Field: "delegate", Now: a.d.Path,
			Why: "better ones cannot be used here: " + strings.Join(c.Not, "; "),
		})
	}
	if o := r.Policy.Origin; o != nil && o.Mistakes != "" {
		r.Log.Warnf("agentjail: the policy is of an earlier reading: %s", o.Mistakes)
		a.rep.Add(report.Change{
			Ring: rings.Resources, Kind: report.Set, Field: "policy", Now: "of an earlier reading",
			Why: "this process began before " + o.Mistakes,
		})
	}
	for _, i := range slices.Backward(a.res.Plan.Dropped) {
		in.Sources[i].File.Close()
		in.Sources = slices.Delete(in.Sources, i, i+1)
	}
	a.res.Plan.KeepHostOwners = a.o.PlainRoot
	a.res.Plan.Inside = account.InsideFile(a.res.Policy, a.rep)
	a.spec = a.res.Spec
	return nil
}

// recordDecisions puts the decisions into the jail's record, which writeBundle saves.
func (a *attempt) recordDecisions() error {
	j, spec, binds := a.j, a.spec, a.res.Plan.Binds
	dir := a.rt.Store.Dir(j.Key)
	if a.res.Plan.Authority != "" {
		if err := atomicfile.Write(filepath.Join(dir, credential.AuthorityFile), a.keys.AuthorityPair, 0o600); err != nil {
			return fmt.Errorf("the jail's certificate authority: %w", err)
		}
	}
	if a.res.Plan.KnownHosts != "" {
		if err := atomicfile.Write(filepath.Join(dir, credential.HostKeyFile), a.keys.HostKeyPrivate, 0o600); err != nil {
			return fmt.Errorf("the jail's key for ssh: %w", err)
		}
	}
	if err := ringfault.Spec(spec, a.in.Bundle.Spec); err != nil {
		return err
	}
	for i := range binds {
		if ringfault.Ring(1) {
			binds[i].Owner = plan.OwnerSame
		}
	}
	j.Process, j.Limits, j.CgroupsPath = spec.Process, spec.Linux.Resources, spec.Linux.CgroupsPath
	j.MountLabel, j.MountOwner = spec.Linux.MountLabel, mountOwner(a.res.Plan)
	var allGroups bool
	j.CgroupDirs, allGroups = cgroupDirs(j.CgroupsPath, a.o.ID, j.SystemdCgroup, a.d.Traits())
	j.Direct = allGroups && canSkipDelegate(spec) && sandboxOf(&j.Brief) == ""
	j.Policy, j.Capabilities = a.res.Policy, a.res.Plan.Capabilities
	j.SetGID = strings.HasSuffix(j.Policy.Seccomp.Profile, seccomp.SetGID)
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
	// The host lacks the same for each jail: the report, inspect and check name it every time, the
	// log once.
	for _, c := range rep.Of(report.Missing) {
		if r.Store.OncePerBoot(c.String()) {
			r.Log.Warnf("agentjail: this host cannot hold: %s", c)
		}
	}
}
