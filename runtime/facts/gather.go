// Package facts gathers what hardening has to know of a bundle and of the host: the files that the
// bundle mounts, the namespaces that it joins, the engine's own places, the owner of what is
// mounted. It opens files, and changes nothing but this process's limit on core files. Explain
// hardens a bundle by these facts without running it.
package facts

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/facts/project"
	"agentjail.dev/runtime/harden"
	"agentjail.dev/runtime/kernel/cgroups"
	"agentjail.dev/runtime/kernel/hostfacts"
	"agentjail.dev/runtime/kernel/invoker"
	"agentjail.dev/runtime/kernel/rootless"
	"agentjail.dev/runtime/kernel/users"
	"agentjail.dev/runtime/observe/enginerecord"
	"agentjail.dev/runtime/refusal"
	"agentjail.dev/runtime/rootfs"
	"agentjail.dev/runtime/spec/bindsource"
	"agentjail.dev/runtime/spec/bundle"
	"agentjail.dev/runtime/spec/policy"
	"agentjail.dev/runtime/spec/traits"
	"agentjail.dev/runtime/state"
	"agentjail.dev/runtime/workspace"
)

// A Gatherer gathers the facts about bundles.
type Gatherer struct {
	Store state.Store
	// Root is the delegate's root: its containers are those that a bundle may join.
	Root   string
	Policy policy.Policy
	// PlainRoot is for the host's own file tree as the root (lifecycle.CreateOptions).
	PlainRoot bool
	// Parts are the places of its mounts that belong to that tree.
	Parts []string
	// Image, if not nil, is the source of the mount at its place.
	Image *bindsource.Image
	// Invoker, if not 0, is the user who must own what is mounted.
	Invoker uint32
}

// Gathered is a bundle with the facts that hardening needs.
type Gathered struct {
	Bundle  *bundle.Bundle
	Facts   harden.Facts
	Sources []*bindsource.Source // of each mount of the bundle; nil for one that is no bind mount
	Root    *os.File
	Engine  bindsource.Engine
	// InStorage reports that the root lies in an engine's storage.
	InStorage bool
	// Policy is the gatherer's, as the project's own file narrows it.
	Policy policy.Policy
	docker *enginerecord.Docker // nil for another engine's container
	conmon enginerecord.Conmon
	// labels are the container's with its engine, and imageAsks returns those of the image.
	labels    map[string]string
	imageAsks func() (map[string]string, error)
	fromImage []policy.Ignored
}

// Close closes the files.
func (p *Gathered) Close() {
	for _, s := range p.Sources {
		if s != nil {
			s.File.Close()
		}
	}
	if p.Root != nil {
		p.Root.Close()
	}
	p.Engine.Mounts.Close()
}

