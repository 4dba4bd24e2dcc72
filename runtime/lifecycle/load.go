package lifecycle

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"agentjail.dev/runtime/harden"
	"agentjail.dev/runtime/kernel/cgroups"
	"agentjail.dev/runtime/kernel/hostfacts"
	"agentjail.dev/runtime/kernel/rootless"
	"agentjail.dev/runtime/rootfs"
	"agentjail.dev/runtime/spec/bindsource"
	"agentjail.dev/runtime/spec/bundle"
	"agentjail.dev/runtime/spec/policy"
	"agentjail.dev/runtime/spec/report"
)

// prepared is a bundle with the facts that hardening needs, up to the start of the delegate.
type prepared struct {
	b       *bundle.Bundle
	facts   harden.Facts
	sources []*bindsource.Source
	rootfs  *os.File
	engine  bindsource.Engine
	// inStorage reports that the root lies in an engine's storage.
	inStorage bool
	res       *harden.Result
	rep       *report.Report
}

func (p *prepared) close() {
	for _, s := range p.sources {
		if s != nil {
			s.File.Close()
		}
	}
	if p.rootfs != nil {
		p.rootfs.Close()
	}
	p.engine.Mounts.Close()
}

// load reads the bundle and gathers what hardening needs to know. Invalid options are rejected
// here, before anything is created.
func (a *attempt) load() error {
	b, err := &bundle.Bundle{Dir: a.j.Bundle, Spec: a.o.Spec}, error(nil)
	if a.o.Spec == nil {
		if b, err = bundle.Load(a.j.Bundle); err != nil {
			return err
		}
	}
	if a.o.ConsoleSocket != "" && b.Spec.Process != nil && !b.Spec.Process.Terminal {
		// runc reports this itself; crun would wait for a terminal that is never sent.
		return errors.New("cannot use console socket if runc will not detach or allocate tty: process.terminal is not set")
	}
	if a.p, err = a.rt.gather(a.o.ID, b, a.o.PlainRoot); err != nil {
		return err
	}
	a.always(a.p.close)
	return nil
}

// gather collects the facts that hardening needs about a bundle. It opens files, and changes
// nothing but this process's limit on core files.
func (r *Runtime) gather(id string, b *bundle.Bundle, plainRoot bool) (_ *prepared, err error) {
	p := &prepared{b: b}
	defer func() {
		if err != nil {
			p.close()
		}
	}()
	s := b.Spec
	if err := refuseBuild(id, b.Dir, s); err != nil {
		return nil, err
	}
	allowCoreOff()
	p.facts = harden.Facts{ID: id, Host: hostfacts.Read(), Unknown: b.Unknown}
	if err := harden.CheckRoot(s); err != nil {
		return nil, err
	}
	if s.Linux != nil && !p.facts.Host.Cgroup.V2 {
		p.facts.ParentQuota = quotaAbove(cgroups.Root+"/cpu", s.Linux.CgroupsPath)
	}
	if err := p.openRoot(plainRoot); err != nil {
		return nil, err
	}
	p.facts.Nodes = nodes(r.Policy.Devices.Allow)
	var members []string
	if p.facts.Joins, members, err = r.joinedNamespaces(s); err != nil {
		return nil, err
	}
	if err := harden.CheckMountCount(s, r.Policy.Limits.Mounts); err != nil {
		return nil, err
	}
	if err := p.lookAtEngine(append([]string{id}, members...)); err != nil {
		return nil, err
	}
	if err := p.openSources(plainRoot, r.Policy.Binds.SetID); err != nil {
		return nil, err
	}
	p.facts.Owner = r.namedOwner(p, id)
	return p, nil
}

// lookAtEngine finds the files of the host that are an engine's own. ids are the containers that
// share this one's files.
func (p *prepared) lookAtEngine(ids []string) (err error) {
	s := p.b.Spec
	p.engine.Pod = bindsource.PodUID(s)
	p.engine.CRI, p.engine.Rootless = bindsource.OfPod(s), p.facts.Host.Rootless
	p.engine.IDs = ids
	if p.engine.Mounts, err = bindsource.OpenMounts(); err != nil {
		return err
	}
	layers, err := rootfs.EngineLayers(p.rootfs, p.engine.Mounts)
	if err != nil {
		return fmt.Errorf("the layers of %s: %w", s.Root.Path, err)
	}
	p.engine.Storage = append(p.engine.Storage, bindsource.LayerStorage(layers)...)
	for _, m := range s.Mounts {
		// Every container in a pod has a file of the kubelet's.
		if root := bindsource.KubeletRoot(m.Source); root != "" && p.engine.Pod != "" && !slices.Contains(p.engine.Storage, root) {
			p.engine.Storage = append(p.engine.Storage, root)
		}
	}
	p.engine.IDs = append(p.engine.IDs, bindsource.Sandboxes(s, p.engine.Storage)...)
	return nil
}

// openSources opens the files of the host that the bundle mounts. setID is policy's setting for
// set-id programs.
func (p *prepared) openSources(plainRoot bool, setID string) (err error) {
	limits := bindsource.ReportSetID
	if setID == policy.SetIDRefuse {
		limits = bindsource.RefuseSetID
	}
	mounts := p.b.Spec.Mounts
	p.sources = make([]*bindsource.Source, len(mounts))
	p.facts.Sources = make([]*bindsource.Fact, len(mounts))
	for i, m := range mounts {
		if !harden.IsBind(m) || m.Source == "" { // hardening refuses the latter
			continue
		}
		from := m.Source
		if !filepath.IsAbs(from) {
			from = filepath.Join(p.b.Dir, from) // OCI: relative to the bundle
		}
		if p.sources[i], err = bindsource.Open(from, p.engine); err != nil {
			return fmt.Errorf("mount at %s: %w", m.Destination, err)
		}
		if plainRoot && m.Source == m.Destination && slices.Contains(m.Options, "ro") {
			p.sources[i].Role = bindsource.Injected // a part of the root, on a file system of its own
		}
		if p.sources[i].OwnerMatters() && !harden.ReadOnly(m) {
			p.sources[i].FindSetID(limits)
		}
		p.facts.Sources[i] = &p.sources[i].Fact
	}
	return nil
}

// openRoot opens the root file system that the spec names.
func (p *prepared) openRoot(plain bool) error {
	r := p.b.Spec.Root
	// containerd's CRI sets a path relative to the bundle, whose own may go through links such as
	// /var/run.
	if !filepath.IsAbs(r.Path) {
		dir, err := filepath.EvalSymlinks(p.b.Dir)
		if err != nil {
			return fmt.Errorf("bundle %s: %w", p.b.Dir, err)
		}
		r.Path = filepath.Join(dir, r.Path)
	}
	r.Path = filepath.Clean(r.Path)
	p.engine.Storage = engineStorage(r.Path, p.b.Dir)
	p.inStorage = len(p.engine.Storage) > 0
	if !plain {
		if why := bindsource.RootRefusal(r.Path, p.b.Dir, p.engine); why != nil {
			return why.About("root.path %s", r.Path)
		}
	}
	if p.facts.Host.Rootless {
		// Podman keeps its files for a user's containers there (containers-storage.conf(5),
		// rootless_storage_path).
		dir, err := rootless.RuntimeDir()
		if err != nil {
			return err
		}
		p.engine.Storage = append(p.engine.Storage, dir)
	}
	var err error
	if p.rootfs, err = rootfs.OpenRoot(r.Path); err != nil {
		return fmt.Errorf("root.path: %w", err)
	}
	return nil
}
