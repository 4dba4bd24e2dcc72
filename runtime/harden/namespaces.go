package harden

import (
	"fmt"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/idmap"
	"agentjail.dev/runtime/report"
)

// Every jail has all of these for itself (namespaces(7)). usual marks those
// that engines ask for unless the caller wanted the host's: a spec without
// them lost something on purpose.
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

// namespaces gives the jail all eight. A path is kept only where it leads into
// another agentjail jail, whose user namespace is then shared too: a namespace
// that the host's user namespace owns is the host's.
func namespaces(p *pass) {
	asked := map[specs.LinuxNamespaceType]string{}
	has := map[specs.LinuxNamespaceType]bool{}
	for _, ns := range p.spec.Linux.Namespaces {
		if has[ns.Type] {
			p.refuse("linux.namespaces lists %s twice", ns.Type)
		}
		has[ns.Type] = true
		asked[ns.Type] = ns.Path
	}
	var shared Join
	for _, n := range allNamespaces {
		j := p.f.Joins[n.kind]
		if asked[n.kind] == "" || j.Jail == "" || !n.join {
			continue
		}
		if shared.Jail != "" && shared.UserNS != j.UserNS {
			p.refuse("linux.namespaces joins namespaces of two jails, %s and %s", shared.Jail, j.Jail)
		}
		shared = j
	}
	var out []specs.LinuxNamespace
	for _, n := range allNamespaces {
		field := fmt.Sprintf("linux.namespaces[%s]", n.kind)
		path := asked[n.kind]
		delete(asked, n.kind)
		switch {
		case n.kind == specs.UserNamespace && shared.Jail != "":
			if path != shared.UserNS {
				p.change(report.Access, report.Set, field, short(path), "that of jail "+shared.Jail, "its namespaces are joined")
			}
			path = shared.UserNS
		case n.kind == specs.TimeNamespace && !p.f.Host.TimeNS:
			p.missing(report.Resources, field, "this kernel has no time namespaces (Linux 5.6): the host's uptime shows")
			continue
		case path != "" && n.join && p.f.Joins[n.kind].Jail != "":
			// stays
		case path != "":
			p.lost(report.Resources, field, "join "+path, "fresh", "only namespaces of another agentjail jail can be joined")
			path = ""
		case !has[n.kind] && (n.usual || n.kind == specs.CgroupNamespace && p.f.Host.Cgroup.V2):
			// Engines give a cgroup namespace with version 2 only.
			p.lost(report.Resources, field, "the host's", "fresh", "a jail shares no namespace with the host")
		case !has[n.kind]:
			p.change(report.Resources, report.Set, field, "", "fresh", "a jail shares no namespace with the host")
		}
		if n.kind == specs.NetworkNamespace {
			p.plan.OwnNetwork = path == ""
		}
		out = append(out, specs.LinuxNamespace{Type: n.kind, Path: path})
	}
	for kind := range asked {
		p.refuse("linux.namespaces: unknown type %q", kind)
	}
	p.spec.Linux.Namespaces = out
	timeOffsets(p)
}

// timeOffsets lets the jail's clocks begin near zero, so that uptime tells
// nothing of the host's (time_namespaces(7)).
func timeOffsets(p *pass) {
	if !p.f.Host.TimeNS {
		p.spec.Linux.TimeOffsets = nil
		return
	}
	if len(p.spec.Linux.TimeOffsets) > 0 && !sameOffsets(p) {
		p.change(report.Resources, report.Dropped, "linux.timeOffsets", "as given", "", "the jail's clocks begin near zero")
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
		p.change(report.Access, report.Set, "linux.uidMappings", was, fmt.Sprintf("root is host uid %d", root), "container root is nobody on the host, and no other jail has its ids")
	}
	if p.f.IDs.Given {
		p.missing(report.Access, "linux.uidMappings", "the engine's own mapping: whatever else it gives these ids to can reach this jail's processes and files, and the other way round (remedy: leave user namespaces to agentjail)")
	}
	l.UIDMappings = append([]specs.LinuxIDMapping(nil), p.f.IDs.UIDs...)
	l.GIDMappings = append([]specs.LinuxIDMapping(nil), p.f.IDs.GIDs...)
}

// short keeps report lines short.
func short(s string) string {
	if len(s) > 60 {
		return s[:57] + "..."
	}
	return s
}
