package harden

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/kernel/pathname"
	"agentjail.dev/runtime/refusal"
	"agentjail.dev/runtime/spec/bindsource"
	"agentjail.dev/runtime/spec/lists"
	"agentjail.dev/runtime/spec/plan"
	"agentjail.dev/runtime/spec/policy"
	"agentjail.dev/runtime/spec/report"
	"agentjail.dev/runtime/spec/rings"
)

// bind decides on one bind mount.
func bind(p *pass, i int, m *specs.Mount) {
	f := sourceOf(p, i, m)
	if f == nil {
		return
	}
	if f.Role == bindsource.OwnImage {
		ownImage(p, i, m, f)
		return
	}
	if replaceHostMount(p, m, f) {
		filesystem(p, m)
		return
	}
	if f.ThrowAway {
		throwAway(p, i, m, f)
		return
	}
	readOnly := ReadOnly(*m)
	nameTable := isNameTable(m, f) && readOnly
	if !mayMount(p, m, f, readOnly, nameTable) {
		return
	}
	b := plan.Bind{
		Index: i, NoExec: has(m.Options, "noexec", "rnoexec"), NonRecursive: !slices.Contains(m.Options, "rbind"), Source: f.Path,
		Storage: plan.StorageDirect,
	}
	if f.Role == bindsource.EngineImage {
		if !readOnly {
			p.change(rings.Access, report.Lowered, mountField(m), "writable", "read-only", "an image")
		}
		readOnly, b.Storage = true, plan.StorageLayers
	}
	if f.Role == bindsource.Injected && f.Kind == bindsource.File {
		readOnly = engineFile(p, m, f, &b, readOnly)
	}
	if p.network.Resolver != "" && path.Clean(m.Destination) == plan.ResolverFile && f.Kind == bindsource.File {
		b.Copy, b.Current, readOnly = true, false, true // agentjail's own text replaces the file's content
	}
	isPublic := f.IsPublic() && !bindsource.Allowed(*f, p.pol.Binds)
	if isPublic {
		applyPublic(p, m, f, &b, readOnly)
		readOnly = true
	}
	readOnly = protectBind(p, m, f, &b, readOnly)
	b.Owner = owner(p, m, f, readOnly, nameTable || isPublic)
	review(p, m, f, &b, readOnly)
	if !readOnly && b.Owner != plan.OwnerNone && b.Storage == plan.StorageDirect {
		setID(p, m, f)
	}
	b.ReadOnly = readOnly
	endpoints(p, f, &b)
	handOver(p, m, f, &b)
	bindOptions(p, m, f, &b)
	p.plan.Binds = append(p.plan.Binds, b)
}

// engineFile decides on a file that the engine made for this container: its resolv.conf, hosts and
// hostname, Podman's passwd. The engine reads it again, and it lies on the host's disk, so that a
// jail that may write to it gets a copy. It returns whether the mount is read-only.
func engineFile(p *pass, m *specs.Mount, f *bindsource.Fact, b *plan.Bind, readOnly bool) bool {
	at := path.Clean(m.Destination)
	network := ofNetwork(at)
	follows := network && !p.network.CopyNames
	shared := p.f.Joins[specs.NetworkNamespace].Jail != ""
	switch {
	case f.Secret, follows && (readOnly || at == plan.ResolverFile || p.f.Sandbox != "" || shared):
		// A secret has an owner. The resolver changes while the container runs, and names in a file
		// that containers share: Podman adds each container of a pod. Into a sandbox the start does
		// not write.
		if !readOnly {
			p.change(rings.Access, report.Lowered, mountField(m), "writable", "read-only", "the engine's own file")
		}
		return true
	case !readOnly:
		p.change(rings.Access, report.Set, mountField(m), "the engine's own file", "a copy", "a jail writes to nothing of the engine's")
	}
	b.Copy = network || !readOnly
	b.Current, b.OwnName = b.Copy, at == "/etc/hosts" && p.network.CopyNames
	return readOnly
}

// ownImage decides on the mount of a file system that agentjail made: its size bounds the jail, its
// files are the owner's, and the host runs none of them.
func ownImage(p *pass, i int, m *specs.Mount, f *bindsource.Fact) {
	if why := plan.Reserved(path.Clean(m.Destination)); why != "" {
		p.addRefusal(refusal.New(refusal.MountPlace, "%s", why).About("mount of %s at %s", m.Source, m.Destination))
		return
	}
	b := plan.Bind{Index: i, NonRecursive: true, Source: f.Path, Storage: plan.StorageImage, Owner: plan.OwnerDir}
	bindOptions(p, m, f, &b)
	p.plan.Binds = append(p.plan.Binds, b)
}

