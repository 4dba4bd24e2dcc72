package harden

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/kernel/pathname"
	"agentjail.dev/runtime/spec/bindsource"
	"agentjail.dev/runtime/spec/network"
	"agentjail.dev/runtime/spec/plan"
	"agentjail.dev/runtime/spec/policy"
	"agentjail.dev/seccomp"
)

// looser compares a hardened spec with the incoming one and with policy, and
// states in which dimensions it grants more than either. It is written from the
// specification and from what delegates do with it, apart from the code that it
// judges.
func looser(in *specs.Spec, res *Result, pol policy.Policy, f Facts) []string {
	pol, _ = pol.Tighten(in.Annotations)
	j := &judge{in: in, out: res.Spec, plan: res.Plan, pol: pol, f: f}
	for _, look := range []func(){
		j.namespaces, j.ids, j.user, j.privileges, j.lsm, j.seccomp, j.mounts, j.binds, j.devices, j.paths,
		j.limits, j.io, j.rlimits, j.priorities, j.sysctls, j.rest,
	} {
		look()
	}
	return j.found
}

type judge struct {
	in, out *specs.Spec
	plan    plan.Plan
	pol     policy.Policy
	f       Facts
	found   []string
}

func (j *judge) say(format string, args ...any) {
	j.found = append(j.found, fmt.Sprintf(format, args...))
}

func (j *judge) inLinux() *specs.Linux {
	if j.in.Linux == nil {
		return &specs.Linux{}
	}
	return j.in.Linux
}

func (j *judge) inResources() *specs.LinuxResources {
	if r := j.inLinux().Resources; r != nil {
		return r
	}
	return &specs.LinuxResources{}
}

func (j *judge) namespaces() {
	got := map[specs.LinuxNamespaceType]string{}
	for _, n := range j.out.Linux.Namespaces {
		if _, twice := got[n.Type]; twice {
			j.say("namespace %s twice", n.Type)
		}
		got[n.Type] = n.Path
	}
	asked := map[specs.LinuxNamespaceType]string{}
	for _, n := range j.inLinux().Namespaces {
		asked[n.Type] = n.Path
	}
	owners, at := map[string]bool{}, maps.Clone(got)
	for _, kind := range []specs.LinuxNamespaceType{"pid", "network", "mount", "ipc", "uts", "user", "cgroup", "time"} {
		at, ok := got[kind]
		if !ok && (kind != "time" || j.f.Host.TimeNS) {
			j.say("the host's %s namespace", kind)
		}
		delete(got, kind)
		if at == "" {
			continue
		}
		join := j.f.Joins[kind]
		switch {
		case kind == "user":
			owners[at] = true
		case kind == "mount" || kind == "cgroup" || kind == "time":
			j.say("joins a %s namespace", kind)
		case kind == "network" && (join.Pinned || join.Mode == policy.NetworkEngine) && j.pol.Network.Mode != policy.NetworkEngine:
			j.say("joins %s, and policy gives no network", at)
		case kind == "network" && join.Pinned && asked[kind] == at:
			// the one that the engine made
		case join.Jail == "" || asked[kind] != at:
			j.say("joins the %s namespace %s, which is no jail's", kind, at)
		default:
			owners[join.UserNS] = true
		}
	}
	join, engine := j.f.Joins["network"], j.plan.Network.Mode == policy.NetworkEngine
	if j.pol.Network.Mode != policy.NetworkEngine && engine ||
		at["network"] == "" && (j.plan.Network.Namespace != network.Own || j.plan.Network.Mode != j.pol.Network.Mode) ||
		at["network"] != "" && (j.plan.Network.Namespace == network.Own || engine != (join.Pinned || join.Mode == policy.NetworkEngine)) {
		j.say("network: %+v", j.plan.Network)
	}
	if len(owners) > 1 {
		j.say("namespaces of two owners: %v", owners)
	}
	if len(got) > 0 {
		j.say("unknown namespaces %v", got)
	}
	if j.f.Host.TimeNS {
		if o := j.out.Linux.TimeOffsets; o["boottime"].Secs != -j.f.Host.BootTime || o["monotonic"].Secs != -j.f.Host.Monotonic || len(o) != 2 {
			j.say("time offsets %v show the host's uptime", o)
		}
	}
}

