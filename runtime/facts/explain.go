package facts

import (
	"path/filepath"
	"slices"
	"strings"

	"agentjail.dev/runtime/delegate"
	"agentjail.dev/runtime/harden"
	"agentjail.dev/runtime/kernel/invoker"
	"agentjail.dev/runtime/protect"
	"agentjail.dev/runtime/rootfs"
	"agentjail.dev/runtime/spec/bundle"
	"agentjail.dev/runtime/spec/report"
	"agentjail.dev/runtime/spec/traits"
)

// Explained is the result of hardening a bundle that is not run.
type Explained struct {
	Result *harden.Result // nil where it would be refused
	Report *report.Report // as far as hardening got; nil where the bundle cannot be read
	// HeldBy reports where the protections are held, by each delegate that policy may choose.
	HeldBy map[string]traits.Boundary
}

// Explain hardens the bundle in dir and changes nothing: no state is written,
// no ids are taken (the first block of the pool stands for the jail's), nothing
// is mounted or loaded. The error reports why the bundle would be refused; what
// was found out until then comes with it.
func (g Gatherer) Explain(dir string) (*Explained, error) {
	var b *bundle.Bundle
	err := invoker.Do(func() (err error) { b, err = bundle.Load(dir); return err })
	if err == nil && b.Spec.Root != nil {
		err = invoker.MayRead(bundle.Path(b.Dir, b.Spec.Root.Path))
	}
	if err != nil {
		return &Explained{}, err
	}
	p, err := g.Gather(bundleID(dir), b)
	if err != nil {
		return &Explained{}, err
	}
	defer p.Close()
	g.Policy = p.Policy
	names := []string{g.Policy.Delegate}
	if g.Policy.Delegate == delegate.Auto { // none is tried for an explanation
		names = traits.Auto()
	}
	out := &Explained{HeldBy: traits.Boundaries(names...)}
	ids, _, preset, err := g.PresetIDs(p)
	if err != nil {
		return out, err
	}
	if !preset {
		ids = g.Map(p, g.Policy.Userns.Block(0))
	}
	p.Facts.IDs = ids
	if out.Result, out.Report, err = harden.Harden(p.Bundle.Spec, g.Policy, p.Facts); err != nil {
		return out, err
	}
	return out, p.searched(out)
}

// searched adds the paths that would be protected in mounted directories.
func (p *Gathered) searched(out *Explained) error {
	sources := slices.Clone(p.Sources)
	for _, i := range slices.Backward(out.Result.Plan.Dropped) {
		sources = slices.Delete(sources, i, i+1)
	}
	var dirs []rootfs.Searched
	for _, b := range out.Result.Plan.Binds {
		src := sources[b.Index]
		if o, ok := rootfs.SearchOptions(b, out.Result.Plan, src); ok {
			dirs = append(dirs, rootfs.Searched{
				Mount: b.Index, Options: o,
				Search: func(o protect.Options) (*protect.Found, error) { return protect.Search(src.File, o) },
			})
		}
	}
	found, err := rootfs.SearchAll(dirs, out.Result.Plan.Binds)
	if err != nil {
		return err
	}
	for i := range found {
		found[i].Place = out.Result.Spec.Mounts[found[i].Mount].Destination
	}
	rootfs.ReportProtected(out.Report, found)
	return nil
}

// bundleID returns the container's id as far as the bundle's path shows it: engines name the
// directory by it, or one above (Podman's ID/userdata).
func bundleID(dir string) string {
	abs, err := filepath.Abs(dir)
	if err != nil {
		abs = dir
	}
	parts := strings.Split(filepath.Clean(abs), "/")
	for _, part := range slices.Backward(parts) {
		if len(part) == 64 && strings.Trim(part, "0123456789abcdef") == "" {
			return part
		}
	}
	return parts[len(parts)-1]
}