// Gather returns the facts about a container's bundle.
func (g Gatherer) Gather(id string, b *bundle.Bundle) (_ *Gathered, err error) {
	p := &Gathered{
		Bundle: b, conmon: enginerecord.ReadConmon(os.Getppid(), id),
		imageAsks: func() (map[string]string, error) { return nil, errMerged },
	}
	defer func() {
		if err != nil {
			p.Close()
		}
	}()
	s := b.Spec
	if err := p.readLabels(id); err != nil {
		return nil, err
	}
	if err := refuseBuild(id, b.Dir, s, p.docker); err != nil {
		return nil, err
	}
	if err := p.followLabels(id); err != nil {
		return nil, err
	}
	if g.Policy, err = project.Apply(g.Policy, s); err != nil {
		return nil, err
	}
	p.Policy = g.Policy
	p.Facts = harden.Facts{
		ID: id, Host: HostFor(g.Policy.Delegate), Sandbox: traits.Of(g.Policy.Delegate).Sandbox,
		Unknown: b.Unknown, OwnBundle: g.PlainRoot, FromImage: p.fromImage,
	}
	if p.Facts.Review, err = bindsource.FollowReview(g.Policy.Workspace.Review); err != nil {
		return nil, err
	}
	major, minor := workspace.Of(g.Store).Disk()
	p.Facts.LayerDisk = harden.Disk{Major: int64(major), Minor: int64(minor)}
	if cg := &p.Facts.Host.Cgroup; g.PlainRoot && p.Facts.Host.Rootless && s.Linux != nil && s.Linux.CgroupsPath == "" {
		*cg = hostfacts.Cgroup{V2: cg.V2} // the jail stays in its caller's groups
	}
	if err := harden.CheckRoot(s); err != nil {
		return nil, err
	}
	if s.Linux != nil && !p.Facts.Host.Cgroup.V2 {
		p.Facts.ParentQuota = quotaAbove(cgroups.Root+"/cpu", s.Linux.CgroupsPath)
	}
	if err := p.openRoot(g.PlainRoot); err != nil {
		return nil, err
	}
	p.Facts.Nodes = nodes(g.Policy.Devices.Allow)
	var members []string
	if p.Facts.Joins, members, err = g.joinedNamespaces(s); err != nil {
		return nil, err
	}
	if err := harden.CheckMountCount(s, g.Policy.Limits.Mounts); err != nil {
		return nil, err
	}
	if err := p.lookAtEngine(append([]string{id}, members...)); err != nil {
		return nil, err
	}
	if err := p.openSources(g, g.Policy.Binds.SetID); err != nil {
		return nil, err
	}
	p.Facts.Owner = g.namedOwner(p)
	return p, nil
}

// lookAtEngine finds the files of the host that are an engine's own. ids are the containers that
// share this one's files.
func (p *Gathered) lookAtEngine(ids []string) (err error) {
	s := p.Bundle.Spec
	p.Engine.Pod = bindsource.PodUID(s)
	p.Engine.CRI, p.Engine.Rootless = bindsource.OfPod(s), p.Facts.Host.Rootless
	p.Engine.IDs, p.Engine.Users = ids, users.New()
	if p.Engine.Mounts, err = bindsource.OpenMounts(); err != nil {
		return err
	}
	layers, err := rootfs.EngineLayers(p.Root, s.Root.Path, p.Engine.Mounts)
	if err != nil {
		return fmt.Errorf("the layers of %s: %w", s.Root.Path, err)
	}
	p.Engine.Storage = append(p.Engine.Storage, bindsource.LayerStorage(layers)...)
	for _, m := range s.Mounts {
		if root := bindsource.RunRoot(m.Source, ids[0]); root != "" && !slices.Contains(p.Engine.Storage, root) {
			p.Engine.Storage = append(p.Engine.Storage, root)
		}
		// Every container in a pod has a file of the kubelet's.
		if root := bindsource.KubeletRoot(m.Source); root != "" && p.Engine.Pod != "" && !slices.Contains(p.Engine.Storage, root) {
			p.Engine.Storage = append(p.Engine.Storage, root)
		}
	}
	p.Engine.IDs = append(p.Engine.IDs, bindsource.Sandboxes(s, p.Engine.Storage)...)
	return nil
}

