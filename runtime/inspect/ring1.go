package inspect

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/kernel/idmap"
	"agentjail.dev/runtime/kernel/printable"
	"agentjail.dev/runtime/spec/plan"
	"agentjail.dev/runtime/spec/policy"
)

func userIDs(d *demands, s *seen) outcome  { return idMap("user", s.uidMap, d.jail.IDs.UIDs, d) }
func groupIDs(d *demands, s *seen) outcome { return idMap("group", s.gidMap, d.jail.IDs.GIDs, d) }

// idMap: the kernel's mapping is the recorded one, and contains no id that another user of the host
// has.
func idMap(what string, have, recorded []specs.LinuxIDMapping, d *demands) outcome {
	want := "map " + mapText(recorded)
	if len(recorded) == 0 {
		want = "a map of the jail's own"
	}
	text := "map " + mapText(have)
	if d.nobodyMap(mapText(have)) {
		return holds("the sandbox is the overflow user alone, without access to files; its helper has %s", want)
	}
	if len(recorded) == 0 || !sameMap(have, recorded) {
		return broken(want, "%s", text)
	}
	if d.host.Rootless {
		return lacking("ids that are the jail's alone", "%s: of the user's own ids, which all of the user's jails share", text)
	}
	for _, m := range have {
		switch {
		case m.HostID == idmap.Overflow && m.Size == 1:
		case m.HostID < idmap.RangeSize:
			return broken("host ids above "+fmt.Sprint(idmap.RangeSize-1), "%s", text)
		case !d.jail.IDs.Given && !inPool(m, d.jail.Policy.Userns.Pool):
			return broken("host ids of the pool", "%s", text)
		}
	}
	var root, n uint32
	for _, m := range have {
		if m.ContainerID == 0 {
			root = m.HostID
		}
		n += m.Size
	}
	return holds("root is %s %d of the host; %d ids", what, root, n)
}

func inPool(m specs.LinuxIDMapping, p idmap.Pool) bool {
	return m.HostID >= p.First && uint64(m.HostID)+uint64(m.Size) <= uint64(p.First)+uint64(p.Count)
}

func mapText(ms []specs.LinuxIDMapping) string {
	return strings.Join(strings.Split(strings.TrimSpace(idmap.Text(ms)), "\n"), ", ")
}

// sameMap compares mappings whatever the order of their lines.
func sameMap(a, b []specs.LinuxIDMapping) bool {
	order := func(ms []specs.LinuxIDMapping) []specs.LinuxIDMapping {
		out := slices.Clone(ms)
		slices.SortFunc(out, func(x, y specs.LinuxIDMapping) int { return int(x.ContainerID) - int(y.ContainerID) })
		return out
	}
	return idmap.Equal(order(a), order(b))
}

// idsInUse: the jail's processes have the jail's ids, and no other process has them.
func idsInUse(d *demands, s *seen) outcome {
	const want = "the jail's ids for its processes alone"
	uids, gids := s.uidMap, s.gidMap
	if d.sandbox != "" { // the sandbox may be the overflow user, and its helper has the jail's ids
		uids, gids = slices.Concat(uids, d.jail.IDs.UIDs), slices.Concat(gids, d.jail.IDs.GIDs)
	}
	var bad []string
	for _, p := range s.processes {
		for _, id := range p.uids {
			if !mapped(uids, id) {
				bad = append(bad, fmt.Sprintf("%s is uid %d of the host", p.who(), id))
				break
			}
		}
		for _, id := range slices.Concat(p.gids, p.groups) {
			if !mapped(gids, id) {
				bad = append(bad, fmt.Sprintf("%s is in group %d of the host", p.who(), id))
				break
			}
		}
	}
	if !d.host.Rootless {
		for _, x := range s.strangers {
			bad = append(bad, x+" outside the jail has its ids")
		}
	}
	if len(bad) > 0 {
		return brokenList(want, bad)
	}
	if len(s.strangers) > 0 {
		return lacking(want, "the user's own processes have some of them, such as %s", s.strangers[0])
	}
	return holds("by %s, and by no other process", printable.Count(len(s.processes), "process"))
}

// capSets are the five sets of capabilities(7), by their names in status.
var capSets = []string{"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"}

func capabilities(d *demands, s *seen) outcome {
	var bad []string
	most := policy.CapabilityMask(d.jail.Capabilities)
	for _, p := range s.processes {
		var sets []string
		for _, c := range capSets {
			if p.caps[c]&^most != 0 || c == "CapAmb" && p.caps[c] != 0 {
				sets = append(sets, fmt.Sprintf("%s=%x", c, p.caps[c]))
			}
		}
		if len(sets) > 0 {
			bad = append(bad, p.who()+" has "+strings.Join(sets, " "))
		}
	}
	if most != 0 {
		return holdsUnless("at most "+strings.Join(d.jail.Capabilities, ", "), bad, "no other in the sets of %s",
			printable.Count(len(s.processes), "process"))
	}
	return holdsUnless("none, in all five sets", bad, "none in Inh, Prm, Eff, Bnd, Amb of %s",
		printable.Count(len(s.processes), "process"))
}

func noNewPrivs(_ *demands, s *seen) outcome {
	var bad []string
	for _, p := range s.processes {
		if !p.noNewPrivs {
			bad = append(bad, p.who()+" can gain privileges")
		}
	}
	return holdsUnless("set for all", bad, "set for %s", printable.Count(len(s.processes), "process"))
}

