package harden

import (
	"fmt"
	"path"
	"slices"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/refusal"
	"agentjail.dev/runtime/spec/bindsource"
	"agentjail.dev/runtime/spec/lists"
	"agentjail.dev/runtime/spec/plan"
	"agentjail.dev/runtime/spec/policy"
	"agentjail.dev/runtime/spec/report"
	"agentjail.dev/runtime/spec/rings"
)

// review decides whether a bind mount is a view: the jail writes into a layer of its own over the
// directory. A directory that is to be one and cannot be one is refused, unless no user chose it.
func review(p *pass, m *specs.Mount, f *bindsource.Fact, b *plan.Bind, readOnly bool) {
	wants, named, pattern := p.pol.Workspace.Wants(m.Destination, f.Reached(), f.Kind == bindsource.Dir, p.f.Review)
	if !wants || readOnly {
		return
	}
	refuse := func(what, remedy string) {
		if pattern != "" {
			what += fmt.Sprintf(", and policy has a view of what it reaches, workspace.review = %q", pattern)
		}
		p.addRefusal(refusal.New(refusal.Workspace, "it is %s", what).About("view of %s at %s", m.Source, m.Destination).
			WithRemedy("%s", remedy))
	}
	switch {
	case f.IsEngines() && pattern != "":
		refuse("an engine's own, where a directory of the host's is mounted", "mount that directory, or mount this read-only")
	case f.IsEngines():
		if named {
			refuse("an engine's own, which holds no work of the host's", "leave its destination out of the list")
		}
	case f.Kind != bindsource.Dir:
		refuse("not a directory", "mount the directory that it is in, or mount it read-only")
	case p.f.Host.Rootless:
		refuse("mounted by a rootless engine, which cannot make a view in which directories are renamed", "start it as root, or mount it read-only")
	case f.UID == 0:
		refuse("root's, whose id no layer can map to the jail", "chown it to the user who works in it")
	case f.GID == 0:
		refuse("of root's group, whose id no layer can map to the jail", "chgrp it to the group of the user who works in it")
	case b.Owner != plan.OwnerDir:
		refuse("without an owner in the jail, who could write to it", "mount it read-only")
	default:
		if !b.NonRecursive && len(f.Mounts) > 0 {
			p.change(rings.Access, report.Dropped, mountField(m), list(f.Mounts), "", "an overlay, which a view is, does not show what is mounted below its directory")
		}
		b.Storage, b.NonRecursive = plan.StorageReview, true
		// The layer alone is written to: apply protects the directory.
		b.Protect, b.Absent = false, false
		m.Options = lists.Union(without(m.Options, "rbind"), "bind")
		p.change(rings.Access, report.Set, mountField(m), "writable", "a view",
			"what the jail writes is applied by the directory's owner")
	}
}

// viewsMounted refuses a requested view of which there is no mount.
func viewsMounted(p *pass) {
	for _, at := range p.pol.Workspace.Wanted {
		if !slices.ContainsFunc(p.spec.Mounts, func(m specs.Mount) bool { return IsBind(m) && path.Clean(m.Destination) == at }) {
			p.addRefusal(refusal.New(refusal.Workspace, "no directory of the host is mounted there").About("view at %s", at).
				WithRemedy("the destination of a mount in %s%s", policy.AnnotationPrefix, policy.WorkspaceAnnotation))
		}
	}
}