// openSources opens the files of the host that the bundle mounts. setID is policy's setting for
// set-id programs.
func (p *Gathered) openSources(g Gatherer, setID string) (err error) {
	limits := bindsource.ReportSetID
	if setID == policy.SetIDRefuse {
		limits = bindsource.RefuseSetID
	}
	mounts := p.Bundle.Spec.Mounts
	p.Sources = make([]*bindsource.Source, len(mounts))
	p.Facts.Sources = make([]*bindsource.Fact, len(mounts))
	for i, m := range mounts {
		away := bindsource.SetThrowAway(&mounts[i], p.Facts.ID, p.Engine)
		image := bindsource.SetPodmanImage(&mounts[i], p.Facts.ID, p.Engine)
		m = mounts[i]
		if !harden.IsBind(m) || m.Source == "" { // hardening refuses the latter
			continue
		}
		from := bundle.Path(p.Bundle.Dir, m.Source)
		if g.Image != nil && m.Destination == g.Image.At {
			p.Sources[i], err = g.Image.Source()
		} else if err = g.mayRead(from); err == nil {
			p.Sources[i], err = bindsource.Open(from, p.Engine)
		}
		if err != nil {
			return fmt.Errorf("mount at %s: %w", m.Destination, err)
		}
		if at := cmp.Or(dockerImage(p.docker, m.Destination), bindsource.PodImage(p.Sources[i].Path, p.Engine)); at != "" {
			if err := p.Sources[i].SetImage(at, p.Engine); err != nil {
				return fmt.Errorf("mount at %s: %w", m.Destination, err)
			}
		}
		if m.Source == m.Destination && slices.Contains(g.Parts, m.Source) && slices.Contains(m.Options, "ro") {
			p.Sources[i].Role, p.Sources[i].Part, p.Sources[i].Shown = bindsource.Injected, true, bindsource.Shown{}
		} else if err := g.checkInvoker(m, p.Sources[i]); err != nil {
			return err
		}
		if p.Sources[i].Role != bindsource.OwnImage && p.Sources[i].OwnerMatters() && !harden.ReadOnly(m) {
			p.Sources[i].FindSetID(limits)
		}
		p.Sources[i].ThrowAway = away
		if image || away {
			if err := p.Sources[i].SetReadOnlyImage(p.Engine); err != nil {
				return fmt.Errorf("mount at %s: %w", m.Destination, err)
			}
		}
		p.Facts.Sources[i] = &p.Sources[i].Fact
	}
	return nil
}

// mayRead refuses a path that the invoker cannot read: what is there is not the invoker's to learn.
func (g Gatherer) mayRead(path string) error {
	if g.Invoker == 0 || slices.Contains(g.Parts, path) {
		return nil
	}
	return invoker.MayRead(path)
}

// checkInvoker refuses a directory of another user than the one on whose behalf root makes the
// jail: a jail has the rights of the directory's owner.
func (g Gatherer) checkInvoker(m specs.Mount, s *bindsource.Source) error {
	if g.Invoker == 0 || s.UID == g.Invoker || s.Role == bindsource.OwnImage {
		return nil
	}
	return refusal.New(refusal.BindUsers, "%s belongs to uid %d, and the jail is made on behalf of uid %d", s.Path, s.UID, g.Invoker).
		About("mount at %s", m.Destination).WithRemedy("%s", invoker.Remedy)
}

// openRoot opens the root file system that the spec names.
func (p *Gathered) openRoot(plain bool) error {
	r := p.Bundle.Spec.Root
	// containerd's CRI sets a path relative to the bundle, whose own may go through links such as
	// /var/run.
	if !filepath.IsAbs(r.Path) {
		dir, err := filepath.EvalSymlinks(p.Bundle.Dir)
		if err != nil {
			return fmt.Errorf("bundle %s: %w", p.Bundle.Dir, err)
		}
		r.Path = filepath.Join(dir, r.Path)
	}
	r.Path = filepath.Clean(r.Path)
	p.Engine.Storage = engineStorage(r.Path, p.Bundle.Dir)
	p.InStorage = len(p.Engine.Storage) > 0
	if !plain {
		if why := bindsource.RootRefusal(r.Path, p.Bundle.Dir, p.Engine); why != nil {
			return why.About("root.path %s", r.Path)
		}
	}
	if p.Facts.Host.Rootless {
		// Podman keeps its files for a user's containers there (containers-storage.conf(5),
		// rootless_storage_path).
		dir, err := rootless.RuntimeDir()
		if err != nil {
			return err
		}
		p.Engine.Storage = append(p.Engine.Storage, dir)
	}
	var err error
	if p.Root, err = rootfs.OpenRoot(r.Path); err != nil {
		return fmt.Errorf("root.path: %w", err)
	}
	return nil
}
