package inspect

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/atomicfile"
	"agentjail.dev/runtime/kernel/cgroups"
	"agentjail.dev/runtime/kernel/landlock"
	"agentjail.dev/runtime/kernel/mountinfo"
	"agentjail.dev/runtime/kernel/openat"
	"agentjail.dev/runtime/kernel/pathname"
	"agentjail.dev/runtime/network/modes"
	"agentjail.dev/runtime/observe/why"
	"agentjail.dev/runtime/spec/network"
	"agentjail.dev/runtime/spec/policy"
	"agentjail.dev/runtime/spec/traits"
	"agentjail.dev/runtime/state"
	"agentjail.dev/seccomp"
	"agentjail.dev/seccomp/bpf"
	"agentjail.dev/seccomp/compiler"
)

// Why gathers what package why needs of a jail to answer a question. A jail that has ended has its
// filters, its policy and its network's rules until it is deleted; of its files and limits nothing
// is to be seen any more.
func Why(s state.Store, j *state.Jail, q why.Question, arch string) (*why.Facts, error) {
	f, err := PolicyWhy(&j.Policy, j.Network, arch)
	if err != nil {
		return nil, err
	}
	f.ID = j.ID
	if len(j.Pinned) > 0 {
		f.Network.Exact = j.Pinned
	}
	d := demandsOf(s, j)
	// The filters that the jail has, not those that would be made today.
	raw, err := atomicfile.Read(filepath.Join(s.Dir(j.Key), state.FilterFile), 8*bpf.MaxInsns)
	if err == nil {
		f.Filters.Inner, err = bpf.Parse(raw)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: its system call filter: %w", j.ID, err)
	}
	if d.spec != nil && d.spec.Linux != nil && d.spec.Linux.Seccomp != nil {
		if f.Filters.Outer, err = compiler.Compile(d.spec.Linux.Seccomp); err != nil {
			return nil, fmt.Errorf("%s: its outer system call filter: %w", j.ID, err)
		}
	}
	p, err := openProc(j.InitPid)
	if err == nil {
		defer p.close()
	}
	// The directory is open: if it is the right process now, it stays the right one.
	if err != nil || !j.InitAlive() {
		f.Signs = slices.Concat(SentrySigns(j.Delegate), f.Signs)
		return f, notAtPath(q, err)
	}
	f.Signs = append(f.Signs, signs(p, d)...)
	if q.Path != "" {
		if f.Path, err = pathIn(p, d, q.Path); err != nil && q.Kind == why.OfPath {
			return nil, fmt.Errorf("%s: %w", j.ID, err)
		}
	}
	return f, nil
}

// notAtPath reports that a path cannot be looked up, where one was requested.
func notAtPath(q why.Question, err error) error {
	if q.Kind != why.OfPath {
		return nil
	}
	return errors.Join(ErrNotRunning, err)
}

// PolicyWhy is Why for a policy without a jail.
func PolicyWhy(p *policy.Policy, d network.Decision, arch string) (*why.Facts, error) {
	filters, err := why.Alone(seccomp.Options{
		Profile: p.Seccomp.Profile, Arch: arch, Kill: p.Seccomp.OnViolation == "kill",
		Only: p.Seccomp.List,
	})
	if err != nil {
		return nil, err
	}
	f := &why.Facts{Filters: filters, Where: policyPlace(p)}
	filters.File, filters.Where = p.Seccomp.Only, f.Where
	if d.Mode == "" {
		d = network.Decision{Mode: p.Network.Mode, Namespace: network.Own}
	}
	mode, err := modes.Named(d.Mode)
	if err != nil {
		return nil, err
	}
	t := mode.Terms(d)
	f.Network = why.Network{
		Mode: d.Mode, ByRules: t.ByRules, Joined: t.Resolver != "" && !t.ByRules,
		Nothing: t.Reach == "" && t.Resolver == "", Approval: t.ByRules && p.Network.Approval == policy.ApprovalPrompt,
	}
	if t.ByRules {
		f.Network.OfCall = p.Origin != nil && len(p.Origin.Allow) > 0
		if f.Network.Rules, err = p.Network.Rules(); err != nil {
			return nil, err
		}
		f.Network.Exact = f.Network.Rules.Exact()
	}
	f.Signs = policySigns(p, f.Network)
	return f, nil
}

