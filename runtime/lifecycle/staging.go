package lifecycle

import (
	"os"
	"time"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/delegate"
	"agentjail.dev/runtime/facts"
	"agentjail.dev/runtime/internal/crash"
	"agentjail.dev/runtime/kernel/pathname"
	"agentjail.dev/runtime/rootfs"
	"agentjail.dev/runtime/rootfs/procfiles"
	"agentjail.dev/runtime/spec/report"
	"agentjail.dev/runtime/spec/rings"
	"agentjail.dev/runtime/workspace"
)

// openUserNS makes or opens the jail's user namespace.
func (a *attempt) openUserNS() (err error) {
	if a.userns, err = a.rt.openUserNS(a.j, a.spec, a.in.Facts); err != nil {
		return err
	}
	a.always(func() { a.userns.abandon(a.rt.Log) })
	crash.Point("create.userns")
	return nil
}

// stageRoot mounts the jail's root and its mounts, in this thread's own
// mount namespace, which ends with the thread.
func (a *attempt) stageRoot() error {
	r, in, j, spec := a.rt, a.in, a.j, a.spec
	if err := leastLimits(&j.Policy, spec.Linux.Resources, j.Stays); err != nil {
		return err
	}
	machine := procfiles.ReadHost()
	own := procfiles.For(spec.Linux.Resources, machine, procfiles.NewBootID(), time.Now())
	j.Born = own.Born.Unix()
	a.noteReviews()
	// Staging takes mounts that lie in others out of the spec: the plan's indexes are true before.
	j.Mounted = a.writableMounts()
	workspaces := workspace.Of(r.Store)
	workspaces.Bounds = workspace.Bounds{Layers: j.Policy.Disk.Layers, Free: int64(j.Policy.Disk.Free)}
	st, err := rootfs.Stage(rootfs.Request{
		Dir: r.Store.Dir(j.Key), Spec: spec, Plan: a.res.Plan, Sources: in.Sources, Rootfs: in.Root, Mounts: in.Engine.Mounts,
		Rootless: in.Facts.Host.Rootless, Sandboxed: sandboxOf(&j.Brief) != "",
		Needed: r.needed(a.o, a.d, spec), AllMounts: spec.Hooks != nil || in.Facts.Host.SELinux,
		Single: procfiles.Single(own, machine), Sys: procfiles.Sys(own, machine), UserNS: a.userns.made(), Ledger: r.Store.Ledger(),
		Key:        j.Key,
		Workspaces: workspaces, Jail: j.ID, Reviewed: a.o.View, Journal: j.Journal,
	})
	if err != nil {
		return err
	}
	a.staged = st
	a.always(st.Close)
	if sandboxOf(&j.Brief) != "" {
		if err := st.AttachToSources(spec); err != nil {
			return err
		}
	}
	j.SyntheticDev, j.Reviews, j.Copies, j.CopiesDev = st.SyntheticDev, st.Reviews, st.Copies, st.CopiesDev
	for _, n := range st.Notes {
		a.rep.Add(report.Change{Ring: rings.Resources, Kind: report.Set, Field: "root", Why: n})
	}
	rootfs.ReportProtected(a.rep, st.Protected)
	j.Protected = st.ProtectedPaths()
	crash.Point("create.staged")
	if !a.o.PlainRoot && engineSeesRoot(in) {
		j.EngineRoot, j.EngineRootDev = in.Bundle.Spec.Root.Path, st.Dev
	}
	return nil
}

// needed lists the paths that are passed to the delegate, and those that this process uses from the
// mount namespace in which the delegate works.
func (r *Runtime) needed(o CreateOptions, d *delegate.Runtime, s *specs.Spec) []string {
	self, _ := os.Executable() // the init step is beside it
	out := []string{r.Store.Root, r.Globals.Root, r.Globals.Log, d.Path, self, o.PidFile, o.ConsoleSocket, o.PidfdSocket}
	for _, ns := range s.Linux.Namespaces {
		out = append(out, ns.Path)
	}
	return out
}

// managerAnnotation is the annotation in which CRI-O names itself as the maker of a bundle
// (pkg/annotations, ContainerManager).
const managerAnnotation, crio = "io.container.manager", "cri-o"

// engineSeesRoot reports whether the jail's root is to be mounted over the engine's. It is if an
// engine made the directory for this container alone. A plain directory of a user may serve several
// containers, and stays as it is. CRI-O unmounts the root of a container that has ended before it
// has the runtime delete the container (internal/oci, StopContainer). This fails while something is
// mounted over the root, and CRI-O looks into no root.
func engineSeesRoot(in *facts.Gathered) bool {
	path := in.Bundle.Spec.Root.Path
	if in.Bundle.Spec.Annotations[managerAnnotation] == crio {
		return false
	}
	return in.InStorage || rootfs.IsMount(in.Root) && pathname.Below(path, in.Bundle.Dir)
}
