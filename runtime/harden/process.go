package harden

import (
	"fmt"
	"math"
	"path"
	"slices"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/kernel/hostfacts"
	"agentjail.dev/runtime/kernel/idmap"
	"agentjail.dev/runtime/refusal"
	"agentjail.dev/runtime/spec/plan"
	"agentjail.dev/runtime/spec/policy"
	"agentjail.dev/runtime/spec/report"
	"agentjail.dev/runtime/spec/rings"
)

// process hardens a process for both create and exec.
func process(p *pass) {
	pr := p.spec.Process
	checkIDs(p, "process.user.uid", p.f.IDs.UIDs, pr.User.UID)
	checkIDs(p, "process.user.gid", p.f.IDs.GIDs, pr.User.GID)
	checkIDs(p, "process.user.additionalGids", p.f.IDs.GIDs, pr.User.AdditionalGids...)
	// runc takes an additional group for a name first, where the image has a group of that name.
	pr.User.AdditionalGids = slices.DeleteFunc(pr.User.AdditionalGids, func(g uint32) bool { return g == pr.User.GID })
	checkCwd(p, pr.Cwd)
	if !pr.NoNewPrivileges {
		pr.NoNewPrivileges = true
		p.change(rings.Access, report.Set, "process.noNewPrivileges", "", "true",
			"set-id programs and file capabilities have no effect")
	}
	priorities(p)
	rlimits(p)
}

// checkIDs refuses ids that the jail does not have, as setuid(2) and setgroups(2) do. No mapping
// changes after the jail is made.
func checkIDs(p *pass, field string, mapping []specs.LinuxIDMapping, ids ...uint32) {
	for _, id := range ids {
		if slices.ContainsFunc(mapping, func(m specs.LinuxIDMapping) bool { return id >= m.ContainerID && id-m.ContainerID < m.Size }) {
			continue
		}
		remedy := fmt.Sprintf("policy: userns.ids = [\"%d\"], or the annotation dev.agentjail.userns.ids, for a new container", id)
		if p.f.IDs.Given || id < idmap.RangeSize {
			remedy = "another id, or a mapping of the engine's that has it"
		}
		p.addRefusal(refusal.New(refusal.User, "%d is none of the jail's ids (%s)", id, rangesText(mapping)).About("%s",
			field).WithRemedy("%s", remedy))
	}
}

// rangesText is the list of a mapping's ids in the jail.
func rangesText(mapping []specs.LinuxIDMapping) string {
	var out []string
	for _, r := range idmap.Ranges(mapping) {
		if r[0] == r[1] {
			out = append(out, fmt.Sprint(r[0]))
		} else {
			out = append(out, fmt.Sprintf("%d to %d", r[0], r[1]))
		}
	}
	return list(out)
}

// checkCwd refuses working directories by which a file that the delegate left
// open becomes a way out (CVE-2024-21626). Symbolic links to the same end are
// the stage's to find: this sees the name only.
func checkCwd(p *pass, cwd string) {
	switch {
	case cwd == "" || !path.IsAbs(cwd):
		p.refuse(refusal.Cwd, "process.cwd %q is not an absolute path", cwd)
		return
	case strings.ContainsRune(cwd, 0):
		p.refuse(refusal.Cwd, "process.cwd contains a NUL byte")
		return
	}
	at := "/"
	for name := range strings.SplitSeq(cwd, "/") {
		if at = path.Join(at, name); at == "/proc" {
			p.refuse(refusal.Cwd, "process.cwd %q is in /proc, whose links can lead out of the jail (CVE-2024-21626)", cwd)
			return
		}
	}
}

func rlimits(p *pass) {
	pr := p.spec.Process
	seen := map[string]bool{}
	out := pr.Rlimits[:0:0]
	for _, r := range pr.Rlimits {
		if _, known := hostfacts.Rlimits[r.Type]; !known {
			p.refuse(refusal.Rlimit, "process.rlimits: unknown type %q", r.Type)
			continue
		}
		if seen[r.Type] {
			p.refuse(refusal.Rlimit, "process.rlimits lists %s twice", r.Type)
			continue
		}
		seen[r.Type] = true
		out = append(out, r)
	}
	for _, b := range plan.Rlimits(p.pol.Limits) {
		if h, ok := p.f.Host.HardLimits[b.Name]; ok && b.Exact && h < b.Max {
			p.missing(rings.Resources, "process.rlimits["+b.Name+"]",
				fmt.Sprintf("the engine's own bound is %d, and only CAP_SYS_RESOURCE raises it to %d: %s", h, b.Max, b.Why))
		}
		if !slices.ContainsFunc(out, func(r specs.POSIXRlimit) bool { return r.Type == b.Name }) {
			v := min(b.Max, hardLimit(p, b.Name))
			p.change(rings.Resources, report.Set, "process.rlimits["+b.Name+"]", "", fmt.Sprint(v), b.Why)
			out = append(out, specs.POSIXRlimit{Type: b.Name, Hard: v, Soft: v})
		}
	}
	for i := range out {
		boundRlimit(p, &out[i])
	}
	pr.Rlimits = out
}

// hardLimit is the bound that this process itself has: a child's cannot be raised without
// CAP_SYS_RESOURCE.
func hardLimit(p *pass, name string) uint64 {
	if h, ok := p.f.Host.HardLimits[name]; ok {
		return h
	}
	return math.MaxUint64
}