// sourceOf returns the facts about a mount's source. It refuses a mount without a source and
// returns nil.
func sourceOf(p *pass, i int, m *specs.Mount) *bindsource.Fact {
	if m.Source == "" {
		p.addRefusal(refusal.New(refusal.BindSource, "a bind mount without a source would mount the bundle's own directory").About("mount at %s", m.Destination))
		return nil
	}
	if i < len(p.f.Sources) && p.f.Sources[i] != nil {
		return p.f.Sources[i]
	}
	p.addRefusal(refusal.New(refusal.BindSource, "nothing is known of its source %q", m.Source).About("mount at %s", m.Destination))
	return nil
}

// systemdGroups is systemd's own hierarchy of control groups, version 1. Podman mounts it where a
// container's first process is systemd, or is treated as such (podman-run(1), "--systemd").
const systemdGroups = "/sys/fs/cgroup/systemd"

// mayMount refuses a destination that is reserved for the jail and a source that is not allowed
// in jails. nameTable marks one of the host's name tables.
func mayMount(p *pass, m *specs.Mount, f *bindsource.Fact, readOnly, nameTable bool) bool {
	if why := plan.Reserved(path.Clean(m.Destination)); why != "" && !likeLXCFS(m, f) {
		refused := refusal.New(refusal.MountPlace, "%s", why).About("mount of %s at %s", m.Source, m.Destination)
		if pathname.Within(path.Clean(m.Destination), systemdGroups) {
			refused = refused.WithRemedy("podman run --systemd=false, with the program itself as the command: systemd does not run in a jail")
		}
		p.addRefusal(refused)
		return false
	}
	if why := bindsource.Refusal(*f, readOnly, p.pol.Binds); why != nil && !nameTable {
		name := m.Source
		if f.Path != path.Clean(name) {
			name += " (" + f.Path + ")"
		}
		p.addRefusal(why.About("mount of %s at %s", name, m.Destination))
		return false
	}
	return true
}

// bindOptions sets the options that every bind mount has, and drops those that
// would loosen it.
func bindOptions(p *pass, m *specs.Mount, f *bindsource.Fact, b *plan.Bind) {
	if has(m.Options, "shared", "rshared") {
		p.deny(rings.Resources, mountField(m), "mount propagation", "private", "a jail's mounts do not travel")
	}
	opts, gone := options(p, m.Options, []string{"bind", "rbind", "private", "rprivate"}, nil)
	if !b.NonRecursive && len(f.Below) > 0 {
		p.change(rings.Access, report.Dropped, mountField(m), list(f.Below), "", "no jail may have the directories that are mounted below it")
		b.NonRecursive = true
		opts = lists.Union(without(opts, "rbind"), "bind")
	}
	if gone = without(gone, "shared", "rshared"); len(gone) > 0 {
		p.change(rings.Access, report.Dropped, mountField(m), strings.Join(gone, ", "), "", "it would loosen the mount")
	}
	if b.ReadOnly {
		opts = lists.Union(opts, "ro")
	}
	if opts = lists.Union(opts, "nosuid", "nodev"); f.Node != "" {
		opts = lists.Union(without(opts, "nodev"), "noexec")
	}
	if !has(opts, "bind", "rbind") {
		opts = lists.Union(opts, "bind")
	}
	if !has(opts, "private", "rprivate") {
		opts = lists.Union(opts, "rprivate")
	}
	m.Type, m.Options = "bind", opts
}

// applyPublic mounts a part of the host's configuration that holds no secret: a file as a copy, a
// directory as it is. A writable mount becomes read-only without a refusal, since many users who
// mount the host's time zone forget the :ro.
func applyPublic(p *pass, m *specs.Mount, f *bindsource.Fact, b *plan.Bind, readOnly bool) {
	b.Copy = f.Public.Copied()
	switch what := publicReplacement[f.Public]; {
	case !readOnly:
		p.deny(rings.Access, mountField(m), "writable", "read-only", what)
	case b.Copy:
		p.change(rings.Access, report.Set, mountField(m), "", "", what)
	}
}

// publicReplacement describes what the jail gets in place of the requested source.
var publicReplacement = map[bindsource.Public]string{
	bindsource.PublicDir:    "the host's own directory",
	bindsource.PublicFile:   "a copy of the host's file",
	bindsource.PublicUsers:  "a copy with the standard users and the container's own, without comments",
	bindsource.PublicGroups: "a copy with the standard groups and the container's own, without members",
	bindsource.PublicGit:    "a copy of git's settings, without comments",
}