func (j *judge) ids() {
	for _, m := range []struct{ got, want []specs.LinuxIDMapping }{
		{j.out.Linux.UIDMappings, j.f.IDs.UIDs}, {j.out.Linux.GIDMappings, j.f.IDs.GIDs},
	} {
		if !slices.Equal(m.got, m.want) {
			j.say("id mapping %v, not %v", m.got, m.want)
		}
	}
}

func (j *judge) user() {
	a, b := j.out.Process.User, j.in.Process.User
	if a.UID != b.UID || a.GID != b.GID || a.UID >= 65536 || a.GID >= 65536 {
		j.say("user %d:%d for %d:%d", a.UID, a.GID, b.UID, b.GID)
	}
	for _, g := range a.AdditionalGids {
		if !slices.Contains(b.AdditionalGids, g) || g >= 65536 {
			j.say("group %d", g)
		}
	}
}

func (j *judge) privileges() {
	p := j.out.Process
	c := p.Capabilities
	if c == nil || len(c.Inheritable)+len(c.Ambient) > 0 {
		j.say("capabilities %v", c)
		return
	}
	for _, name := range slices.Concat(c.Bounding, c.Effective, c.Permitted) {
		in, bare := j.in.Process.Capabilities, strings.TrimPrefix(name, "CAP_")
		six := slices.Contains([]string{"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_KILL", "CAP_SETGID", "CAP_SETUID"}, name)
		if !six || p.User.UID != 0 || in == nil || !slices.Contains(in.Bounding, name) || !slices.Contains(j.pol.Process.Capabilities, bare) || j.f.IDs.Given || j.f.Host.Rootless {
			j.say("capability %s", name)
		}
		for _, n := range j.out.Linux.Namespaces {
			if join := j.f.Joins[n.Type]; n.Path != "" && join.Jail != "" && !slices.Contains(join.Capabilities, bare) {
				j.say("capability %s, which jail %s has not", name, join.Jail)
			}
		}
	}
	if len(j.pol.Process.Capabilities) > 0 && !j.plan.OwnerAlone {
		j.say("other ids than the owner's in a person's directory")
	}
	if !p.NoNewPrivileges {
		j.say("new privileges")
	}
}

func (j *judge) lsm() {
	p := j.out.Process
	if j.f.Host.AppArmor {
		parts := strings.Split(p.ApparmorProfile, "//&")
		if !slices.Contains(parts, j.pol.AppArmor.Profile) {
			j.say("AppArmor profile %q without policy's", p.ApparmorProfile)
		}
		was := j.in.Process.ApparmorProfile
		custom := was != "" && was != "unconfined" && !strings.HasPrefix(was, "docker-default") && !strings.HasPrefix(was, "containers-default") &&
			!strings.HasPrefix(was, "crio-default") && !strings.HasPrefix(was, "cri-containerd")
		if custom && !strings.HasSuffix(p.ApparmorProfile, was) {
			j.say("AppArmor profile %q without the bundle's %q", p.ApparmorProfile, was)
		}
	} else if p.ApparmorProfile != "" {
		j.say("an AppArmor profile on a kernel without")
	}
	if j.f.Host.SELinux && p.SelinuxLabel != "" {
		t := strings.Split(p.SelinuxLabel, ":")
		if len(t) != 5 || !strings.Contains("container_t svirt_lxc_net_t container_init_t container_userns_t container_kvm_t", t[2]) || strings.ContainsAny(t[4], ".-") || strings.Count(t[4], ",") != 1 {
			j.say("SELinux label %q", p.SelinuxLabel)
		}
		if !strings.HasSuffix(j.out.Linux.MountLabel, ":"+strings.Join(t[3:], ":")) {
			j.say("SELinux label %q with files of %q", p.SelinuxLabel, j.out.Linux.MountLabel)
		}
		if j.in.Process.SelinuxLabel == "" && j.f.Host.ProcessLabel == "" {
			j.say("a SELinux label from nowhere")
		}
	} else if j.f.Host.SELinux && j.f.Host.ProcessLabel != "" {
		j.say("no SELinux label")
	}
	if !j.f.Host.AppArmor && (!j.f.Host.SELinux || p.SelinuxLabel == "") && j.pol.AppArmor.Required {
		j.say("no LSM, against policy")
	}
}