// policyPlace is where a policy is written.
func policyPlace(p *policy.Policy) string {
	if p.Origin == nil || p.Origin.Path == "" {
		return ""
	}
	if p.Origin.Name != "" {
		return fmt.Sprintf("[policies.%s] of %s, for jails that are made from then on", p.Origin.Name, p.Origin.Path)
	}
	return p.Origin.Path + ", for jails that are made from then on"
}

// policySigns are those that policy alone shows.
func policySigns(p *policy.Policy, n why.Network) []why.Sign {
	ends := len(p.Credentials.Ended()) > 0
	return []why.Sign{
		{
			Sign: "network none", Shown: n.Nothing, Rules: true,
			Text: fmt.Sprintf("network.mode = %q: the jail has lo and nothing else", n.Mode),
		},
		{Sign: "network names", Rules: !n.ByRules, Text: "the jail has a network by name"},
		{Sign: "name", Rules: !n.ByRules, Text: "the jail has a network by name"},
		{
			Sign: "kill", Shown: p.Seccomp.OnViolation == "kill", Rules: true,
			Text: fmt.Sprintf("seccomp.on_violation = %q", p.Seccomp.OnViolation),
		},
		{Sign: "sentry", Rules: true},
		{Sign: "tls end", Rules: !ends, Text: "a credential with tls = \"end\" is set"},
	}
}

// signs are those that a running jail shows, beside policy's.
func signs(p *proc, d *demands) []why.Sign {
	out := limitSigns(groupFiles(p), d)
	add := func(sign string, shown, known bool, format string, args ...any) {
		if known {
			out = append(out, why.Sign{Sign: sign, Shown: shown, Text: fmt.Sprintf(format, args...)})
		}
	}
	if fs, err := statfs(lookup(p, "/")); err == nil {
		size, used := fs.Blocks*uint64(fs.Bsize), (fs.Blocks-fs.Bfree)*uint64(fs.Bsize)
		add("layer", size-used < size/50, size > 0, "the layer has %d of %d KiB used", used>>10, size>>10)
		if key, bound := d.jail.Policy.Root.Layer(); size > 0 {
			root := &limit{key: key, bound: uint64(bound), sized: true}
			out[len(out)-1].Remedies = root.moved(&d.jail.Policy, root.bound)
		}
		add("layer files", fs.Ffree < fs.Files/50, fs.Files > 0, "the layer has %d of %d files", fs.Files-fs.Ffree, fs.Files)
	}
	for _, at := range tmpfsOf(p) {
		if fs, err := statfs(lookup(p, at)); err == nil && fs.Blocks > 0 &&
			(fs.Bfree < fs.Blocks/50 || fs.Files > 0 && fs.Ffree < fs.Files/50) {
			add("tmpfs", true, true, "the tmpfs at %s is full: %d of %d KiB, %d of %d files", at,
				(fs.Blocks-fs.Bfree)*uint64(fs.Bsize)>>10,
				fs.Blocks*uint64(fs.Bsize)>>10, fs.Files-fs.Ffree, fs.Files)
			if fs.Bfree < fs.Blocks/50 {
				out[len(out)-1].Remedies = fullTmpfs(d, at, fs.Blocks*uint64(fs.Bsize))
			}
		}
	}
	if o, u := d.jail.MountOwner, d.jail.Process; o != nil && u != nil {
		add("other user", o.UID != u.User.UID, true, "mounted directories belong to uid %d, the jail's program is uid %d", o.UID, u.User.UID)
	}
	return out
}

// SentrySigns are those of a jail that has ended, by its delegate: in a sandbox with a kernel of
// its own, the end of that kernel's process is one reason.
func SentrySigns(delegate string) []why.Sign {
	t := traits.Of(delegate)
	if t.Sandbox == "" {
		return nil
	}
	return []why.Sign{{
		Sign: "sentry", Shown: true,
		Text: "the jail was in a sandbox with a kernel of its own (" + t.Sandbox + "), and has ended",
	}}
}

// eventFiles are those of control groups that count how often a limit was met, and those limits.
var eventFiles = []string{
	"memory.events", "memory.oom_control", "pids.events", "memory.max", "memory.limit_in_bytes", "pids.max",
}

