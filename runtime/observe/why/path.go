package why

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/docker/go-units"

	"agentjail.dev/runtime/kernel/pathname"
	"agentjail.dev/runtime/spec/rings"
)

// Path is what was found of a path in a jail, or of what holds it. Ids are the jail's own.
type Path struct {
	// Name is the path as it was looked up, and Exists whether there is something; else the rest is
	// about the nearest directory above it.
	Name, Above string
	Exists      bool
	Link        bool // a symbolic link, which is not followed
	Mode        uint32
	UID, GID    uint32
	// User is the jail's first process.
	User struct {
		UID, GID uint32
		Groups   []uint32
	}
	// Mount is where the mount is that it lies on, FS its file system, and Kind what it is to the
	// jail.
	Mount, FS string
	Kind      MountKind
	ReadOnly  bool
	NoExec    bool
	// Masked, Fixed and Protected are paths of the lists that hold it, or "": hidden, read-only in
	// every jail, protected for the host.
	Masked, Fixed, Protected string
	// OnHost is Protected as the host has it; "" where that is unknown.
	OnHost string
	// OneOwner reports that the mount's owner is one user of the jail, who is Owner.
	OneOwner bool
	Owner    uint32
	// Size and Used are of the file system, in bytes, Files and UsedFiles in files; 0 is unknown.
	Size, Used, Files, UsedFiles uint64
	Landlock                     bool // the jail has a domain
}

// MountKind is what a mount is to a jail.
type MountKind string

// The kinds of mounts.
const (
	Layer  MountKind = "the ephemeral layer over the image"
	Tmpfs  MountKind = "a tmpfs of the jail's own"
	Kernel MountKind = "files that the kernel makes up"
	Device MountKind = "a device file"
	Host   MountKind = "a directory or file of the host"
)

// ofPath answers for a path.
func (f *Facts) ofPath(text string) *Answer {
	a := &Answer{Question: text, Kind: OfPath, Verdict: Unknown, Ring: new(rings.Resources)}
	if f.Path == nil {
		a.Rule = "a path is looked up in a running jail"
		f.ofNoJail(a, text)
		return a
	}
	p := f.Path
	a.Seen = p.seen()
	can := p.rights()
	switch {
	case p.Masked != "":
		a.Verdict, a.By, a.Rule = Refused, []string{"masked paths"}, p.Masked+" is hidden in every jail: it exposes the host, or steers its kernel"
		a.Purpose, a.Instead = true, "the limits in /sys/fs/cgroup; /proc/cpuinfo, meminfo and stat are the jail's own"
	case !p.Exists && path.Dir(p.Name) == "/dev/pts":
		a.Verdict, a.Errno = Refused, "ENOENT"
		a.By, a.Rule = []string{"nothing is there"}, p.Name+" is a terminal that no process of the jail has open"
		a.Instead = "a program opens /dev/ptmx for a terminal of its own; docker run -t for the first program's"
	case !p.Exists && path.Dir(p.Name) != p.Above || !p.Exists && missingDevice(p.Name):
		a.Verdict, a.Errno = Refused, "ENOENT"
		a.By, a.Rule = []string{"nothing is there"}, fmt.Sprintf("%s is not in the jail: %s ends at %s", p.Name, p.Kind, p.Above)
		f.ofNoJail(a, p.Name)
	case p.Protected != "":
		a.Ring = new(rings.Access)
		a.Verdict, a.Errno, a.By = Depends, "EROFS", []string{"protected paths (binds.protect), by a read-only mount; Landlock"}
		a.Rule, a.Why = p.Protected+" can be read and not written", "the host runs it by itself, or is led by it"
		a.Remedies = []Remedy{{
			Write: fmt.Sprintf("binds.unprotect = [%q]", cmp.Or(p.OnHost, p.Protected)), Where: f.where(),
			Opens: "what the jail writes there may run on the host",
		}}
		a.Instead = "make the change on the host (docs/protected-paths.md)"
	case p.Fixed != "":
		a.Verdict, a.Errno, a.By = Depends, "EROFS", []string{"read-only paths"}
		a.Rule = p.Fixed + " can be read and not written in every jail"
		a.Purpose, a.Instead = true, "docker run --sysctl net.KEY=VALUE for settings of the jail's own network"
	case p.ReadOnly:
		a.Verdict, a.Errno, a.By = Depends, "EROFS", []string{"read-only mount", "Landlock"}
		a.Rule = fmt.Sprintf("the mount at %s is read-only", p.Mount)
		a.Remedies = p.writable()
		a.Purpose = len(a.Remedies) == 0
	default:
		f.byMode(a, p, can)
	}
	return a
}