// seccomp is a cross-check; package seccomp proves the intersection itself.
func (j *judge) seccomp() {
	out := j.out.Linux.Seccomp
	if out == nil || out.DefaultAction == specs.ActAllow || out.ListenerPath != "" || len(out.Architectures) != 1 {
		j.say("seccomp is open: %+v", out)
		return
	}
	ours, err := seccomp.OCI(seccomp.Options{Profile: j.pol.Seccomp.Profile, Arch: j.f.Host.Arch, Kill: j.pol.Seccomp.OnViolation == "kill"})
	if err != nil {
		j.say("seccomp: %v", err)
		return
	}
	mine, theirs := allowed(ours), map[string]bool(nil)
	if in := j.inLinux().Seccomp; in != nil && (in.DefaultAction != "" || len(in.Syscalls) > 0) && in.DefaultAction != specs.ActAllow && in.DefaultAction != specs.ActLog && in.DefaultAction != specs.ActTrace {
		theirs = allowed(in)
	}
	for name := range allowed(out) {
		if !mine[name] || theirs != nil && !theirs[name] || strings.HasPrefix(name, "io_uring_") {
			j.say("seccomp allows %s", name)
		}
	}
}

func allowed(s *specs.LinuxSeccomp) map[string]bool {
	out := map[string]bool{}
	for _, r := range s.Syscalls {
		for _, n := range r.Names {
			if r.Action == specs.ActAllow || r.Action == specs.ActLog || r.Action == specs.ActTrace || r.Action == specs.ActNotify {
				out[n] = true
			}
		}
	}
	return out
}

// effective is what a delegate makes of mount options: the last word on each
// flag counts (runc libcontainer/specconv, parseMountOptions).
type effective struct {
	flags   map[string]bool // ro, nosuid, nodev, noexec
	travels bool
	data    map[string]string
	unknown []string
}

func effectiveOf(m specs.Mount) effective {
	e := effective{flags: map[string]bool{}, data: map[string]string{}}
	for _, o := range m.Options {
		r := strings.TrimPrefix(o, "r")
		switch {
		case o == "ro" || o == "rro":
			e.flags["ro"] = true
		case o == "rw" || o == "rrw":
			e.flags["ro"] = false
		case o == "nosuid" || o == "nodev" || o == "noexec" || r == "nosuid" || r == "nodev" || r == "noexec":
			e.flags["no"+strings.TrimPrefix(strings.TrimPrefix(o, "r"), "no")] = true
		case o == "suid" || o == "dev" || o == "exec" || r == "suid" || r == "dev" || r == "exec":
			e.flags["no"+r] = false
		case o == "shared" || o == "rshared" || o == "slave" || o == "rslave":
			e.travels = true
		case o == "private" || o == "rprivate" || o == "unbindable" || o == "runbindable":
			e.travels = false
		case slices.Contains([]string{
			"bind", "rbind", "nosymfollow", "rnosymfollow", "noatime", "rnoatime", "nodiratime", "rnodiratime", "relatime", "rrelatime",
			"strictatime", "rstrictatime", "sync", "dirsync", "newinstance", "tmpcopyup",
		}, o):
		default:
			k, v, ok := strings.Cut(o, "=")
			if ok && !strings.ContainsAny(o, ",") && slices.Contains([]string{"mode", "ptmxmode", "uid", "gid", "size", "nr_inodes", "max", "hidepid", "subset"}, k) {
				e.data[k] = v
				continue
			}
			e.unknown = append(e.unknown, o)
		}
	}
	return e
}

