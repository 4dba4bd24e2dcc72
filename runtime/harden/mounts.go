package harden

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/kernel/pathname"
	"agentjail.dev/runtime/refusal"
	"agentjail.dev/runtime/spec/lists"
	"agentjail.dev/runtime/spec/plan"
	"agentjail.dev/runtime/spec/policy"
	"agentjail.dev/runtime/spec/report"
	"agentjail.dev/runtime/spec/rings"
)

// root describes the jail's root file system. Its path stays the engine's: staging mounts the
// ephemeral layer over it.
func root(p *pass) {
	_, size := p.pol.Root.Layer()
	if p.pol.Root.OnDisk() && p.f.Host.Rootless {
		p.addRefusal(refusal.New(refusal.Workspace, "a rootless engine cannot make a file system on disk").About("root.backing = %q",
			policy.RootDisk).
			WithRemedy("start it as root, or root.backing = %q", policy.RootMemory))
	}
	p.change(rings.Resources, report.Set, "root", "", fmt.Sprintf("read-only image under an ephemeral layer %s of %s, %d files", p.pol.Root.Where(),
		size, p.pol.Root.Inodes), "the engine's storage is never written, and the layer cannot fill the host")
}

// A fsRule is the handling of mounts of one file system type.
type fsRule struct {
	at    string              // the sole destination, "" for any that is not reserved
	flags []string            // always set
	keep  []string            // kept beside keptFlags
	data  map[string]dataRule // key=value options that may stay
	// harden makes the further changes.
	harden func(p *pass, m *specs.Mount, opts []string) []string
}

// fsRules are the file systems that a bundle may mount without a source on the
// host. Every other type would have the kernel parse a disk's or a server's
// data on behalf of the jail.
var fsRules = map[string]fsRule{
	"proc": {at: "/proc", flags: []string{"nosuid", "noexec", "nodev"}, data: map[string]dataRule{
		// gid= would exempt a group from hidepid (proc(5)).
		"hidepid": oneOf("0", "1", "2", "4", "off", "noaccess", "invisible", "ptraceable"),
		"subset":  oneOf("pid"),
	}},
	"sysfs":   {at: "/sys", flags: []string{"nosuid", "noexec", "nodev", "ro"}, harden: ownSys},
	"cgroup":  {at: "/sys/fs/cgroup", flags: []string{"nosuid", "noexec", "nodev", "ro"}, harden: reportWritable},
	"cgroup2": {at: "/sys/fs/cgroup", flags: []string{"nosuid", "noexec", "nodev", "ro"}, harden: reportWritable},
	"devpts": {
		at: "/dev/pts", flags: []string{"nosuid", "noexec", "newinstance"}, keep: []string{"newinstance"},
		data: map[string]dataRule{
			"mode": octal(0o666), "ptmxmode": octal(0o666), "uid": ownUID, "gid": ownGID,
			"max": func(_ *pass, v string) bool { n, err := strconv.ParseUint(v, 10, 31); return err == nil && n > 0 },
		}, harden: capPty,
	},
	"mqueue": {at: "/dev/mqueue", flags: []string{"nosuid", "noexec", "nodev"}},
	"tmpfs": {flags: []string{"nosuid"}, keep: []string{"tmpcopyup"}, data: map[string]dataRule{
		// A set-id bit on a directory would pass a group on.
		"mode": octal(0o1777), "uid": ownUID, "gid": ownGID,
		"size": anyValue, "nr_blocks": anyValue, "nr_inodes": anyValue,
	}, harden: capTmpfs},
}

func anyValue(*pass, string) bool { return true }

// CheckMountCount refuses a spec with more mounts than policy allows. The caller also checks this
// before hardening: examining each source costs time and a file descriptor. nil means no refusal.
func CheckMountCount(s *specs.Spec, allowed int) *refusal.Error {
	if n := len(s.Mounts); n > allowed {
		return refusal.New(refusal.MountCount, "mounts: %d, and policy allows %d", n, allowed).WithRemedy("policy: limits.mounts")
	}
	return nil
}

