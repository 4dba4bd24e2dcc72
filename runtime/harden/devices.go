package harden

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/spec/bindsource"
	"agentjail.dev/runtime/spec/plan"
	"agentjail.dev/runtime/spec/rings"
)

// devices leaves the standard nodes and those that policy lists, in the spec
// and in the control group's rules. A listed node is made by staging: in a user
// namespace the delegate could only bind the host's, with the wrong owner.
func devices(p *pass) {
	l := p.spec.Linux
	requested := l.Resources.Devices
	var gone []string
	var keep []specs.LinuxDevice
	rules := []specs.LinuxDeviceCgroup{{Allow: false, Access: "rwm"}}
	for _, d := range plan.StandardDevices() {
		r := specs.LinuxDeviceCgroup{Allow: true, Type: "c", Major: new(d.Major), Access: "rw"}
		if d.Minor >= 0 {
			r.Minor = new(d.Minor)
		}
		rules = append(rules, r)
	}
	for _, d := range l.Devices {
		if isStandard(d) {
			continue // the delegate makes these in any case
		}
		if !slices.Contains(p.pol.Devices.Allow, path.Clean(d.Path)) {
			gone = append(gone, d.Path)
			continue
		}
		if why := notThatOne(p, d); why != "" {
			p.deny(rings.Access, "linux.devices["+short(d.Path)+"]", fmt.Sprintf("%s %d:%d", d.Type, d.Major, d.Minor), "none", why)
			continue
		}
		access := accessOf(requested, kindOf(d), d.Major, d.Minor)
		if access == "" {
			gone = append(gone, d.Path) // the bundle's own rules deny access to this node
			continue
		}
		keep = append(keep, d)
		rules = append(rules, specs.LinuxDeviceCgroup{
			Allow: true, Type: kindOf(d), Major: new(d.Major), Minor: new(d.Minor),
			Access: access,
		})
	}
	if len(gone) > 0 {
		p.deny(rings.Access, "linux.devices", list(gone), "none",
			"device drivers are kernel surface (policy: devices.allow, which opens the driver of each device that it names)")
	}
	if len(l.NetDevices) > 0 {
		p.deny(rings.Resources, "linux.netDevices", list(slices.Sorted(maps.Keys(l.NetDevices))), "none", "the jail's network is empty")
		l.NetDevices = nil
	}
	if more := beyond(requested, rules); len(more) > 0 {
		p.deny(rings.Access, "linux.resources.devices", list(more), "the standard ones", "device drivers are kernel surface")
	}
	l.Devices, p.plan.Nodes = keep, keep
	l.Resources.Devices = rules
}

// dropDevices removes the bind mounts of host device nodes. A rootless engine makes them for
// requested devices and for --privileged.
func dropDevices(p *pass) {
	if !p.f.Host.Rootless {
		return
	}
	var gone []string
	var mounts []specs.Mount
	var sources []*bindsource.Fact
	for i, m := range p.spec.Mounts {
		var f *bindsource.Fact
		if i < len(p.f.Sources) {
			f = p.f.Sources[i]
		}
		at := path.Clean(m.Destination)
		if f != nil && f.Kind == bindsource.Device && strings.HasPrefix(at, "/dev/") && IsBind(m) {
			gone = append(gone, at)
			p.plan.Dropped = append(p.plan.Dropped, i)
			continue
		}
		mounts, sources = append(mounts, m), append(sources, f)
	}
	if len(gone) > 0 {
		p.deny(rings.Access, "mounts[/dev]", list(gone), "none", "device drivers are kernel surface")
		p.spec.Mounts, p.f.Sources = mounts, sources
	}
}

// notThatOne returns why a device is refused although policy lists its name. The numbers identify
// a device, not the name, and the numbers come from the caller that starts the container. They
// must match the host's own node.
func notThatOne(p *pass, d specs.LinuxDevice) string {
	at := path.Clean(d.Path)
	n, ok := p.f.Nodes[at]
	if !ok || n.Type != kindOf(d) || n.Major != d.Major || n.Minor != d.Minor {
		return "it is not the host's device of that name"
	}
	if !strings.HasPrefix(at, "/dev/") || plan.Reserved(at) != "" {
		return "its place is the jail's own"
	}
	return ""
}

// kindOf is a device's type for control groups; u is an unbuffered c (mknod(1)).
func kindOf(d specs.LinuxDevice) string {
	if d.Type == "u" {
		return "c"
	}
	return d.Type
}

func isStandard(d specs.LinuxDevice) bool {
	return slices.ContainsFunc(plan.StandardDevices(), func(s plan.StandardDevice) bool {
		return path.Clean(d.Path) == s.Path && d.Type == "c" && d.Major == s.Major && d.Minor == s.Minor
	})
}

// covers reports whether a rule applies to a device. Type a, or no type, means all devices
// (config-linux.md, Allowed Device list).
func covers(r specs.LinuxDeviceCgroup, kind string, major, minor int64) bool {
	return (r.Type == "" || r.Type == "a" || r.Type == kind) &&
		(r.Type == "a" || r.Major == nil || *r.Major == -1 || *r.Major == major) &&
		(r.Type == "a" || r.Minor == nil || *r.Minor == -1 || *r.Minor == minor)
}

// accessOf returns the access, of r and w, that a list of rules grants on a device; later rules
// win. Making nodes is not for jails.
func accessOf(rules []specs.LinuxDeviceCgroup, kind string, major, minor int64) string {
	out := ""
	for _, a := range []string{"r", "w"} {
		granted := false
		for _, r := range rules {
			if covers(r, kind, major, minor) && (r.Access == "" || strings.Contains(r.Access, a)) {
				granted = r.Allow
			}
		}
		if granted {
			out += a
		}
	}
	return out
}

// beyond lists the rules that grant reading or writing of something that the
// hardened ones do not grant.
func beyond(requested, now []specs.LinuxDeviceCgroup) []string {
	var out []string
	for _, r := range requested {
		if !r.Allow || r.Access != "" && !strings.ContainsAny(r.Access, "rw") {
			continue
		}
		if r.Type == "a" || r.Type == "" || r.Major == nil || *r.Major == -1 {
			out = append(out, "all devices")
			continue
		}
		granted := slices.ContainsFunc(now, func(n specs.LinuxDeviceCgroup) bool {
			return n.Allow && n.Type == r.Type && *n.Major == *r.Major && (n.Minor == nil || r.Minor != nil && *n.Minor == *r.Minor)
		})
		if !granted {
			minor := "*"
			if r.Minor != nil && *r.Minor != -1 {
				minor = fmt.Sprint(*r.Minor)
			}
			out = append(out, fmt.Sprintf("%s %d:%s", r.Type, *r.Major, minor))
		}
	}
	return slices.Compact(out)
}
