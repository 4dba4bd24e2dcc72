package harden

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/kernel/idmap"
	"agentjail.dev/runtime/spec/report"
	"agentjail.dev/runtime/spec/rings"
)

// A sysctlRule is about kernel settings that belong to a namespace: a key that
// ends in a dot or an underscore is the beginning of many.
type sysctlRule struct {
	key string
	ns  specs.LinuxNamespaceType
	// only is the sole value that narrows; "" is any.
	only string
	// guest reports that a sandbox has it, too (gVisor, runsc/sandbox/sandbox.go).
	guest bool
}

// ownSysctls may be set where the namespace is the jail's own (OCI
// runtime-spec, config-linux.md, Sysctl). Of the network's, those that servers
// on lo can use: the others are about interfaces, routes and forwarding, and
// the jail has none. IPv6 can be switched off, also on lo: some servers take ::1
// where it is, and nothing else.
var ownSysctls = []sysctlRule{
	{key: "fs.mqueue.", ns: specs.IPCNamespace},
	{key: "kernel.msgmax", ns: specs.IPCNamespace},
	{key: "kernel.msgmnb", ns: specs.IPCNamespace},
	{key: "kernel.msgmni", ns: specs.IPCNamespace},
	{key: "kernel.sem", ns: specs.IPCNamespace},
	{key: "kernel.shmall", ns: specs.IPCNamespace},
	{key: "kernel.shmmax", ns: specs.IPCNamespace},
	{key: "kernel.shmmni", ns: specs.IPCNamespace},
	{key: "kernel.shm_rmid_forced", ns: specs.IPCNamespace},
	{key: "kernel.domainname", ns: specs.UTSNamespace},
	{key: "net.core.somaxconn", ns: specs.NetworkNamespace},
	{key: "net.unix.max_dgram_qlen", ns: specs.NetworkNamespace},
	{key: "net.ipv4.ip_unprivileged_port_start", ns: specs.NetworkNamespace},
	{key: "net.ipv4.ip_local_port_range", ns: specs.NetworkNamespace},
	{key: "net.ipv4.ip_local_reserved_ports", ns: specs.NetworkNamespace},
	{key: "net.ipv4.tcp_", ns: specs.NetworkNamespace},
	{key: "net.ipv6.conf.all.disable_ipv6", ns: specs.NetworkNamespace, only: "1", guest: true},
	{key: "net.ipv6.conf.default.disable_ipv6", ns: specs.NetworkNamespace, only: "1"},
	{key: "net.ipv6.conf.lo.disable_ipv6", ns: specs.NetworkNamespace, only: "1"},
}

func sysctls(p *pass) {
	fresh := map[specs.LinuxNamespaceType]bool{}
	ownNet := false
	for _, ns := range p.spec.Linux.Namespaces {
		ownNet = ownNet || ns.Type == specs.NetworkNamespace && ns.Path == ""
		j := p.f.Joins[ns.Type]
		fresh[ns.Type] = ns.Path == "" || j.Pinned
	}
	lowPorts(p, fresh[specs.NetworkNamespace])
	s := p.spec.Linux.Sysctl
	for _, k := range slices.Sorted(maps.Keys(s)) {
		// Both separators are in use (sysctl.d(5)).
		dotted := strings.ReplaceAll(k, "/", ".")
		field, was := "linux.sysctl["+short(k)+"]", short(s[k])
		i := slices.IndexFunc(ownSysctls, func(r sysctlRule) bool {
			if r.only != "" && s[k] != r.only {
				return false
			}
			return dotted == r.key || strings.HasPrefix(dotted, r.key) && strings.ContainsAny(r.key[len(r.key)-1:], "._")
		})
		switch {
		case strings.Contains(dotted, "..") || strings.ContainsAny(k, "\x00\n"):
			p.deny(rings.Access, field, was, "", "not the name of a kernel setting")
		case i >= 0 && fresh[ownSysctls[i].ns] && (p.f.Sandbox == "" || ownSysctls[i].guest):
			continue
		case p.f.Sandbox != "" && i >= 0 && !strings.HasPrefix(dotted, "net."):
			p.missing(rings.Access, field, "the kernel of a "+p.f.Sandbox+" sandbox has settings of its own")
		case p.f.Sandbox != "" && strings.HasPrefix(dotted, "net."):
			p.change(rings.Access, report.Dropped, field, was, "",
				"the kernel of a "+p.f.Sandbox+" sandbox has settings of its own")
		case i >= 0:
			p.deny(rings.Access, field, was, "",
				"the "+string(ownSysctls[i].ns)+" namespace is another jail's")
		case dotted == "net.ipv4.ping_group_range" && ownNet && pingGroups(p, k):
			continue
		case dotted == "net.ipv4.ping_group_range":
			// Engines set it for every container.
			p.change(rings.Access, report.Dropped, field, was, "", p.network.NoMore)
		case strings.HasPrefix(dotted, "net."):
			p.deny(rings.Access, field, was, "", p.network.NoMore)
		default:
			p.deny(rings.Access, field, was, "", "it is the host's, not a namespace's of the jail")
		}
		delete(s, k)
	}
}

// pingGroups keeps the groups that may open a socket for ICMP's echo (icmp(7)), as far as the jail
// has them: the kernel takes no range that ends at another one. Docker requests all there are.
func pingGroups(p *pass, key string) bool {
	was := p.spec.Linux.Sysctl[key]
	var low, high uint32
	if n, err := fmt.Sscanf(was, "%d %d", &low, &high); n != 2 || err != nil {
		return false
	}
	last := uint32(0)
	for _, m := range p.f.IDs.GIDs {
		if m.Size > 0 && m.ContainerID < idmap.RangeSize { // higher ones are no range
			last = max(last, m.ContainerID+m.Size-1)
		}
	}
	now := fmt.Sprintf("%d %d", low, min(high, last))
	_, ok1 := p.f.IDs.HostGID(low)
	_, ok2 := p.f.IDs.HostGID(min(high, last))
	if !ok1 || !ok2 {
		return false
	}
	if now != was {
		p.spec.Linux.Sysctl[key] = now
		p.change(rings.Access, report.Lowered, "linux.sysctl["+key+"]", short(was), now, "the jail has no other groups")
	}
	return true
}

// lowPorts lets a jail's programs take ports below 1024 in a network namespace
// that is for it alone, where the bundle gave the capability for that, as Docker
// does for every container. (ip(7), ip_unprivileged_port_start)
func lowPorts(p *pass, own bool) {
	const key = "net.ipv4.ip_unprivileged_port_start"
	l := p.spec.Linux
	wanted := p.network.LowPorts || len(p.plan.Capabilities) > 0 // policy service's nginx over Podman
	if _, ok := l.Sysctl[key]; ok || !own || !wanted || !p.lowPorts || p.f.Sandbox != "" {
		return
	}
	if l.Sysctl == nil {
		l.Sysctl = map[string]string{}
	}
	l.Sysctl[key] = "0"
	p.change(rings.Access, report.Set, "linux.sysctl["+key+"]", "", "0", "in place of CAP_NET_BIND_SERVICE")
}
