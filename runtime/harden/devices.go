package harden

import (
	"fmt"
	"path"
	"slices"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/report"
)

// Every container has these from its delegate (OCI runtime-spec,
// config-linux.md, Default Devices); major and minor numbers as in the kernel's
// Documentation/admin-guide/devices.txt.
var standardDevices = []struct {
	path         string
	major, minor int64 // minor -1: all
}{
	{"/dev/null", 1, 3},
	{"/dev/zero", 1, 5},
	{"/dev/full", 1, 7},
	{"/dev/random", 1, 8},
	{"/dev/urandom", 1, 9},
	{"/dev/tty", 5, 0},
	{"/dev/console", 5, 1},
	{"/dev/ptmx", 5, 2},
	{"/dev/pts", 136, -1},
}

// devices leaves the standard nodes and those that policy lists, in the spec
// and in the control group's rules. A listed node is made by staging: in a user
// namespace the delegate could only bind the host's, with the wrong owner.
func devices(p *pass) {
	l := p.spec.Linux
	var lostPaths []string
	var keep []specs.LinuxDevice
	for _, d := range l.Devices {
		switch {
		case isStandard(d):
			// The delegate makes these in any case.
		case slices.Contains(p.pol.Devices.Allow, path.Clean(d.Path)) && (d.Type == "c" || d.Type == "b" || d.Type == "u"):
			keep = append(keep, d)
		default:
			lostPaths = append(lostPaths, d.Path)
		}
	}
	if len(lostPaths) > 0 {
		p.lost(report.Access, "linux.devices", list(lostPaths), "none", "device drivers are kernel surface (policy: devices.allow)")
	}
	l.Devices = keep
	p.plan.Nodes = keep
	if len(l.NetDevices) > 0 {
		p.lost(report.Resources, "linux.netDevices", fmt.Sprintf("%d", len(l.NetDevices)), "none", "the jail's network is empty")
		l.NetDevices = nil
	}

	for _, r := range l.Resources.Devices {
		if r.Allow && r.Type == "a" || r.Allow && r.Major == nil && r.Minor == nil && r.Access != "m" {
			p.lost(report.Access, "linux.resources.devices", "all devices", "the standard ones", "device drivers are kernel surface")
			break
		}
	}
	rules := []specs.LinuxDeviceCgroup{{Allow: false, Access: "rwm"}}
	for _, d := range standardDevices {
		r := specs.LinuxDeviceCgroup{Allow: true, Type: "c", Major: ptr(d.major), Access: "rw"}
		if d.minor >= 0 {
			r.Minor = ptr(d.minor)
		}
		rules = append(rules, r)
	}
	for _, d := range keep {
		typ := d.Type
		if typ == "u" {
			typ = "c"
		}
		rules = append(rules, specs.LinuxDeviceCgroup{Allow: true, Type: typ, Major: ptr(d.Major), Minor: ptr(d.Minor), Access: "rw"})
	}
	l.Resources.Devices = rules
}

func isStandard(d specs.LinuxDevice) bool {
	for _, s := range standardDevices {
		if path.Clean(d.Path) == s.path && d.Type == "c" && d.Major == s.major && d.Minor == s.minor {
			return true
		}
	}
	return false
}

func ptr[T any](v T) *T { return &v }
