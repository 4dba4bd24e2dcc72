package inspect

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/docker/go-units"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/kernel/oomscore"
	"agentjail.dev/runtime/kernel/pathname"
	"agentjail.dev/runtime/kernel/printable"
	"agentjail.dev/runtime/spec/network"
	"agentjail.dev/runtime/spec/plan"
	"agentjail.dev/runtime/spec/policy"
)

// namespaces: none of the jail's is the host's, and all of its processes are in
// the same ones.
func namespaces(d *demands, s *seen) outcome {
	const want = "namespaces of its own"
	var shared, own, absent []string
	for _, k := range kinds {
		n, ok := s.namespaces[k]
		switch {
		case !ok:
			absent = append(absent, k)
		case n.Jail == n.Host:
			shared = append(shared, k)
		default:
			own = append(own, k)
		}
	}
	if d.sandbox != "" {
		shared = slices.DeleteFunc(shared, func(k string) bool { return slices.Contains(sandboxLacks, k) })
	}
	var why string
	if slices.Equal(shared, []string{"time"}) {
		// Policy leaves it to the host whether there are time namespaces.
		if w, ok := d.missing("linux.namespaces[time]"); ok {
			why, shared, absent = w, nil, append(absent, "time")
		}
	}
	if len(shared) > 0 {
		return broken(want, "the host's: %s", strings.Join(shared, ", "))
	}
	var bad []string
	for _, p := range s.processes {
		if d.sandbox != "" {
			break // its helper has others, and none of the host's
		}
		for kind, have := range map[string]uint64{"user": p.userNS, "pid": p.pidNS, "mnt": p.mntNS} {
			if have != s.namespaces[kind].Jail {
				bad = append(bad, fmt.Sprintf("%s is in another %s namespace", p.who(), kind))
			}
		}
	}
	if len(bad) > 0 {
		slices.Sort(bad)
		return brokenList(want, bad)
	}
	if len(absent) > 0 {
		return lacking(strings.Join(absent, ", ")+" too", "its own: %s; %s", strings.Join(own, ", "),
			cmp.Or(why, "this kernel has none"))
	}
	joined := d.joined()
	own = slices.DeleteFunc(own, func(k string) bool { return slices.Contains(joined, k) })
	if len(joined) > 0 {
		return holds("its own: %s; another jail's too: %s", strings.Join(own, ", "), strings.Join(joined, ", "))
	}
	return holds("its own: %s", strings.Join(own, ", "))
}

// specKinds are the namespaces whose names in specs are not those in /proc.
var specKinds = map[specs.LinuxNamespaceType]string{specs.MountNamespace: "mnt", specs.NetworkNamespace: "net"}

// joined lists the namespaces that the jail shares with another one.
func (d *demands) joined() []string {
	var out []string
	if d.spec == nil || d.spec.Linux == nil {
		return nil
	}
	for _, n := range d.spec.Linux.Namespaces {
		if n.Path == "" || n.Path == d.jail.OwnUserNS {
			continue
		}
		out = append(out, cmp.Or(specKinds[n.Type], string(n.Type)))
	}
	return out
}

// namespaceOwner: no process in the jail can change an object of the host's user namespace, but the
// object would be the host's to begin with. The time namespace is made before the user namespace.
func namespaceOwner(d *demands, s *seen) outcome {
	user := s.namespaces["user"].Jail
	engines := d.jail.Network.Namespace == network.Given
	var bad []string
	for _, k := range kinds {
		n, ok := s.namespaces[k]
		if !ok || k == "user" || k == "time" || n.Jail == n.Host {
			continue
		}
		if n.Owner != user && !(k == "net" && engines) {
			bad = append(bad, k)
		}
	}
	if len(bad) > 0 {
		return broken("owned by its user namespace", "of another user namespace: %s", strings.Join(bad, ", "))
	}
	if engines {
		return holds("its user namespace; the network's is the engine's")
	}
	return holds("its user namespace")
}

// clocks: the time since boot that the jail sees began with it.
func clocks(d *demands, s *seen) outcome {
	n, ok := s.namespaces["time"]
	if !ok || n.Jail == n.Host {
		why, known := d.missing("linux.namespaces[time]")
		if !ok {
			why, known = "this kernel has no time namespaces", true
		}
		if known {
			return lacking("clocks that begin near zero", "%s", why)
		}
		return broken("clocks that begin near zero", "the host's uptime shows")
	}
	// The offsets were taken when the jail was made, so they are no larger
	// than the host's clocks are now.
	now := map[string]int64{"boottime": d.host.BootTime, "monotonic": d.host.Monotonic}
	var up int64
	for clock, host := range now {
		off := s.offsets[clock]
		if off >= 0 && host > 0 || off < -host {
			return broken("clocks that begin near zero", "%s is %d s away from the host's", clock, off)
		}
		up = max(up, host+off)
	}
	return holds("up %d s; the host %d s", up, d.host.BootTime)
}