// groupFiles reads them for a process.
func groupFiles(p *proc) map[string]string {
	out := map[string]string{}
	text, err := p.read("cgroup", maxSmall)
	if err != nil {
		return out
	}
	mounts, err := mountinfo.Read(mountinfo.Own)
	if err != nil {
		return out
	}
	for controller, group := range byController(cgroups.Parse(text)) {
		dir := groupDir(mounts, controller, group)
		if dir == "" || group == "/" {
			continue
		}
		for _, name := range eventFiles {
			if text, err := cgroups.Read(dir, name); err == nil {
				out[name] = text
			}
		}
	}
	return out
}

// tmpfsOf are the places of a jail's own tmpfs, for it to write.
func tmpfsOf(p *proc) []string {
	text, err := p.read("mountinfo", maxMounts)
	if err != nil {
		return nil
	}
	mounts, err := parseMounts(text)
	if err != nil {
		return nil
	}
	var out []string
	for i := range mounts {
		if m := &mounts[i]; m.FS == "tmpfs" && !m.ReadOnly() && len(out) < 64 {
			out = append(out, m.Point)
		}
	}
	return out
}

// lookup opens a path of a jail as its processes see it: links are followed, and lead nowhere but
// in the jail.
func lookup(p *proc, name string) (*os.File, error) {
	root, err := p.open("root", unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return openat.File(int(root.Fd()), name, openat.InRoot, unix.O_PATH)
}

// pathIn looks at a path of a jail.
func pathIn(p *proc, d *demands, name string) (*why.Path, error) {
	name = path.Clean(name)
	out := &why.Path{Name: name, Above: name, Exists: true}
	f, err := lookup(p, name)
	for ; err != nil; f, err = lookup(p, out.Above) {
		if out.Exists = false; out.Above == "/" {
			return nil, err
		}
		out.Above = path.Dir(out.Above)
	}
	defer f.Close()
	var st unix.Statx_t
	if err := unix.Statx(int(f.Fd()), "", unix.AT_EMPTY_PATH, unix.STATX_BASIC_STATS|unix.STATX_MNT_ID, &st); err != nil {
		return nil, err
	}
	out.Mode = uint32(st.Mode)
	maps := &seen{hostDevs: map[string]bool{}}
	if err := maps.lookIDs(p); err != nil {
		return nil, err
	}
	out.UID, out.GID = inside(maps.uidMap, st.Uid), inside(maps.gidMap, st.Gid)
	var fs unix.Statfs_t
	if unix.Fstatfs(int(f.Fd()), &fs) == nil {
		out.Size, out.Used = fs.Blocks*uint64(fs.Bsize), (fs.Blocks-fs.Bfree)*uint64(fs.Bsize)
		out.Files, out.UsedFiles = fs.Files, fs.Files-fs.Ffree
	}
	if err := maps.lookMounts(p); err != nil {
		return nil, err
	}
	maps.mountOf(out, st.Mnt_id)
	hold(out, d)
	return out, nil
}

// mountOf fills in the mount with an id.
func (s *seen) mountOf(out *why.Path, id uint64) {
	kinds := map[class]why.MountKind{
		rootMount: why.Layer, ownTmpfs: why.Tmpfs, kernelMount: why.Kernel, deviceMount: why.Device,
		hostMount: why.Host,
	}
	for i := range s.mounts {
		m := &s.mounts[i]
		if m.ID == strconv.FormatUint(id, 10) {
			out.Mount, out.FS, out.Kind, out.ReadOnly = m.Point, m.FS, kinds[s.classOf(m)], m.ReadOnly()
			out.NoExec = len(m.Lacks("noexec")) == 0
		}
	}
}

// hold fills in the lists that hold a path, and who the jail's user is.
func hold(out *why.Path, d *demands) {
	at := func(list []string) string {
		for _, p := range list {
			if p = path.Clean("/" + p); pathname.Within(out.Name, p) {
				return p
			}
		}
		return ""
	}
	out.Masked, out.Fixed, out.Protected = at(d.masked()), at(d.readOnly()), at(d.jail.Protected)
	if out.Protected != "" {
		out.OnHost = onHost(d, out.Protected)
	}
	if u := d.jail.Process; u != nil {
		out.User.UID, out.User.GID, out.User.Groups = u.User.UID, u.User.GID, u.User.AdditionalGids
	}
	if o := d.jail.MountOwner; o != nil && out.Kind == why.Host && !out.ReadOnly {
		out.OneOwner, out.Owner = true, o.UID
	}
	abi, err := landlock.ABI()
	out.Landlock = err == nil && abi >= 2
}