// mounts hardens every mount in the spec's order, which engines rely on.
func mounts(p *pass) {
	dropDevices(p)
	ms := p.spec.Mounts
	if err := CheckMountCount(p.spec, p.pol.Limits.Mounts); err != nil {
		p.addRefusal(err)
		return
	}
	for i := range ms {
		m := &ms[i]
		if bad := badPath(m.Destination); bad != "" {
			p.refuse(refusal.MountPlace, "mounts[%d].destination %q %s", i, m.Destination, bad)
			continue
		}
		if len(m.UIDMappings) > 0 || len(m.GIDMappings) > 0 {
			p.change(rings.Access, report.Dropped, mountField(m), "id mapping", "", "owners are mapped by policy")
			m.UIDMappings, m.GIDMappings = nil, nil
		}
		isBelow := func(o specs.Mount) bool { return pathname.Below(path.Clean(o.Destination), "/sys") }
		if path.Clean(m.Destination) == "/sys" && slices.ContainsFunc(ms[:i], isBelow) {
			p.addRefusal(refusal.New(refusal.MountPlace, "it would cover the jail's own /sys").About("mount at %s", m.Destination).
				WithRemedy("leave it out"))
		} else if IsBind(*m) {
			bind(p, i, m)
		} else {
			filesystem(p, m)
		}
	}
	viewsMounted(p)
	essential(p)
}

// filesystem decides on one mount that is not a bind mount.
func filesystem(p *pass, m *specs.Mount) {
	rule, ok := fsRules[m.Type]
	at := path.Clean(m.Destination)
	switch {
	case m.Type == "tmpfs" && at == "/sys":
		rule = fsRules["sysfs"]
	case !ok:
		p.addRefusal(typeRefusal(m.Type).About("mount at %s", m.Destination))
		return
	case rule.at != "" && at != rule.at:
		p.addRefusal(refusal.New(refusal.MountPlace, "%s belongs at %s", m.Type, rule.at).About("mount at %s", m.Destination))
		return
	case rule.at == "" && at != "/dev" && plan.Reserved(at) != "":
		p.addRefusal(refusal.New(refusal.MountPlace, "%s", plan.Reserved(at)).About("mount at %s", m.Destination))
		return
	}
	opts, gone := options(p, m.Options, rule.keep, rule.data)
	if at == "/dev" && m.Type == "tmpfs" {
		gone = without(gone, "dev") // the delegate fills it with the standard nodes
	}
	if len(gone) > 0 {
		p.change(rings.Access, report.Dropped, mountField(m), strings.Join(gone, ", "), "", "it would loosen the mount")
	}
	// In this order, so that the same comes out when it is hardened again.
	opts = lists.Union(opts, rule.flags...)
	if rule.harden != nil {
		opts = rule.harden(p, m, opts)
	}
	m.Options = opts
}

// typeRefusal refuses a mount of a file system that is not for jails.
func typeRefusal(kind string) *refusal.Error {
	err := refusal.New(refusal.MountType, "file system type %q is not for jails", kind)
	switch kind {
	case "overlay": // Podman's :O with an upperdir of a person's
		return err.WithRemedy("mount the directory itself or a volume, or :O without upperdir")
	case "ramfs": // it has no size
		return err.WithRemedy("type=tmpfs, which is in memory too, and whose size is bounded")
	}
	return err.WithRemedy("mount it on the host, and that directory into the container")
}

// reportWritable reports a writable mount that will be read-only.
func reportWritable(p *pass, m *specs.Mount, opts []string) []string {
	if !has(m.Options, "ro", "rro") {
		p.deny(rings.Access, mountField(m), "writable "+m.Type, "read-only", "kernel settings are not the jail's to change")
	}
	return opts
}

// ptyMax bounds a jail's pseudo-terminals. The host has 4096 for all containers together
// (kernel.pty.max); one jail must not use them up.
const ptyMax = 256

func capPty(_ *pass, _ *specs.Mount, opts []string) []string {
	n := uint64(ptyMax)
	if v, ok := value(opts, "max"); ok {
		if had, err := strconv.ParseUint(v, 10, 31); err == nil && had < n {
			n = had
		}
	}
	return append(without(opts, "max"), "max="+strconv.FormatUint(n, 10))
}

const capped = "tmpfs.max: every tmpfs is capped"

// maxTmpfs is the size that no tmpfs exceeds.
func maxTmpfs(p *pass) int64 {
	return int64(p.pol.MaxTmpfs(p.f.Host.MemTotal, p.f.Host.Cgroup.Memory))
}