func (j *judge) mounts() {
	if len(j.out.Mounts) < len(j.in.Mounts) || len(j.out.Mounts) > len(j.in.Mounts)+1 {
		j.say("%d mounts from %d", len(j.out.Mounts), len(j.in.Mounts))
		return
	}
	proc, dev := false, false
	for i, m := range j.out.Mounts {
		at := path.Clean(m.Destination)
		e := effectiveOf(m)
		say := func(format string, args ...any) { j.say("mount %d at %s: %s", i, at, fmt.Sprintf(format, args...)) }
		if len(e.unknown) > 0 || e.travels || len(m.UIDMappings)+len(m.GIDMappings) > 0 {
			say("options %q, id mappings %v", m.Options, m.UIDMappings)
		}
		if !e.flags["nosuid"] {
			say("set-id files have effect")
		}
		if !e.flags["nodev"] && at != "/dev" && at != "/dev/pts" {
			say("device nodes have effect")
		}
		proc = proc || at == "/proc" && m.Type == "proc"
		dev = dev || at == "/dev" && m.Type == "tmpfs"
		if where := map[string]string{"proc": "/proc", "cgroup": "/sys/fs/cgroup", "cgroup2": "/sys/fs/cgroup", "devpts": "/dev/pts", "mqueue": "/dev/mqueue"}[m.Type]; where != "" && at != where {
			say("%s in an odd place", m.Type)
		}
		switch m.Type {
		case "proc", "mqueue":
			if !e.flags["noexec"] {
				say("programs run from it")
			}
		case "cgroup", "cgroup2":
			if !e.flags["ro"] {
				say("writable")
			}
		case "devpts":
			if n, err := strconv.Atoi(e.data["max"]); err != nil || n > ptyMax || n <= 0 {
				say("max=%q", e.data["max"])
			}
		case "tmpfs":
			j.tmpfs(i, m, e, say)
		case "bind":
		default:
			say("type %q", m.Type)
		}
		if i >= len(j.in.Mounts) {
			say("from nowhere")
			continue
		}
		was := j.in.Mounts[i]
		if path.Clean(was.Destination) != at {
			say("was at %s", was.Destination)
		}
		for flag, on := range effectiveOf(was).flags {
			if on && !e.flags[flag] {
				say("not %s any more", flag)
			}
		}
		if m.Type == "bind" && (was.Source != m.Source || !IsBind(was)) {
			say("of %s, was of %s", m.Source, was.Source)
		}
		if m.Type == "bind" && slices.Contains(m.Options, "rbind") && !slices.Contains(was.Options, "rbind") {
			say("with what is mounted below")
		}
		if v, ok := effectiveOf(was).data["hidepid"]; ok && v != "0" && v != "off" && e.data["hidepid"] != v && slices.Contains([]string{"1", "2", "4", "invisible", "noaccess", "ptraceable"}, v) && m.Type == "proc" && was.Type == "proc" {
			say("hidepid was %q", v)
		}
	}
	if !proc || !dev {
		j.say("no procfs or no tmpfs at /dev")
	}
}

// largestTmpfs is the bound on every tmpfs: without memory control groups, its size is the only one.
func (j *judge) largestTmpfs() int64 {
	most := j.f.Host.MemTotal / 4 * 3
	if most == 0 || !j.f.Host.Cgroup.Memory {
		return int64(j.pol.Tmpfs.Size)
	}
	if v := int64(j.pol.Tmpfs.Max); v > 0 {
		return min(v, most)
	}
	if v := int64(j.pol.Limits.Memory); v > 0 {
		return min(v, most)
	}
	return most
}

func (j *judge) tmpfs(i int, m specs.Mount, e effective, say func(string, ...any)) {
	size, err1 := strconv.ParseInt(e.data["size"], 10, 64)
	inodes, err2 := strconv.ParseInt(e.data["nr_inodes"], 10, 64)
	if err1 != nil || err2 != nil || size <= 0 || inodes <= 0 || size > max(j.largestTmpfs(), 65536) || inodes > max(j.pol.Tmpfs.Inodes, 64) {
		say("a tmpfs of size %q with %q files", e.data["size"], e.data["nr_inodes"])
	}
	if path.Clean(m.Destination) == "/sys" && !e.flags["ro"] {
		say("a writable /sys")
	}
	if i < len(j.in.Mounts) && j.in.Mounts[i].Type == "tmpfs" && path.Clean(m.Destination) != "/sys" {
		for _, o := range j.in.Mounts[i].Options {
			v, ok := strings.CutPrefix(o, "size=")
			if n, err := strconv.ParseInt(v, 10, 64); ok && err == nil && n > 0 && size > n && strings.Count(strings.Join(j.in.Mounts[i].Options, " "), "size=") == 1 {
				say("size %d was %d", size, n)
			}
		}
	}
	if mode, err := strconv.ParseUint(e.data["mode"], 8, 32); e.data["mode"] != "" && (err != nil || mode&0o6000 != 0) {
		say("mode %s", e.data["mode"])
	}
}