// ReadOnly reports whether a mount is to be read-only.
func ReadOnly(m specs.Mount) bool { return has(m.Options, "ro", "rro") }

// setID reports or refuses a directory with programs that run as its owner. A jail could change
// such a program through a shared mapping, and the program would keep its set-id bits.
func setID(p *pass, m *specs.Mount, f *bindsource.Fact) {
	switch {
	case len(f.SetID) > 0 && p.pol.Binds.SetID == policy.SetIDRefuse:
		p.addRefusal(refusal.New(refusal.BindSetID, "it holds programs that run as its owner, whose content the jail could change: %s", f.SetIDText()).
			About("mount of %s at %s", f.Path, m.Destination).WithRemedy("chmod ug-s, or policy: binds.setid = \"report\", which opens those programs to a jail that changes them"))
	case len(f.SetID) > 0:
		p.missing(rings.Access, mountField(m), "programs in it run as its owner, and the jail can change their content: "+f.SetIDText()+" (remedy: chmod ug-s)")
	case f.SetIDGaveUp && p.pol.Binds.SetID == policy.SetIDRefuse:
		p.addRefusal(refusal.New(refusal.BindSetID,
			"it holds too much to be searched as a whole for programs that run as its owner, whose content the jail could change").
			About("mount of %s at %s", f.Path, m.Destination).WithRemedy("mount a smaller directory, or policy: binds.setid = \"report\", which opens what was not found to a jail that changes it"))
	case f.SetIDGaveUp:
		p.missing(rings.Access, mountField(m),
			"not all of it was searched for programs that run as its owner, whose content the jail can change (remedy: mount a smaller directory)")
	}
}

// owner decides which files of a source the jail may own.
func owner(p *pass, m *specs.Mount, f *bindsource.Fact, readOnly, known bool) plan.Owner {
	o := plan.OwnerDir
	switch {
	case f.Secret && f.Kind == bindsource.File && !p.f.Host.Rootless:
		// Its reader is the user that the engine's caller named.
		return engineOwner(p)
	case f.Role == bindsource.EngineImage && !p.f.Host.Rootless:
		return engineOwner(p)
	case f.Node != "", f.Role == bindsource.Injected, f.Role == bindsource.EngineImage, f.System, known:
		// Files of root's that every user of the host can read, no others; devices of all jails.
		return plan.OwnerNone
	case bindsource.Allowed(*f, p.pol.Binds):
		// The host's owner answers for it.
	case f.HostPath:
		// A pod's author has no rights of their own on the node.
		return plan.OwnerNone
	case f.OwnOfPod():
		// The pod's containers share its ids; access to the volume's files is as in any pod.
		o = plan.OwnerSame
	case f.EnginesVolume():
		// Images fill it with their own ids, and containers share it.
		o = engineOwner(p)
	case f.Roots() && p.pol.Binds.Root != policy.RootAllow:
		// Read-only or by policy: files that only root may read or write stay root's.
		if !readOnly {
			p.change(rings.Access, report.Lowered, mountField(m), "root's", "nobody's", `binds.root = "nobody"`)
		}
		return plan.OwnerNone
	}
	if p.f.Host.Rootless {
		// Only the process that mounted a file system may map its owners (mount_setattr(2)). The
		// kernel protects files of users other than the engine's from the jail.
		if !readOnly && f.Role == bindsource.Plain {
			p.missing(rings.Access, mountField(m), "a rootless engine cannot map owners: files have the jail's ids as the engine maps them")
		}
		return plan.OwnerNone
	}
	return o
}

// engineOwner is how the ids of an engine's volume or secret are mapped: each is
// itself, as without a jail. On the disk they are the container's, or the host's where the
// engine brought a mapping (Docker's userns-remap, Podman's --userns).
func engineOwner(p *pass) plan.Owner {
	if p.f.IDs.Given {
		return plan.OwnerHost
	}
	return plan.OwnerSame
}

// handOver decides whether the top of an engine's volume becomes the first process's
// user's. A new one belongs to container root, so that another user could not write
// to it; it holds no file of another's. Podman does the same with
// each new volume (podman-run(1), "Chowning Volume Mounts").
func handOver(p *pass, m *specs.Mount, f *bindsource.Fact, b *plan.Bind) {
	user := p.spec.Process.User
	if b.ReadOnly || user.UID == 0 || !f.New || !f.EnginesVolume() || b.Owner != plan.OwnerSame && b.Owner != plan.OwnerHost ||
		bindsource.Allowed(*f, p.pol.Binds) {
		return
	}
	uid, gid := uint32(0), uint32(0) // container root's on the disk
	if b.Owner == plan.OwnerHost {
		uid, _ = p.f.IDs.HostUID(0)
		gid, _ = p.f.IDs.HostGID(0)
	}
	_, ok1 := p.f.IDs.HostUID(user.UID)
	_, ok2 := p.f.IDs.HostGID(user.GID)
	if !ok1 || !ok2 || f.UID != uid || f.GID != gid {
		return
	}
	b.HandOver = true
	p.change(rings.Access, report.Set, mountField(m), "root's", fmt.Sprintf("owned by uid %d, gid %d", user.UID, user.GID),
		"a new volume, in which nothing is yet: the first process could not write to it")
}