// boundRlimit holds one limit to policy's bound and the engine's own.
func boundRlimit(p *pass, r *specs.POSIXRlimit) {
	was, h, why := *r, hardLimit(p, r.Type), "the engine's own bound"
	rules := plan.Rlimits(p.pol.Limits)
	if i := slices.IndexFunc(rules, func(b plan.Rlimit) bool { return b.Name == r.Type }); i >= 0 {
		if b := rules[i]; b.Exact {
			r.Hard, r.Soft, why = b.Max, b.Max, b.Why
		} else if r.Hard > b.Max && b.Max <= h {
			r.Hard, why = b.Max, b.Why
		}
	}
	r.Hard = min(r.Hard, h)
	r.Soft = min(r.Soft, r.Hard)
	field := "process.rlimits[" + r.Type + "]"
	switch {
	case was.Hard > r.Hard && was.Hard == h && p.f.Host.Rootless: // Podman writes its own limits
		p.bound(field, rlimitText(was.Hard), rlimitText(r.Hard), why)
	case was.Hard > r.Hard:
		p.above(r.Type, field, rlimitText(was.Hard), rlimitText(r.Hard), why)
	case was.Hard < r.Hard:
		p.bound(field, rlimitText(was.Hard), rlimitText(r.Hard), why)
	}
}

// rlimitText is a limit for the report.
func rlimitText(v uint64) string {
	if v == math.MaxUint64 {
		return unlimited
	}
	return fmt.Sprint(v)
}

// defaultCaps are the capabilities that engines grant every container by default (moby
// oci/caps/defaults.go; containerd and Podman grant these or fewer). Only further capabilities
// were requested explicitly.
var defaultCaps = []string{
	"CAP_AUDIT_WRITE", "CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID", "CAP_KILL", "CAP_MKNOD",
	"CAP_NET_BIND_SERVICE", "CAP_NET_RAW", "CAP_SETFCAP", "CAP_SETGID", "CAP_SETPCAP", "CAP_SETUID", "CAP_SYS_CHROOT",
}

// capabilities empties all five sets (capabilities(7)), but for what policy leaves to a process of
// the jail's root (process.capabilities). An absent object would leave the delegate's own.
func capabilities(p *pass) {
	pr := p.spec.Process
	var all, bounding, kept []string
	if c := pr.Capabilities; c != nil {
		all = slices.Concat(c.Bounding, c.Effective, c.Permitted, c.Inheritable, c.Ambient)
		slices.Sort(all)
		all = slices.Compact(all)
		// execve(2) gives root this set, without no_new_privs. Docker names no other one for an
		// exec as root where the container has another user.
		bounding = c.Bounding
	}
	p.plan.Capabilities = commonCapabilities(p, bounding)
	if pr.User.UID == 0 {
		for _, c := range p.plan.Capabilities {
			kept = append(kept, "CAP_"+c)
		}
	}
	now, why := "none", "a jail has no capability at all"
	if len(p.pol.Process.Capabilities) > 0 {
		why = "policy: process.capabilities, for the jail's root, as far as the bundle has them"
	}
	if len(kept) > 0 {
		now = strings.Join(kept, ", ")
	}
	extra := slices.DeleteFunc(slices.Clone(all), func(s string) bool { return slices.Contains(defaultCaps, s) })
	switch {
	case pr.Capabilities == nil:
		p.change(rings.Access, report.Set, "process.capabilities", "", now, why)
	case len(extra) > 0:
		p.deny(rings.Access, "process.capabilities", list(extra), now, why)
	case len(all) > len(kept):
		p.change(rings.Access, report.Lowered, "process.capabilities", fmt.Sprintf("%d default ones", len(all)), now, why)
	}
	pr.Capabilities = &specs.LinuxCapabilities{Bounding: kept, Permitted: kept, Effective: kept}
}

// commonCapabilities are those that policy, the bundle and a jail whose namespaces are joined have
// in common. They reach no further than ids that the jail does not share.
func commonCapabilities(p *pass, bounding []string) []string {
	lists := [][]string{p.pol.Process.Capabilities, bounding}
	shared, _ := Shared(p.spec.Linux, p.f.Joins, p.pol.Network)
	if shared.Jail != "" {
		lists = append(lists, shared.Capabilities)
		if policy.CapabilityMask(shared.Most)&^policy.CapabilityMask(p.pol.Process.Capabilities) != 0 {
			p.addRefusal(refusal.New(refusal.Namespace, "jails in these namespaces have %s over this one's ids, and its policy has not",
				strings.Join(shared.Most, ", ")).About("jail %s", shared.Jail).WithRemedy("start both with one policy"))
		}
	}
	if len(p.pol.Process.Capabilities) > 0 && (p.f.Host.Rootless || p.f.IDs.Given || p.pol.Userns.Map == policy.MapNobody) {
		p.addRefusal(refusal.New(refusal.Privilege, "others than the jail may have files of its ids").
			About("process.capabilities").WithRemedy("a root engine without user namespaces of its own, or process.capabilities = []"))
	}
	return policy.CommonCapabilities(lists...)
}

// list is a short enumeration.
func list(s []string) string {
	if len(s) > 6 {
		return fmt.Sprintf("%s and %d more", strings.Join(s[:5], ", "), len(s)-5)
	}
	return strings.Join(s, ", ")
}