func (j *judge) binds() {
	planned := map[int]plan.Bind{}
	for _, b := range j.plan.Binds {
		planned[b.Index] = b
	}
	_, ok1 := j.plan.IDs.HostUID(j.plan.User.UID)
	_, ok2 := j.plan.IDs.HostGID(j.plan.User.GID)
	first := plan.User{UID: j.in.Process.User.UID, GID: j.in.Process.User.GID}
	if named := j.f.Owner.User; !ok1 || !ok2 || j.plan.User != first && (named == nil || j.plan.User != *named) {
		j.say("what is mounted belongs to %+v of the jail", j.plan.User)
	}
	for i, m := range j.out.Mounts {
		if m.Type != "bind" {
			continue
		}
		b, ok := planned[i]
		if !ok {
			j.say("bind mount at %s is not staged", m.Destination)
			continue
		}
		f := j.f.Sources[i]
		ro := has(j.in.Mounts[i].Options, "ro", "rro")
		if len(f.Below) > 0 && (!b.NonRecursive || slices.Contains(m.Options, "rbind")) {
			j.say("bind mount at %s with %v below", m.Destination, f.Below)
		}
		names := ro && b.Owner == plan.OwnerNone && m.Source == m.Destination && m.Source == f.Path && (f.Path == "/etc/hosts" || f.Path == "/etc/resolv.conf")
		if why := bindsource.Refusal(*f, ro, j.pol.Binds); why != nil && !names {
			j.say("bind mount at %s: %s", m.Destination, why)
		}
		if ro && !b.ReadOnly || b.ReadOnly != effectiveOf(m).flags["ro"] {
			j.say("bind mount at %s is staged writable", m.Destination)
		}
		if effectiveOf(j.in.Mounts[i]).flags["noexec"] && !b.NoExec {
			j.say("bind mount at %s is staged executable", m.Destination)
		}
		if f.Roots() && j.pol.Binds.Root != policy.RootAllow && b.Owner != plan.OwnerNone && !bindsource.Allowed(*f, j.pol.Binds) {
			j.say("bind mount at %s gives root's files by owner %s for %+v", m.Destination, b.Owner, *f)
		}
		if public := f.Public != "" && f.Role == bindsource.Plain && !bindsource.Allowed(*f, j.pol.Binds); public && (!b.ReadOnly || b.Owner != plan.OwnerNone || f.Public != bindsource.PublicDir && !b.Copy) {
			j.say("bind mount at %s gives a part of the host's configuration by %+v for %+v", m.Destination, b, *f)
		}
		if f.HostPath && b.Owner != plan.OwnerNone && !bindsource.Allowed(*f, j.pol.Binds) {
			j.say("bind mount at %s gives a pod owner %s for %+v", m.Destination, b.Owner, *f)
		}
		secret := f.Secret && f.Role == bindsource.Injected && f.Kind == bindsource.File && b.ReadOnly
		volume := f.EnginesVolume() && !bindsource.Allowed(*f, j.pol.Binds)
		if volume && (b.Owner == plan.OwnerDir || b.Owner == plan.OwnerSame && j.f.IDs.Given) || b.Owner == plan.OwnerHost && (!volume && !secret || !j.f.IDs.Given) || b.Owner == plan.OwnerSame && secret && j.f.IDs.Given {
			j.say("bind mount at %s maps owner %s for %+v", m.Destination, b.Owner, *f)
		}
		if root, _ := j.f.IDs.HostUID(0); b.HandOver && (ro || b.ReadOnly || !f.New || !volume || f.UID != 0 && (!j.f.IDs.Given || f.UID != root) || j.in.Process.User.UID == 0) {
			j.say("bind mount at %s is given to the user for %+v", m.Destination, *f)
		}
		if b.Owner == plan.OwnerSame && f.Role != bindsource.Volume && !f.OwnOfPod() && !secret || f.Role == bindsource.Injected && b.Owner != plan.OwnerNone && !secret || f.System && b.Owner == plan.OwnerDir && f.Role == bindsource.Plain {
			j.say("bind mount at %s gives owner %s for %+v", m.Destination, b.Owner, *f)
		}
		at := path.Clean(m.Destination)
		lxcfs := f.Kind == bindsource.File && slices.Contains([]string{"/proc/cpuinfo", "/proc/diskstats", "/proc/meminfo", "/proc/stat", "/proc/swaps", "/proc/uptime", "/proc/loadavg", "/proc/slabinfo"}, at)
		if (at == "/proc" || at == "/sys" || at == "/dev" || strings.HasPrefix(at, "/proc/") || strings.HasPrefix(at, "/sys/")) && !lxcfs {
			j.say("bind mount over the kernel's own %s", at)
		}
		for _, n := range []string{"null", "zero", "full", "random", "urandom", "tty", "console", "ptmx", "pts"} {
			if pathname.Within(at, "/dev/"+n) {
				j.say("bind mount over %s", at)
			}
		}
	}
}