// byMode answers where only owner and mode decide.
func (f *Facts) byMode(a *Answer, p *Path, can string) {
	want := "rw"
	if !p.Exists || p.isDir() {
		want = "rwx"
	}
	if strings.HasPrefix(can, want) {
		a.Verdict, a.Ring = Passes, nil
		a.Rule = fmt.Sprintf("the jail's user %d has %s of %s there", p.User.UID, can, want)
		a.Then = p.full()
		return
	}
	a.Ring = new(rings.Access)
	a.Verdict, a.Errno, a.By = Depends, "EACCES", []string{"owner and mode of the file"}
	if can == "" {
		a.Verdict = Refused
	}
	a.Rule = fmt.Sprintf("it belongs to uid %d, gid %d, mode %04o; the jail's user %d has %s, and root of a jail overrides no mode", p.UID,
		p.GID, p.Mode&0o7777, p.User.UID, cmp.Or(can, "nothing"))
	switch {
	case p.OneOwner && p.User.UID != p.Owner:
		a.Why = fmt.Sprintf("the mounted directory belongs to uid %d of the jail", p.Owner)
		a.Remedies = []Remedy{{
			Write: fmt.Sprintf("docker run -u %d, or -l dev.agentjail.binds.owner=%d", p.Owner, p.User.UID),
			Where: "the container's command line",
		}}
	case p.Kind == Host && p.UID == 65534:
		a.Why = "on the host its owner is not the directory's, and has no id in the jail"
		a.Remedies = []Remedy{{Write: "chown the file to the directory's owner", Where: "the host"}}
	default:
		a.Remedies = []Remedy{{Write: fmt.Sprintf("docker run -u %d:%d", p.UID, p.GID), Where: "the container's command line"}}
	}
}

func (p *Path) isDir() bool { return p.Mode&0o170000 == 0o040000 }

// rights are those of the jail's user by the file's mode, who has no capability.
func (p *Path) rights() string {
	bits := p.Mode & 7
	switch {
	case p.UID == p.User.UID:
		bits = p.Mode >> 6 & 7
	case p.GID == p.User.GID || slices.Contains(p.User.Groups, p.GID):
		bits = p.Mode >> 3 & 7
	}
	if p.OneOwner && p.UID == 65534 { // another owner's, whatever the mode
		bits &^= 2
	}
	out := ""
	for i, c := range "rwx" {
		if bits>>(2-i)&1 == 1 {
			out += string(c)
		}
	}
	return out
}

// seen reports what was found, in lines.
func (p *Path) seen() []string {
	how := "writable"
	if p.ReadOnly {
		how = "read-only"
	}
	if p.NoExec {
		how += ", runs no programs"
	}
	out := []string{fmt.Sprintf("%s at %s (%s), %s", p.Kind, p.Mount, p.FS, how)}
	if p.Exists {
		what := ""
		if p.Link {
			what = ", a symbolic link"
		}
		out = append(out, fmt.Sprintf("uid %d, gid %d, mode %04o%s", p.UID, p.GID, p.Mode&0o7777, what))
	} else {
		out = append(out, fmt.Sprintf("it does not exist; the directory %s belongs to uid %d, gid %d, mode %04o", p.Above, p.UID, p.GID, p.Mode&0o7777))
	}
	if p.OneOwner {
		out = append(out, fmt.Sprintf("what belongs to the directory's owner on the host belongs to uid %d here", p.Owner))
	}
	if p.Size > 0 && (p.Kind == Layer || p.Kind == Tmpfs) {
		out = append(out, fmt.Sprintf("%s of %s used, %d of %d files", sizeOf(p.Used), sizeOf(p.Size), p.UsedFiles, p.Files))
	}
	if p.Landlock && !p.ReadOnly && p.Kind != Kernel {
		out = append(out, "Landlock lets it be written, as all that is on writable mounts")
	}
	return out
}

