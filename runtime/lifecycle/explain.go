package lifecycle

import (
	"path/filepath"
	"slices"
	"strings"

	"agentjail.dev/runtime/delegate"
	"agentjail.dev/runtime/harden"
	"agentjail.dev/runtime/kernel/idmap"
	"agentjail.dev/runtime/protect"
	"agentjail.dev/runtime/rootfs"
	"agentjail.dev/runtime/spec/bundle"
	"agentjail.dev/runtime/spec/report"
	"agentjail.dev/runtime/spec/traits"
	"agentjail.dev/runtime/state"
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
func (r *Runtime) Explain(dir string) (*Explained, error) {
	b, err := bundle.Load(dir)
	if err != nil {
		return &Explained{}, err
	}
	p, err := r.gather(bundleID(dir), b, false)
	if err != nil {
		return &Explained{}, err
	}
	defer p.close()
	names := []string{r.Policy.Delegate}
	if r.Policy.Delegate == delegate.Auto { // none is tried for an explanation
		names = traits.Names()
	}
	out := &Explained{HeldBy: traits.Boundaries(names...)}
	if p.facts.IDs, err = r.exampleIDs(p); err != nil {
		return out, err
	}
	if out.Result, out.Report, err = harden.Harden(p.b.Spec, r.Policy, p.facts); err != nil {
		return out, err
	}
	return out, p.searched(out)
}

// searched adds the paths that would be protected in mounted directories.
func (p *prepared) searched(out *Explained) error {
	sources := slices.Clone(p.sources)
	for _, i := range slices.Backward(out.Result.Plan.Dropped) {
		sources = slices.Delete(sources, i, i+1)
	}
	var dirs []rootfs.Searched
	for _, b := range out.Result.Plan.Binds {
		src := sources[b.Index]
		if o, ok := rootfs.SearchOptions(b, out.Result.Plan, src.Kind); ok {
			dirs = append(dirs, rootfs.Searched{Mount: b.Index, Options: o, Search: func(o protect.Options) (*protect.Found, error) { return protect.Search(src.File, o) }})
		}
	}
	found, err := rootfs.SearchAll(dirs, out.Result.Plan.Binds)
	if err != nil {
		return err
	}
	for i := range found {
		found[i].Place = out.Result.Spec.Mounts[found[i].Mount].Destination
	}
	reportProtected(out.Report, found)
	return nil
}

// exampleIDs is assignIDs without taking any.
func (r *Runtime) exampleIDs(p *prepared) (idmap.Map, error) {
	if join, _ := harden.Shared(p.b.Spec.Linux, p.facts.Joins, r.Policy.Network); join.Jail != "" {
		other, err := r.Store.Brief(state.Key(r.Globals.Root, join.Jail))
		if err != nil {
			return idmap.Map{}, err
		}
		return other.IDs, nil
	}
	if m, ok, err := r.engineIDs(p.b.Spec.Linux); err != nil || ok {
		return m, err
	}
	return r.Policy.Userns.Block(0), nil
}

// bundleID returns the container's id as far as the bundle's path shows it: engines name the
// directory by it, or one above (Podman's ID/userdata).
func bundleID(dir string) string {
	abs, err := filepath.Abs(dir)
	if err != nil {
		abs = dir
	}
	parts := strings.Split(filepath.Clean(abs), "/")
	for i := len(parts) - 1; i >= 0; i-- {
		if len(parts[i]) == 64 && strings.Trim(parts[i], "0123456789abcdef") == "" {
			return parts[i]
		}
	}
	return parts[len(parts)-1]
}