// grants evaluates device rules as the devices control group does.
func grants(rules []specs.LinuxDeviceCgroup, kind string, major, minor int64) string {
	got := map[byte]bool{}
	for _, r := range rules {
		all := r.Type == "a"
		if !all && r.Type != "" && r.Type != kind || !all && r.Major != nil && *r.Major != -1 && *r.Major != major || !all && r.Minor != nil && *r.Minor != -1 && *r.Minor != minor {
			continue
		}
		access := r.Access
		if access == "" {
			access = "rwm"
		}
		for i := range len(access) {
			got[access[i]] = r.Allow
		}
	}
	out := ""
	for _, c := range "rwm" {
		if got[byte(c)] {
			out += string(c)
		}
	}
	return out
}

func (j *judge) devices() {
	type dev struct {
		kind         string
		major, minor int64
	}
	probe := []dev{{"c", 1, 1}, {"c", 1, 2}, {"c", 1, 11}, {"c", 10, 200}, {"c", 10, 229}, {"c", 10, 232}, {"b", 8, 0}, {"b", 254, 0}, {"c", 4, 1}, {"c", 136, 0}, {"c", 5, 1}}
	kept := map[dev]bool{}
	for _, d := range j.out.Linux.Devices {
		k := dev{kindOf(d), d.Major, d.Minor}
		kept[k] = true
		node, listed := j.f.Nodes[path.Clean(d.Path)]
		if !slices.Contains(j.pol.Devices.Allow, path.Clean(d.Path)) || !listed || node != (Node{k.kind, k.major, k.minor}) {
			j.say("device %+v", d)
		}
		if !slices.ContainsFunc(j.inLinux().Devices, func(i specs.LinuxDevice) bool { return i.Path == d.Path && i.Major == d.Major && i.Minor == d.Minor }) {
			j.say("device %s from nowhere", d.Path)
		}
	}
	if len(j.plan.Nodes) != len(j.out.Linux.Devices) {
		j.say("%d nodes for %d devices", len(j.plan.Nodes), len(j.out.Linux.Devices))
	}
	for _, r := range slices.Concat(j.inResources().Devices, j.out.Linux.Resources.Devices) {
		if r.Major != nil && r.Minor != nil {
			probe = append(probe, dev{"c", *r.Major, *r.Minor}, dev{"b", *r.Major, *r.Minor})
		}
	}
	for _, d := range probe {
		got := grants(j.out.Linux.Resources.Devices, d.kind, d.major, d.minor)
		standard := d.kind == "c" && plan.IsStandardDevice(d.major, d.minor)
		switch was := grants(j.inResources().Devices, d.kind, d.major, d.minor); {
		case strings.Contains(got, "m"):
			j.say("%v can be made", d)
		case standard:
		case !kept[d] && got != "":
			j.say("%v grants %s", d, got)
		default:
			for _, c := range got {
				if !strings.ContainsRune(was, c) {
					j.say("%v grants %s, was %s", d, got, was)
				}
			}
		}
	}
	if len(j.out.Linux.NetDevices) > 0 {
		j.say("network devices")
	}
}

func (j *judge) paths() {
	l := j.out.Linux
	for _, want := range slices.Concat(j.inLinux().MaskedPaths, plan.MaskedPaths(), j.f.Host.LoadFiles) {
		if !slices.Contains(l.MaskedPaths, want) {
			j.say("%s is not masked", want)
		}
	}
	for _, want := range slices.Concat(j.inLinux().ReadonlyPaths, plan.ReadonlyPaths()) {
		if !slices.Contains(l.ReadonlyPaths, want) && !slices.Contains(l.MaskedPaths, want) {
			j.say("%s is not read-only", want)
		}
	}
	if l.RootfsPropagation != "rprivate" && l.RootfsPropagation != "private" {
		j.say("propagation %q", l.RootfsPropagation)
	}
}
