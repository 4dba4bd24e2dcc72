package harden

import (
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
	wants, named := p.pol.Workspace.Wants(m.Destination, f.Path)
	if !wants || readOnly {
		return
	}
	if f.Role != bindsource.Plain && !f.HostPath {
		if named {
			p.addRefusal(viewRefusal(m, "an engine's own, which holds no work of the host's", "leave its destination out of the list"))
		}
		return
	}
	switch {
	case f.Kind != bindsource.Dir:
		p.addRefusal(viewRefusal(m, "not a directory", "mount the directory that it is in, or mount it read-only"))
	case p.f.Host.Rootless:
		p.addRefusal(viewRefusal(m, "mounted by a rootless engine, which cannot make a view in which directories are renamed", "start it as root"))
	case f.UID == 0:
		p.addRefusal(viewRefusal(m, "root's, whose id no layer can map to the jail", "chown it to the user who works in it"))
	case f.GID == 0:
		p.addRefusal(viewRefusal(m, "of root's group, whose id no layer can map to the jail",
			"chgrp it to the group of the user who works in it"))
	case b.Owner != plan.OwnerDir:
		p.addRefusal(viewRefusal(m, "without an owner in the jail, who could write to it", "mount it read-only"))
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

func viewRefusal(m *specs.Mount, what, remedy string) *refusal.Error {
	return refusal.New(refusal.Workspace, "it is %s", what).About("view of %s at %s", m.Source, m.Destination).
		WithRemedy("%s", remedy)
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
