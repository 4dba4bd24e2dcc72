package harden

import (
	"fmt"
	"slices"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/kernel/idmap"
	"agentjail.dev/runtime/network/modes"
	"agentjail.dev/runtime/refusal"
	"agentjail.dev/runtime/spec/network"
	"agentjail.dev/runtime/spec/policy"
	"agentjail.dev/runtime/spec/report"
	"agentjail.dev/runtime/spec/rings"
)

// allNamespaces are private to every jail (namespaces(7)). usual marks the types that engines
// request unless the caller wanted the host's: a spec without one of these shares the host's on
// purpose.
var allNamespaces = []struct {
	kind  specs.LinuxNamespaceType
	usual bool
	join  bool // another jail's may be joined
}{
	{specs.PIDNamespace, true, true},
	{specs.NetworkNamespace, true, true},
	{specs.MountNamespace, true, false},
	{specs.IPCNamespace, true, true},
	{specs.UTSNamespace, true, true},
	{specs.UserNamespace, false, true},
	{specs.CgroupNamespace, false, false},
	{specs.TimeNamespace, false, false},
}

// namespaces creates all eight for the jail. A path is kept only where it leads into another
// agentjail jail, whose user namespace is then shared too: a namespace that the host's user
// namespace owns is the host's.
func namespaces(p *pass) {
	requested := map[specs.LinuxNamespaceType]string{}
	has := map[specs.LinuxNamespaceType]bool{}
	for _, ns := range p.spec.Linux.Namespaces {
		if has[ns.Type] {
			p.refuse(refusal.Namespace, "linux.namespaces lists %s twice", ns.Type)
		}
		has[ns.Type] = true
		requested[ns.Type] = ns.Path
	}
	shared, other := Shared(p.spec.Linux, p.f.Joins, p.pol.Network)
	if other.Jail != "" {
		p.refuse(refusal.Namespace, "linux.namespaces joins namespaces of two jails, %s and %s", shared.Jail, other.Jail)
	}
	decideNetwork(p, requested[specs.NetworkNamespace])
	var out []specs.LinuxNamespace
	for _, n := range allNamespaces {
		field := fmt.Sprintf("linux.namespaces[%s]", n.kind)
		path := requested[n.kind]
		delete(requested, n.kind)
		switch {
		case n.kind == specs.UserNamespace && shared.Jail != "":
			if path != shared.UserNS {
				p.change(rings.Access, report.Set, field, short(path), "that of jail "+shared.Jail, "its namespaces are joined")
			}
			path = shared.UserNS
		case n.kind == specs.TimeNamespace && p.f.Sandbox != "":
			continue // its kernel has clocks of its own
		case n.kind == specs.TimeNamespace && !p.f.Host.TimeNS:
			p.missing(rings.Resources, field, "this kernel has no time namespaces (Linux 5.6): the host's uptime shows")
			continue
		case path != "" && mayJoin(n.kind, p.f.Joins[n.kind], p.pol.Network):
			// stays
		case path != "" && p.f.Joins[n.kind].Pinned:
			// Engines that make the namespace first always report it (CNI).
			p.change(rings.Resources, report.Set, field, short(path), "fresh", p.network.NoMore+" (policy: network.mode)")
			path = ""
		case path != "":
			p.deny(rings.Resources, field, "join "+path, "fresh", "only namespaces of another agentjail jail can be joined")
			path = ""
		case !has[n.kind] && (n.usual || n.kind == specs.CgroupNamespace && p.f.Host.Cgroup.V2):
			// Engines request a cgroup namespace with version 2 only.
			p.deny(rings.Resources, field, "the host's", "fresh", "a jail shares no namespace with the host")
		case !has[n.kind]:
			p.change(rings.Resources, report.Set, field, "", "fresh", "a jail shares no namespace with the host")
		}
		if n.kind == specs.NetworkNamespace && p.network.Reach != "" {
			p.change(rings.Resources, report.Set, "network", "", p.network.Reach, p.network.Why)
		}
		if n.kind == specs.NetworkNamespace && p.pol.NamesNothing() {
			p.change(rings.Resources, report.Set, "network", "", "none", policy.NothingNamed)
		}
		if n.kind == specs.NetworkNamespace && p.network.ByRules {
			networkRules(p)
		}
		out = append(out, specs.LinuxNamespace{Type: n.kind, Path: path})
	}
	for kind := range requested {
		p.refuse(refusal.Namespace, "linux.namespaces: unknown type %q", kind)
	}
	p.spec.Linux.Namespaces = out
	timeOffsets(p)
}

// decideNetwork has policy's network mode choose the jail's network. path is the namespace that
// the spec names.
func decideNetwork(p *pass, path string) {
	var found network.Found
	if path != "" {
		found = p.f.Joins[specs.NetworkNamespace].found()
		found.Path = path
	}
	m, err := modes.Named(p.pol.Network.Mode)
	if err != nil {
		p.unknownMode(err)
		return
	}
	d := m.Decide(found)
	// A joined jail's network can have another mode.
	if m, err = modes.Named(d.Mode); err != nil {
		p.unknownMode(err)
		return
	}
	p.plan.Network, p.network = d, m.Terms(d)
	p.plan.Resolver = p.network.Resolver
}

