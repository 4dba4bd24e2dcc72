package harden

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/policy"
	"agentjail.dev/runtime/report"
	"agentjail.dev/runtime/source"
)

// root decides what the jail's root file system is made of. Its path stays the
// engine's: staging puts the throw-away layer over it.
func root(p *pass) {
	p.change(report.Resources, report.Set, "root", "", fmt.Sprintf("read-only image under a throw-away layer of %s, %d files", p.pol.Root.Size, p.pol.Root.Inodes), "the engine's storage is never written, and the layer cannot fill the host")
}

// A fsRule says what becomes of a mount by its file system type.
type fsRule struct {
	options []string // always set
	remove  []string // never kept
	tmpfs   bool     // capped
	only    string   // the sole destination, "" for any
}

// fsRules are the file systems that a bundle may mount without a source on the
// host. Every other type would have the kernel parse a disk's or a server's
// data on behalf of the jail.
var fsRules = map[string]fsRule{
	"proc":    {options: []string{"nosuid", "noexec", "nodev"}, remove: []string{"suid", "exec", "dev"}, only: "/proc"},
	"sysfs":   {options: []string{"nosuid", "noexec", "nodev", "ro"}, remove: []string{"suid", "exec", "dev", "rw"}, only: "/sys"},
	"cgroup":  {options: []string{"nosuid", "noexec", "nodev", "ro"}, remove: []string{"suid", "exec", "dev", "rw"}, only: "/sys/fs/cgroup"},
	"cgroup2": {options: []string{"nosuid", "noexec", "nodev", "ro"}, remove: []string{"suid", "exec", "dev", "rw"}, only: "/sys/fs/cgroup"},
	"devpts":  {options: []string{"nosuid", "noexec"}, remove: []string{"suid", "exec"}},
	"mqueue":  {options: []string{"nosuid", "noexec", "nodev"}, remove: []string{"suid", "exec", "dev"}},
	"tmpfs":   {options: []string{"nosuid"}, remove: []string{"suid"}, tmpfs: true},
}

// neverOptions let a mount travel, give set-id files effect, or lead outside
// what staging prepares.
var neverOptions = []string{"shared", "rshared", "slave", "rslave", "suid", "dev", "rdev", "rsuid", "idmap", "ridmap"}

// mounts hardens every mount in the spec's order, which engines rely on.
func mounts(p *pass) {
	ms := p.spec.Mounts
	if len(ms) > p.pol.Limits.Mounts {
		p.refuse("mounts: %d, and policy allows %d (limits.mounts)", len(ms), p.pol.Limits.Mounts)
		return
	}
	for i := range ms {
		m := &ms[i]
		if bad := badPath(m.Destination); bad != "" {
			p.refuse("mounts[%d].destination %q %s", i, m.Destination, bad)
			continue
		}
		if len(m.UIDMappings) > 0 || len(m.GIDMappings) > 0 {
			p.change(report.Access, report.Dropped, mountField(m), "id mapping", "", "owners are mapped by policy")
			m.UIDMappings, m.GIDMappings = nil, nil
		}
		if IsBind(*m) {
			bind(p, i, m)
			continue
		}
		rule, ok := fsRules[m.Type]
		switch {
		case !ok:
			p.refuse("mount at %s: file system type %q is not for jails", m.Destination, m.Type)
			continue
		case rule.only != "" && path.Clean(m.Destination) != rule.only:
			p.refuse("mount at %s: %s belongs at %s", m.Destination, m.Type, rule.only)
			continue
		}
		opts := strip(m.Options, rule.remove)
		opts = strip(opts, neverOptionsExceptDev(m))
		if rule.options[len(rule.options)-1] == "ro" && !slices.Contains(m.Options, "ro") {
			p.lost(report.Access, mountField(m), "writable "+m.Type, "read-only", "kernel settings are not the jail's to change")
		}
		opts = add(opts, rule.options...)
		if rule.tmpfs {
			if path.Clean(m.Destination) != "/dev" {
				opts = add(opts, "nodev")
			}
			opts = capTmpfs(p, m, opts)
		}
		m.Options = opts
	}
}

// neverOptionsExceptDev leaves "dev" to the jail's /dev, a tmpfs that the
// delegate fills with the standard nodes.
func neverOptionsExceptDev(m *specs.Mount) []string {
	if path.Clean(m.Destination) == "/dev" {
		return strip(neverOptions, []string{"dev"})
	}
	return neverOptions
}

// IsBind says whether a mount takes its content from the host's file tree, by
// runc's rule.
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