// full is what stands against more data.
func (p *Path) full() string {
	switch {
	case p.Size == 0 || p.Kind != Layer && p.Kind != Tmpfs:
		return ""
	case p.Size-p.Used < p.Size/50 || p.Files-p.UsedFiles < p.Files/50:
		if p.Kind == Layer {
			return "it is full: root.size and limits.memory, or root.disk for a layer on disk, and root.inodes"
		}
		return "it is full: its size (--shm-size, --tmpfs size=, or tmpfs.size) and tmpfs.inodes"
	}
	return fmt.Sprintf("%s are left", sizeOf(p.Size-p.Used))
}

// injected are the files that an engine mounts into every container, with the option that sets
// what is in them.
var injected = map[string]string{
	"/etc/hosts": "docker run --add-host NAME:ADDRESS", "/etc/resolv.conf": "docker run --dns ADDRESS --dns-search DOMAIN",
	"/etc/hostname": "docker run --hostname NAME",
}

// writable are the changes that make a read-only mount writable.
func (p *Path) writable() []Remedy {
	switch option := injected[p.Mount]; {
	case option != "":
		return []Remedy{{Write: option, Where: "the container's command line"}}
	case p.Kind == Host:
		return []Remedy{{
			Write: fmt.Sprintf("-v DIR:%s without :ro (agentjail sandbox: without --read-only, or --workspace DIR)", p.Mount),
			Where: "the container's command line", Opens: "all below " + p.Mount,
		}}
	case p.Kind == Layer:
		return []Remedy{{
			Write: "docker run without --read-only", Where: "the container's command line",
			Opens: "the jail's own layer, which goes with it",
		}, {Write: "docker run --tmpfs " + p.Mount, Where: "the container's command line"}}
	}
	return nil
}

// sizeOf is a size for readers.
func sizeOf(n uint64) string { return units.BytesSize(float64(n)) }

// notDevices are the directories of /dev, and its links, in which there are no devices.
var notDevices = []string{
	"/dev/shm", "/dev/mqueue", "/dev/pts", "/dev/fd", "/dev/stdin", "/dev/stdout", "/dev/stderr",
	"/dev/log",
}

// missingDevice reports whether a path is a device's that jails do not have by themselves.
func missingDevice(name string) bool {
	in := func(dir string) bool { return pathname.Within(name, dir) }
	return strings.HasPrefix(name, "/dev/") && !slices.ContainsFunc(notDevices, in)
}

// ofNoJail adds what is known of a path whatever the jail.
func (f *Facts) ofNoJail(a *Answer, name string) {
	switch {
	case strings.HasSuffix(name, ".sock"):
		a.Verdict, a.Why = Refused, "a Unix socket lets the container act through a host program"
		a.Remedies = []Remedy{{
			Write: fmt.Sprintf("binds.allow = [%q], and -v %s:%s", name, name, name), Where: f.where(),
			Opens: "every action that its listener performs for a client",
		}}
		a.Instead = "services started outside, reached by name; credentials (docs/credentials.md)"
	case name == "/dev/fuse":
		a.Verdict, a.Why, a.Purpose = Refused, "FUSE needs a mount, and no process of a jail mounts", true
		a.Instead = "mount on the host, and mount the directory into the jail"
	case missingDevice(name):
		a.Verdict, a.Why = Refused, "a jail has no device but null, zero, full, random, urandom, tty, console and ptmx"
		a.Remedies = []Remedy{{
			Write: fmt.Sprintf("devices.allow = [%q], and docker run --device %s", name, name), Where: f.where(),
			Opens: "the device's driver, with every request of its",
		}}
	case a.Verdict == Refused:
		a.Remedies = []Remedy{{
			Write: "-v " + name + ":" + name + ":ro (agentjail sandbox: --workspace DIR)",
			Where: "the container's command line", Opens: "what can be read there",
		}}
	}
}