// ofNetwork names the engine's files about the network, of which a jail can get
// copies: their directory on the host then does not show in its mount table.
func ofNetwork(at string) bool {
	return at == "/etc/hosts" || at == "/etc/hostname" || at == "/etc/resolv.conf"
}

// hostNamespaceMounts are mounts that engines replace by the host's own when a container shares
// the host's namespace (--ipc=host, --pid=host, --net=host). The values are the mounts of a
// container with its own namespace.
var hostNamespaceMounts = map[string]specs.Mount{
	"/proc": {Destination: "/proc", Type: "proc", Source: "proc", Options: []string{"nosuid", "noexec", "nodev"}},
	"/sys":  {Destination: "/sys", Type: "sysfs", Source: "sysfs", Options: []string{"nosuid", "noexec", "nodev", "ro"}},
	"/sys/fs/cgroup": {
		Destination: "/sys/fs/cgroup", Type: "cgroup", Source: "cgroup",
		Options: []string{"nosuid", "noexec", "nodev", "ro"},
	},
	"/dev/pts": {
		Destination: "/dev/pts", Type: "devpts", Source: "devpts",
		Options: []string{"nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"},
	},
	"/dev/shm": {
		Destination: "/dev/shm", Type: "tmpfs", Source: "shm",
		Options: []string{"nosuid", "noexec", "nodev", "mode=1777"},
	},
	"/dev/mqueue": {Destination: "/dev/mqueue", Type: "mqueue", Source: "mqueue", Options: []string{"nosuid", "noexec", "nodev"}},
}

// replaceHostMount puts the jail's own file system in place of the host's, and of a shared
// memory directory that the engine made larger than policy allows or with a label
// that is not the jail's.
func replaceHostMount(p *pass, m *specs.Mount, f *bindsource.Fact) bool {
	at := path.Clean(m.Destination)
	own, ok := hostNamespaceMounts[at]
	switch {
	case !ok:
		return false
	case path.Clean(m.Source) == at, f.Path == at:
		p.deny(rings.Resources, mountField(m), "the host's", "fresh", "a jail shares nothing of the host's namespaces")
	case at == "/dev/shm" && f.Role == bindsource.Injected && f.Room > maxTmpfs(p):
		// The size goes on to the mount in its place, where it is lowered.
	case at == "/dev/shm" && f.Role == bindsource.Injected && p.plan.Label != "":
		p.change(rings.Resources, report.Set, mountField(m), "the engine's", "fresh", "it has another SELinux label")
	default:
		return false
	}
	own.Options = slices.Clone(own.Options)
	if own.Type == "tmpfs" && f.Role == bindsource.Injected && f.Room > 0 {
		own.Options = append(own.Options, fmt.Sprintf("size=%d", f.Room))
	}
	if has(m.Options, "ro", "rro") {
		own.Options = lists.Union(own.Options, "ro")
	}
	own.UIDMappings, own.GIDMappings = nil, nil
	*m = own
	return true
}

// isNameTable is for the host's own tables of names, which engines mount in their
// place into a container that is to share the host's network (ctr --net-host).
// Every user of the host can read them.
func isNameTable(m *specs.Mount, f *bindsource.Fact) bool {
	at := path.Clean(m.Destination)
	return (at == "/etc/hosts" || at == "/etc/resolv.conf") && path.Clean(m.Source) == at && f.Path == at &&
		f.Kind == bindsource.File
}

// likeLXCFS allows single files over those files of /proc that contain only load and sizes, as
// lxcfs provides them; runc allows these and a few more (checkProcMount).
func likeLXCFS(m *specs.Mount, f *bindsource.Fact) bool {
	switch path.Clean(m.Destination) {
	case "/proc/cpuinfo", "/proc/diskstats", "/proc/meminfo", "/proc/stat", "/proc/swaps", "/proc/uptime", "/proc/loadavg",
		"/proc/slabinfo":
		return f.Kind == bindsource.File
	}
	return false
}
