package lifecycle

import (
	"errors"
	"path/filepath"

	"agentjail.dev/runtime/harden"
	"agentjail.dev/runtime/internal/crash"
	"agentjail.dev/runtime/internal/ringfault"
	"agentjail.dev/runtime/kernel/atomicfile"
	"agentjail.dev/runtime/kernel/filetime"
	"agentjail.dev/runtime/lifecycle/firstproc"
	"agentjail.dev/runtime/lifecycle/jailnet"
	"agentjail.dev/runtime/network/modes"
	"agentjail.dev/runtime/observe/account"
	"agentjail.dev/runtime/rootfs"
	"agentjail.dev/runtime/spec/bundle"
	"agentjail.dev/runtime/spec/plan"
	"agentjail.dev/runtime/state"
)

// writeFilter saves the filter that the init step loads: exactly the jail's filter. The delegate's
// also allows what the step itself needs.
func (a *attempt) writeFilter() error {
	if ringfault.Ring(0) {
		return nil
	}
	if a.filter == nil || a.filter.Delegates != a.spec.Linux.Seccomp {
		return errors.New("the inner filter is not that of the spec")
	}
	a.innerFilter = a.filter.Program
	return atomicfile.WriteNew(filepath.Join(a.rt.Store.Dir(a.j.Key), state.FilterFile), a.innerFilter, 0o600)
}

// prepareNetwork has the network's mode prepare the files that the delegate needs.
func (a *attempt) prepareNetwork() (err error) {
	a.j.Network = a.res.Plan.Network
	if a.mode, err = modes.Named(a.j.Network.Mode); err != nil {
		return err
	}
	if a.j.Rules, err = jailnet.BriefRules(a.mode, a.j); err != nil {
		return err
	}
	if a.network, err = a.mode.Prepare(a.j.Network, a.spec); err != nil || a.network == nil {
		return err
	}
	a.always(func() { a.network.Close() })
	return nil
}

// writeBundle saves the record, and the bundle and the init step's orders for the delegate.
func (a *attempt) writeBundle() (err error) {
	r, j, spec := a.rt, a.j, a.spec
	spec.Linux.Resources = withoutSockets(spec.Linux.Resources)
	if sandboxOf(&j.Brief) != "" {
		if err := a.fitSandbox(); err != nil {
			return err
		}
	}
	a.timeNS = a.caps.Dialect(spec)
	j.OwnTime = a.timeNS.Offsets != ""
	a.domain = firstproc.TakeDomainname(spec)
	j.EngineEvents = a.in.Events()
	j.MountedSince = filetime.Moment(r.Store.Dir(j.Key)).UnixNano()
	if err := r.Store.Save(j); err != nil {
		return err
	}
	process := *spec.Process // the record keeps the process that the jail is to run
	spec.Process = &process
	a.files, err = r.throughEnter(j, initStep{
		process: &process, host: a.in.Facts.Host, filter: a.innerFilter, linux: spec.Linux,
		synthetic: a.staged.SyntheticPaths(), loopback: a.mode.Terms(j.Network).OnlyLoopback,
		places: a.staged.Places, stays: a.stays(),
	})
	if err != nil {
		return err
	}
	a.always(a.files.Close)
	if a.files.Life != nil {
		a.always(func() { a.files.Life.Close() })
	}
	a.bundle = &bundle.Bundle{Dir: filepath.Join(r.Store.Dir(j.Key), "bundle"), Spec: spec}
	return a.bundle.Save()
}

// maxMounted bounds the mounted directories that are noted of a jail.
const maxMounted = 32

// writableMounts notes the directories of the host's that the jail may write to, for the look at
// its end.
func (a *attempt) writableMounts() []state.Mounted {
	if !a.j.Policy.Journal.Enabled {
		return nil
	}
	var out []state.Mounted
	for _, b := range a.res.Plan.Binds {
		if b.ReadOnly || b.Copy || b.Storage == plan.StorageThrowAway || b.Index >= len(a.spec.Mounts) ||
			!harden.IsBind(a.spec.Mounts[b.Index]) {
			continue
		}
		if len(out) == maxMounted {
			break
		}
		out = append(out, account.NewMounted(a.spec.Mounts[b.Index].Destination, a.in.Sources[b.Index], b.Storage))
	}
	return out
}

// attachRoot mounts the jail's root over the engine's, if the engine looks there. Undoing the claim
// detaches it.
func (a *attempt) attachRoot() error {
	if a.j.EngineRoot != "" {
		err := onHostThread(func() error {
			if err := rootfs.AttachChanges(a.staged.Changes, a.rt.Store.Dir(a.j.Key)); err != nil {
				return err
			}
			crash.Point("create.changes")
			return rootfs.Attach(a.staged.Root, a.in.Root)
		})
		if err != nil {
			return err
		}
	}
	crash.Point("create.attached")
	return nil
}