// NetworkRules returns the report's entries for the rules of a network by name, one for each
// rule.
func NetworkRules(n policy.Network) (out []report.Change) {
	for _, r := range n.Allow {
		out = append(out, report.Change{
			Ring: rings.Resources, Kind: report.Set, Field: "network.allow", Now: r,
			Why: "can be connected to by name",
		})
	}
	for _, r := range n.Deny {
		out = append(out, report.Change{
			Ring: rings.Resources, Kind: report.Set, Field: "network.deny", Now: r,
			Why: "cannot be connected to",
		})
	}
	return out
}

// networkRules reports the destinations that the jail may reach, rule by rule.
func networkRules(p *pass) {
	p.rep.Changes = append(p.rep.Changes, NetworkRules(p.pol.Network)...)
	for _, r := range p.pol.Network.Publishes() {
		p.change(rings.Resources, report.Set, "network.publish", "", r, "the jail's port can be connected to from outside")
	}
}

// unknownMode stops at a network mode that is none of this version's.
func (p *pass) unknownMode(err error) {
	p.refused = append(p.refused, refusal.All(err)...)
	p.stop = true
}

// found returns the facts about a namespace that a network mode decides by.
func (j Join) found() network.Found {
	return network.Found{Jail: j.Jail != "", Mode: j.Mode, Pinned: j.Pinned}
}

// mayJoin reports whether a namespace that a spec names may be joined: another jail's, and of
// network namespaces those that policy's mode takes.
func mayJoin(kind specs.LinuxNamespaceType, j Join, pol policy.Network) bool {
	if kind == specs.NetworkNamespace {
		m, err := modes.Named(pol.Mode)
		return err == nil && m.Decide(j.found()).Namespace != network.Own
	}
	for _, n := range allNamespaces {
		if n.kind == kind {
			return n.join && j.Jail != ""
		}
	}
	return false
}

// Shared is the jail whose user namespace and ids are shared because the spec joins others of its
// namespaces; its Jail is "" for none. other is a second such jail: then the spec is
// contradictory.
func Shared(l *specs.Linux, joins map[specs.LinuxNamespaceType]Join, pol policy.Network) (shared, other Join) {
	if l == nil {
		return shared, other
	}
	for _, ns := range l.Namespaces {
		j := joins[ns.Type]
		if ns.Path == "" || j.Jail == "" || !mayJoin(ns.Type, j, pol) {
			continue
		}
		if shared.Jail != "" && shared.UserNS != j.UserNS {
			other = j
			continue
		}
		shared = j
	}
	return shared, other
}

// timeOffsets lets the jail's clocks begin near zero, so that uptime does not reveal the host's
// (time_namespaces(7)).
func timeOffsets(p *pass) {
	if !p.f.Host.TimeNS {
		p.spec.Linux.TimeOffsets = nil
		return
	}
	if len(p.spec.Linux.TimeOffsets) > 0 && !sameOffsets(p) {
		p.change(rings.Resources, report.Dropped, "linux.timeOffsets", "as requested", "", "the jail's clocks begin near zero")
	}
	p.spec.Linux.TimeOffsets = map[string]specs.LinuxTimeOffset{
		"boottime":  {Secs: -p.f.Host.BootTime},
		"monotonic": {Secs: -p.f.Host.Monotonic},
	}
}

func sameOffsets(p *pass) bool {
	o := p.spec.Linux.TimeOffsets
	return len(o) == 2 && o["boottime"].Secs == -p.f.Host.BootTime && o["monotonic"].Secs == -p.f.Host.Monotonic
}

// ids sets the user namespace's mapping.
func ids(p *pass) {
	l := p.spec.Linux
	if len(p.f.IDs.UIDs) == 0 || len(p.f.IDs.GIDs) == 0 {
		p.fatal("no host ids for the jail")
		return
	}
	if !idmap.Equal(l.UIDMappings, p.f.IDs.UIDs) || !idmap.Equal(l.GIDMappings, p.f.IDs.GIDs) {
		root, _ := p.f.IDs.HostUID(0)
		was := ""
		if len(l.UIDMappings) > 0 {
			was = short(idmap.Text(l.UIDMappings))
		}
		p.change(rings.Access, report.Set, "linux.uidMappings", was, fmt.Sprintf("root is host uid %d", root),
			"container root is an unprivileged id on the host, and no other jail has its ids")
	}
	switch {
	case p.f.Host.Rootless:
		p.missing(rings.Access, "linux.uidMappings",
			"a rootless engine has only its user's ids: all of its jails share them, and may hold the user's own (remedy: run the engine as root: then each jail has ids that no user has)")
	case p.f.IDs.Given:
		p.missing(rings.Access, "linux.uidMappings",
			"the engine's own mapping: other containers with these ids can reach this jail's processes and files, and the other way round (remedy: leave user namespaces to agentjail)")
	}
	l.UIDMappings = slices.Clone(p.f.IDs.UIDs)
	l.GIDMappings = slices.Clone(p.f.IDs.GIDs)
}

// short keeps report lines short.
func short(s string) string {
	if len(s) > 60 {
		return s[:57] + "..."
	}
	return s
}