// networkHolds: the protections of the network's mode, as read inside the namespace.
func networkHolds(d *demands, s *seen) outcome {
	var bad, less []string
	all := s.network.Protections
	for _, f := range all {
		if f.OK {
			continue
		}
		text := f.Name + ": " + f.Detail
		if _, ok := d.missing(network.MissingField(f.Name)); ok {
			less = append(less, text)
			continue
		}
		bad = append(bad, text)
	}
	switch {
	case len(bad) > 0:
		return brokenList(s.network.Want, bad)
	case len(less) > 0:
		return lacking("all protections", "%d of %d protections; without %s", len(all)-len(less), len(all), strings.Join(less, "; "))
	case len(all) > 0 && !s.network.Open:
		return holds("%s; %d protections", s.network.Detail, len(all))
	case !s.network.Open:
		return broken(s.network.Want, "not sealed")
	}
	return holds("%s", s.network.Detail)
}

// membership: every process is in the groups that bound the first one, and
// those are not the host's own.
func membership(d *demands, s *seen) outcome {
	const want = "all processes in the jail's own groups"
	controllers := limiting
	if s.cgroup.v2 {
		controllers = []string{""}
	}
	var bad []string
	dir := ""
	for _, c := range controllers {
		path, ok := s.cgroup.paths[c]
		if !ok {
			continue
		}
		name := cmp.Or(c, "the unified group")
		if path == "/" {
			bad = append(bad, name+" is the host's root group")
			continue
		}
		if dir == "" || len(path) < len(dir) {
			dir = path
		}
		for _, p := range s.processes {
			if have := p.cgroups[c]; !pathname.Within(have, path) {
				bad = append(bad, fmt.Sprintf("%s is in %s of %s", p.who(), have, name))
			}
		}
	}
	if len(bad) > 0 {
		return brokenList(want, bad)
	}
	if dir == "" {
		if d.host.Rootless {
			return lacking(want, "the user's engine has none")
		}
		return lacking(want, "this host has no control groups")
	}
	note := ""
	if s.more > 0 {
		note = fmt.Sprintf(", %d not looked at", s.more)
	}
	return holds("%s in %s%s", printable.Count(len(s.processes), "process"), dir, note)
}

// rlimits: no hard limit above the bounds of every jail, nor, for the first
// process, above its bundle's.
func rlimits(d *demands, s *seen) outcome {
	bounds := plan.RlimitBounds(d.jail.Policy.Limits)
	const want = "hard limits of policy"
	var bad []string
	core, without := uint64(plan.CoreOff), ""
	if why, ok := d.missing("process.rlimits[RLIMIT_CORE]"); ok {
		core, without = 0, why
	}
	for i, p := range s.processes {
		if have, ok := p.limits["RLIMIT_CORE"]; ok && have != (rlimit{core, core}) {
			bad = append(bad, fmt.Sprintf("%s: RLIMIT_CORE is %s of %s, not %d", p.who(), limitText(have.soft),
				limitText(have.hard), core))
		}
		limits := bounds
		if i == 0 && d.jail.Process != nil {
			limits = maps.Clone(bounds)
			for _, r := range d.jail.Process.Rlimits {
				if v, ok := limits[r.Type]; !ok || r.Hard < v {
					limits[r.Type] = r.Hard
				}
			}
		}
		for name, bound := range limits {
			have, ok := p.limits[name]
			if !ok {
				bad = append(bad, fmt.Sprintf("%s: %s is unknown", p.who(), name))
			} else if have.hard > bound {
				bad = append(bad, fmt.Sprintf("%s: %s is %s, policy %d", p.who(), name, limitText(have.hard), bound))
			}
		}
	}
	if len(bad) > 0 {
		slices.Sort(bad)
		return brokenList(want, bad)
	}
	if without != "" {
		return lacking("RLIMIT_CORE of 1", "%s", without)
	}
	first := s.processes[0].limits
	return holds("%d bounds; open files %s, processes %s, core %s", len(bounds),
		limitText(first["RLIMIT_NOFILE"].hard), limitText(first["RLIMIT_NPROC"].hard), limitText(first["RLIMIT_CORE"].hard))
}

func limitText(v uint64) string {
	if v == ^uint64(0) {
		return "unlimited"
	}
	return fmt.Sprint(v)
}

// oomScore: every process of a jail dies before the host's own.
func oomScore(_ *demands, s *seen) outcome {
	want := fmt.Sprintf("oom_score_adj of %d or more", oomscore.Jail)
	var bad []string
	lowest := s.processes[0].oomAdj
	for _, p := range s.processes {
		lowest = min(lowest, p.oomAdj)
		if p.oomAdj < oomscore.Jail {
			bad = append(bad, fmt.Sprintf("%s has %d", p.who(), p.oomAdj))
		}
	}
	return holdsUnless(want, bad, "oom_score_adj %d", lowest)
}

func size(n uint64) string { return policy.Size(n).String() }

// about is a size for readers: 2.872GiB rather than 3011644KiB.
func about(n uint64) string { return units.BytesSize(float64(n)) }