// capTmpfs limits the size and the number of files of a tmpfs (tmpfs(5)). By default a tmpfs may
// use half of the host's memory, and in a jail's user namespace any amount.
func capTmpfs(p *pass, m *specs.Mount, opts []string) []string {
	if has(m.Options, "noswap") {
		noSwap(p, m)
	}
	size, inodes := tmpfsSizeFor(p, m, opts), tmpfsInodesFor(p, m, opts)
	opts = without(opts, "size", "nr_blocks", "nr_inodes")
	if path.Clean(m.Destination) != "/dev" {
		opts = lists.Union(opts, "nodev") // before the sizes, as on the next time
	}
	return append(opts, "size="+strconv.FormatInt(size, 10), "nr_inodes="+strconv.FormatInt(inodes, 10))
}

// noSwap reports that a tmpfs has no option noswap, which the kernel refuses in each user namespace
// (shmem_parse_one in mm/shmem.c). A jail whose memory may not be swapped out has its effect.
func noSwap(p *pass, m *specs.Mount) {
	if p.pol.Limits.Swap == 0 && p.f.Host.Cgroup.Swap && memoryCap(p) > 0 {
		p.change(rings.Resources, report.Dropped, mountField(m), "noswap", "", "limits.swap: no memory of the jail's is swapped out")
		return
	}
	p.missing(rings.Resources, mountField(m), "noswap: its files can be swapped out, since no user namespace has the option "+
		"(remedy: limits.swap = 0, where the host accounts swap)")
}

// tmpfsSizeFor is the requested size within the largest, or policy's own.
func tmpfsSizeFor(p *pass, m *specs.Mount, opts []string) int64 {
	most := maxTmpfs(p)
	cur, readable := tmpfsSize(opts, p.f.Host.MemTotal)
	switch {
	case readable && cur > 0 && cur <= most:
		return cur
	case readable && cur > 0:
		p.above("tmpfs", mountField(m)+".size", sizeText(cur), sizeText(most), capped)
		return most
	case has(keys(opts), "size", "nr_blocks"): // 0 is no bound (shmem_parse_one)
		v, _ := value(opts, "size")
		p.above("", mountField(m)+".size", short(v), sizeText(most), capped)
		return most
	}
	size := min(int64(p.pol.Tmpfs.Size), most)
	p.change(rings.Resources, report.Set, mountField(m)+".size", "", sizeText(size), "tmpfs.size: none is requested")
	return size
}

// tmpfsInodesFor is the requested number of files within policy's.
func tmpfsInodesFor(p *pass, m *specs.Mount, opts []string) int64 {
	most := p.pol.Tmpfs.Inodes
	v, ok := value(opts, "nr_inodes")
	n, readable := memparse(v)
	switch {
	case !ok:
		return most
	case readable && n > 0 && n <= most:
		return n
	}
	p.above("", mountField(m)+".nr_inodes", short(v), fmt.Sprint(most), "tmpfs.inodes: files are kernel memory")
	return most
}

// essential refuses a spec without the two mounts that the delegate itself depends on. Without a
// tmpfs at /dev, its nodes would be made in the image's directory, and /dev/null, with which
// paths are masked, could be the image's symbolic link (CVE-2025-31133). Without procfs at /proc,
// the delegate's writes there would go to the image's files (CVE-2019-16884).
func essential(p *pass) {
	for _, e := range []struct{ at, kind string }{{"/proc", "proc"}, {"/dev", "tmpfs"}} {
		if !slices.ContainsFunc(p.spec.Mounts, func(m specs.Mount) bool {
			return path.Clean(m.Destination) == e.at && m.Type == e.kind
		}) {
			p.refuse(refusal.Spec, "config.json mounts no %s at %s", e.kind, e.at)
		}
	}
}

// IsBind reports whether a mount takes its content from the host's file tree, by runc's rule.
func IsBind(m specs.Mount) bool {
	return m.Type == "bind" || slices.Contains(m.Options, "bind") || slices.Contains(m.Options, "rbind")
}

func badPath(s string) string {
	switch {
	case !path.IsAbs(s):
		return "is not an absolute path"
	case strings.ContainsRune(s, 0):
		return "contains a NUL byte"
	case len(s) >= 4096:
		return "is longer than PATH_MAX"
	case path.Clean(s) == "/":
		return "is the root itself"
	}
	return ""
}

func mountField(m *specs.Mount) string { return "mounts[" + short(m.Destination) + "]" }