// bind decides on one bind mount.
func bind(p *pass, i int, m *specs.Mount) {
	var f *source.Fact
	if i < len(p.f.Sources) {
		f = p.f.Sources[i]
	}
	if f == nil {
		p.refuse("mount at %s: nothing is known of its source %q", m.Destination, m.Source)
		return
	}
	readOnly := has(m.Options, "ro", "rro")
	if why := source.Refusal(*f, readOnly, p.pol.Binds.Allow); why != "" {
		p.refuse("mount of %s at %s: %s", m.Source, m.Destination, why)
		return
	}
	b := Bind{Index: i, NoExec: slices.Contains(m.Options, "noexec"), Flat: !slices.Contains(m.Options, "rbind"), Source: f.Path}
	switch {
	case f.Role == source.Injected:
		// The engine's resolv.conf, hosts and hostname: to be read.
		b.Owner = OwnerNone
		if f.Kind == source.File && !readOnly {
			readOnly = true
			p.change(report.Access, report.Lowered, mountField(m), "writable", "read-only", "the engine's own file")
		}
	case f.Role == source.Volume && f.UID == p.spec.Process.User.UID:
		b.Owner = OwnerSame
	default:
		b.Owner = OwnerFolder
	}
	if has(m.Options, "shared", "rshared") {
		p.lost(report.Resources, mountField(m), "mount propagation", "private", "a jail's mounts do not travel")
	}
	opts := strip(m.Options, neverOptions)
	if readOnly {
		opts = add(strip(opts, []string{"rw"}), "ro")
	}
	opts = add(opts, "nosuid", "nodev")
	if !has(opts, "bind", "rbind") {
		opts = add(opts, "rbind")
	}
	if !has(opts, "private", "rprivate") {
		opts = add(opts, "rprivate")
	}
	if m.Type != "bind" {
		m.Type = "bind"
	}
	m.Options = opts
	b.ReadOnly = readOnly
	p.plan.Binds = append(p.plan.Binds, b)
}

// capTmpfs gives a tmpfs a size and a number of files (tmpfs(5)): without them
// it takes half the host's memory, and a tmpfs in a jail's user namespace takes
// any.
func capTmpfs(p *pass, m *specs.Mount, opts []string) []string {
	size, inodes := int64(p.pol.Tmpfs.Size), p.pol.Tmpfs.Inodes
	if cur, ok := tmpfsSize(opts, p.f.Host.MemTotal); ok && cur > 0 && cur < size {
		size = cur
	} else if v, had := value(opts, "size"); had && cur != size {
		p.change(report.Resources, report.Lowered, mountField(m), "size="+v, policy.Size(size).String(), "every tmpfs is capped")
	} else if !had {
		p.change(report.Resources, report.Set, mountField(m), "", "size="+policy.Size(size).String(), "every tmpfs is capped")
	}
	if v, ok := value(opts, "nr_inodes"); ok {
		if n, err := strconv.ParseInt(v, 10, 64); err == nil && n > 0 && n < inodes {
			inodes = n
		}
	}
	keep := opts[:0:0]
	for _, o := range opts {
		k, v, _ := strings.Cut(o, "=")
		switch k {
		case "size", "nr_blocks", "nr_inodes", "huge", "mpol":
			continue
		case "uid", "gid":
			// Ids are the jail's; ones that it does not have would stop the
			// delegate.
			if n, err := strconv.ParseUint(v, 10, 32); err != nil || n >= policy.RangeSize {
				p.change(report.Resources, report.Dropped, mountField(m), o, "", "outside the jail's ids")
				continue
			}
		case "mode":
			// A set-id bit on a directory would pass a group on.
			if n, err := strconv.ParseUint(v, 8, 32); err != nil || n&0o6000 != 0 {
				continue
			}
		}
		keep = append(keep, o)
	}
	return append(keep, "size="+strconv.FormatInt(size, 10), "nr_inodes="+strconv.FormatInt(inodes, 10))
}

// tmpfsSize reads size= or nr_blocks= in bytes; ok is false without either, or
// when it cannot be read.
func tmpfsSize(opts []string, memTotal int64) (bytes int64, ok bool) {
	v, had := value(opts, "size")
	if !had {
		if v, had = value(opts, "nr_blocks"); had {
			n, err := strconv.ParseInt(v, 10, 64)
			return n * 4096, err == nil && n < 1<<40
		}
		return 0, false
	}
	if pct, ok := strings.CutSuffix(v, "%"); ok {
		n, err := strconv.ParseInt(pct, 10, 64)
		return memTotal / 100 * n, err == nil && n >= 0 && n <= 100
	}
	// The kernel's memparse: decimal, hexadecimal or octal by prefix, with one
	// letter as unit.
	shift := 0
	if len(v) > 0 {
		if i := strings.IndexByte("kmgtpe", v[len(v)-1]|0x20); i >= 0 {
			shift = 10 * (i + 1)
			v = v[:len(v)-1]
		}
	}
	n, err := strconv.ParseInt(v, 0, 64)
	if err != nil || n < 0 || n > int64(1)<<62>>shift {
		return 0, false
	}
	return n << shift, true
}

// value is the last one of key=value among the options, as the kernel takes it.
func value(opts []string, key string) (string, bool) {
	for i := len(opts) - 1; i >= 0; i-- {
		if k, v, ok := strings.Cut(opts[i], "="); ok && k == key {
			return v, true
		}
	}
	return "", false
}

func has(opts []string, any ...string) bool {
	return slices.ContainsFunc(opts, func(o string) bool { return slices.Contains(any, o) })
}

// strip returns opts without those in remove, always a fresh slice.
func strip(opts, remove []string) []string {
	out := make([]string, 0, len(opts)+4)
	for _, o := range opts {
		if !slices.Contains(remove, o) {
			out = append(out, o)
		}
	}
	return out
}

func add(opts []string, more ...string) []string {
	for _, o := range more {
		if !slices.Contains(opts, o) {
			opts = append(opts, o)
		}
	}
	return opts
}