// label: every process is confined by the jail's profile or label.
func label(d *demands, s *seen) outcome {
	pol := d.jail.Policy.AppArmor
	var profile, selinux string
	if p := d.jail.Process; p != nil {
		profile, selinux = p.ApparmorProfile, p.SelinuxLabel
	}
	var want string
	var confined func(string) bool
	switch {
	case d.host.AppArmor && (profile != "" || pol.Required):
		profile = cmp.Or(profile, pol.Profile)
		want = profile + " (enforce)"
		confined = func(l string) bool { return enforced(l, profile) }
	case d.host.SELinux && selinux != "":
		want = selinux
		confined = func(l string) bool { return l == selinux }
	case pol.Required:
		return broken("AppArmor or SELinux, which policy requires", "the jail has neither")
	default:
		why, ok := d.missing("process.apparmorProfile")
		if !ok {
			why, ok = d.missing("process.selinuxLabel")
		}
		if !ok && (d.host.AppArmor || d.host.SELinux) {
			return broken("a profile or label", "the record has none, without a reason")
		}
		if !ok {
			why = "this kernel confines with neither AppArmor nor SELinux"
		}
		return lacking("AppArmor or SELinux", "%s", why)
	}
	var bad []string
	for _, p := range s.processes {
		if !confined(p.label) {
			bad = append(bad, fmt.Sprintf("%s has %q", p.who(), p.label))
		}
	}
	if len(bad) > 0 {
		return brokenList(want, bad)
	}
	if profile != "" && !slices.Contains(strings.Split(profile, "//&"), pol.Profile) {
		// The engine's own, which a jail keeps where ours cannot be loaded.
		why, ok := d.missing("process.apparmorProfile")
		if !ok {
			return broken("profile "+pol.Profile, "%s instead, without a reason", profile)
		}
		return lacking("profile "+pol.Profile, "%s; the engine's profile %s holds", why, profile)
	}
	return holds("%s", s.processes[0].label)
}

// enforced reports whether an AppArmor label names the profile in a mode that
// enforces it. A label can be a stack, "a//&b (enforce)": each of its profiles
// confines.
func enforced(label, profile string) bool {
	i := strings.LastIndex(label, " (")
	if i < 0 {
		return false
	}
	mode := strings.TrimSuffix(label[i+2:], ")")
	return (mode == "enforce" || mode == "kill") && slices.Contains(strings.Split(label[:i], "//&"), profile)
}

func maskedPaths(d *demands, s *seen) outcome {
	return s.closed(d.masked(), "hidden", func(p pathState) bool { return p.empty })
}

func readOnlyPaths(d *demands, s *seen) outcome {
	return s.closed(d.readOnly(), "read-only", func(p pathState) bool { return p.readOnly || p.empty })
}

// closed is the check of paths, each of which is closed or missing.
func (s *seen) closed(paths []string, how string, closed func(pathState) bool) outcome {
	var bad []string
	there := 0
	for _, p := range paths {
		switch st := s.paths[p]; {
		case !st.exists:
		case closed(st):
			there++
		default:
			bad = append(bad, p)
		}
	}
	return holdsUnless(fmt.Sprintf("all %d %s", len(paths), how), bad, "%d %s, %d not there", there, how, len(paths)-there)
}

// delegateDevices are what runc 1.1 lets every container use beside the
// standard nodes (libcontainer/specconv, AllowedDevices): /dev/net/tun. There
// is no such node in a jail, and none can be made.
var delegateDevices = []string{"c 10:200"}

// deviceRules: the control group's own list (version 1), or that there is a program that decides
// (version 2), whose content the kernel does not report.
func deviceRules(d *demands, s *seen) outcome {
	const want = "the standard devices and those of policy"
	list, ok := s.cgroup.files["devices.list"]
	switch {
	case d.host.Rootless && s.cgroup.programs <= 0 && !ok:
		return lacking(want, "rules take a privilege on the machine: no other node is in the jail, and none can be made")
	case s.cgroup.v2 && s.cgroup.programs > 0:
		return holds("%s, whose rules cannot be read", printable.Count(s.cgroup.programs, "device program"))
	case s.cgroup.v2 && s.cgroup.programs == 0:
		return broken(want, "no program decides on devices")
	case !ok:
		return lacking(want, "the kernel does not report them")
	}
	allowed := map[string]bool{}
	if r := d.jail.Limits; r != nil {
		for _, x := range r.Devices {
			if x.Allow && x.Major != nil && x.Minor != nil {
				allowed[fmt.Sprintf("%s %d:%d", x.Type, *x.Major, *x.Minor)] = len(d.jail.Policy.Devices.Allow) > 0
			}
		}
	}
	var bad []string
	n := 0
	for line := range strings.SplitSeq(strings.TrimSpace(list), "\n") {
		f := strings.Fields(line) // TYPE MAJOR:MINOR ACCESS
		if len(f) != 3 || f[2] == "m" {
			continue // making a node takes CAP_MKNOD outside of user namespaces
		}
		dev := f[0] + " " + f[1]
		if !isStandardDevice(dev) && !slices.Contains(delegateDevices, dev) && !allowed[dev] {
			bad = append(bad, line)
			continue
		}
		n++
	}
	return holdsUnless(want, bad, "%s, all others denied", printable.Count(n, "device"))
}

// isStandardDevice reads "c MAJOR:MINOR", where a rule's minor may be "*".
func isStandardDevice(dev string) bool {
	nums, ok := strings.CutPrefix(dev, "c ")
	major, minor, ok2 := strings.Cut(nums, ":")
	ma, err := strconv.ParseInt(major, 10, 64)
	if !ok || !ok2 || err != nil {
		return false
	}
	mi := int64(-2) // "*": only where all are standard
	if minor != "*" {
		if mi, err = strconv.ParseInt(minor, 10, 64); err != nil {
			return false
		}
	}
	return plan.IsStandardDevice(ma, mi)
}
