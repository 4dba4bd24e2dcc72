// Package sandbox makes the bundle of `agentjail sandbox`: a command over this
// machine's own file tree, without an engine or an image.
package sandbox

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/kernel/pathname"
)

// Options are the parameters of a sandbox.
type Options struct {
	ID        string
	Args      []string // Args[0] is absolute
	Workspace string   // absolute, or ""
	ReadOnly  bool     // the workspace, and Further
	// Further are directories that are mounted like the workspace. Dir is where the command
	// starts: the workspace, or with "" the home.
	Further  []string
	Dir      string
	Volumes  []Volume
	UID, GID uint32
	User     string // the user's name
	Home     string // absolute
	// HomeImage is the file with the home's file system; with "" the home is a tmpfs.
	HomeImage string
	Terminal  bool
	Term      string   // $TERM
	Env       []string // further variables
	Tighten   map[string]string
	// Directories are file systems of their own on this machine, such as a separate /usr.
	Directories []string
	// Root is the root file system, "/" by default. Without root of the machine it is a directory
	// with empty ones, for Directories.
	Root string
	// UIDs and GIDs map the jail's ids; nil leaves it to agentjail.
	UIDs, GIDs []specs.LinuxIDMapping
}

// A Volume is a further mount. Both paths are absolute.
type Volume struct {
	Source, Destination string
	ReadOnly            bool
	// Part reports that it is what a program of the machine's needs, at its own path.
	Part bool
}

// Parts are the mounts that belong to the machine's file tree as the root does, in which no file is
// the jail's.
func (o Options) Parts() []string {
	out := slices.Clone(o.Directories)
	for _, v := range o.Volumes {
		if v.Part {
			out = append(out, v.Destination)
		}
	}
	return out
}

// ParseVolume reads SRC:DST[:ro|rw]. SRC may be relative to this process's directory.
func ParseVolume(text string) (v Volume, err error) {
	parts := strings.Split(text, ":")
	if len(parts) == 3 && (parts[2] == "ro" || parts[2] == "rw") {
		v.ReadOnly, parts = parts[2] == "ro", parts[:2]
	}
	if len(parts) != 2 || parts[0] == "" {
		return v, fmt.Errorf("%q is not SRC:DST, SRC:DST:ro or SRC:DST:rw", text)
	}
	if v.Source, err = filepath.Abs(parts[0]); err != nil {
		return v, fmt.Errorf("%q: %w", text, err)
	}
	if v.Destination = filepath.Clean(parts[1]); !filepath.IsAbs(v.Destination) || v.Destination == "/" {
		return v, fmt.Errorf("%q: %s must be an absolute path below /", text, parts[1])
	}
	return v, nil
}

// Path is $PATH in a sandbox.
const Path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/go/bin"

// OnHost returns the place on the host of a path in the sandbox.
func (o Options) OnHost(path string) string {
	for _, v := range slices.Backward(o.Volumes) {
		if rest, ok := strings.CutPrefix(path, v.Destination); ok && (rest == "" || rest[0] == '/') {
			return v.Source + rest
		}
	}
	return path
}

// hidden are directories of the host that are empty in a sandbox, with their modes: they hold
// private data of services and users, or policy. In the last one are files of the jail's own.
var hidden = []struct {
	path, mode string
}{
	{"/tmp", "1777"},
	{"/var/tmp", "1777"},
	{"/run", "0755"},
	{"/home", "0755"},
	{"/root", "0700"},
	{"/mnt", "0755"},
	{"/media", "0755"},
	{"/boot", "0755"},
	{"/etc/agentjail", "0755"},
}

// Hides reports whether a path of the host lies in a directory that is empty in a sandbox.
func Hides(path string) bool {
	for _, h := range hidden {
		if under(path, h.path) {
			return true
		}
	}
	return false
}

// Mounts reports whether a sandbox has a file system of the kernel's at a directory of the root.
func Mounts(path string) bool { return under(path, "/proc", "/dev", "/sys") }

// Spec is the incoming spec, to be hardened like any other.
func Spec(o Options, exists func(string) bool) (*specs.Spec, error) {
	if len(o.Args) == 0 || !filepath.IsAbs(o.Args[0]) {
		return nil, fmt.Errorf("the command %q is not an absolute path", o.Args)
	}
	cwd := cmp.Or(o.Dir, o.Workspace, o.Home)
	mounts, err := o.mounts(exists)
	if err != nil {
		return nil, err
	}
	env := []string{
		"PATH=" + Path,
		"HOME=" + o.Home, "USER=" + o.User, "LOGNAME=" + o.User, "LANG=C.UTF-8", "container=agentjail",
	}
	if o.Terminal && o.Term != "" {
		env = append(env, "TERM="+o.Term)
	}
	return &specs.Spec{
		Version:  "1.0.2",
		Hostname: "agentjail",
		Root:     &specs.Root{Path: cmp.Or(o.Root, "/")},
		Process: &specs.Process{
			Terminal: o.Terminal, Args: o.Args, Cwd: cwd, Env: override(env, o.Env),
			User: specs.User{UID: o.UID, GID: o.GID},
		},
		Mounts:      mounts,
		Annotations: o.Tighten,
		Linux: &specs.Linux{
			CgroupsPath: o.cgroupsPath(),
			// As engines set it: the network namespace is the jail's own, and no capability is
			// granted for its ports.
			Sysctl: map[string]string{"net.ipv4.ip_unprivileged_port_start": "0"},
			Namespaces: []specs.LinuxNamespace{
				{Type: specs.PIDNamespace},
				{Type: specs.NetworkNamespace},
				{Type: specs.IPCNamespace},
				{Type: specs.UTSNamespace},
				{Type: specs.MountNamespace},
				{Type: specs.UserNamespace},
				{Type: specs.CgroupNamespace},
			},
			UIDMappings:   o.UIDs,
			GIDMappings:   o.GIDs,
			MaskedPaths:   []string{"/proc/kcore"},
			ReadonlyPaths: []string{"/proc/sys"},
		},
	}, nil
}

// cgroupsPath is the jail's control group; "" leaves it in the caller's.
func (o Options) cgroupsPath() string {
	if o.Root != "" {
		return ""
	}
	return "/agentjail-" + o.ID
}

// mounts returns the spec's mounts in their order. exists reports whether a directory exists.
func (o Options) mounts(exists func(string) bool) ([]specs.Mount, error) {
	mounts := []specs.Mount{
		{Destination: "/proc", Type: "proc", Source: "proc", Options: []string{"nosuid", "noexec", "nodev"}},
		{Destination: "/dev", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "strictatime", "mode=755", "size=65536k"}},
		{
			Destination: "/dev/pts", Type: "devpts", Source: "devpts",
			Options: []string{"nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"},
		},
		{Destination: "/dev/shm", Type: "tmpfs", Source: "shm", Options: []string{"nosuid", "noexec", "nodev", "mode=1777"}},
		{Destination: "/dev/mqueue", Type: "mqueue", Source: "mqueue", Options: []string{"nosuid", "noexec", "nodev"}},
		{Destination: "/sys", Type: "sysfs", Source: "sysfs", Options: []string{"nosuid", "noexec", "nodev", "ro"}},
	}
	bind := "bind"
	if o.Root != "" {
		bind = "rbind" // a user namespace has none of them without what is mounted below (mount_namespaces(7))
	}
	for _, f := range o.Directories {
		mounts = append(mounts, specs.Mount{Destination: f, Type: "bind", Source: f, Options: []string{bind, "ro"}})
	}
	for _, h := range hidden {
		if exists(h.path) {
			mounts = append(mounts, tmpfs(h.path, "mode="+h.mode))
		}
	}
	if o.Home != "" {
		if !under(o.Home, "/home", "/root", "/tmp") {
			return nil, fmt.Errorf("the home directory %s is in none of the directories that a sandbox has of its own", o.Home)
		}
		home := tmpfs(o.Home, "mode=0700", fmt.Sprintf("uid=%d", o.UID), fmt.Sprintf("gid=%d", o.GID))
		if o.HomeImage != "" {
			home = specs.Mount{Destination: o.Home, Type: "bind", Source: o.HomeImage, Options: []string{"bind"}}
		}
		mounts = append(mounts, home)
	}
	var binds []Volume
	for _, dir := range append([]string{o.Workspace}, o.Further...) {
		if dir != "" {
			binds = append(binds, Volume{Source: dir, Destination: dir, ReadOnly: o.ReadOnly})
		}
	}
	for _, v := range append(binds, o.Volumes...) {
		opts := []string{"rbind"}
		if v.ReadOnly {
			opts = append(opts, "ro")
		}
		mounts = append(mounts, specs.Mount{Destination: v.Destination, Type: "bind", Source: v.Source, Options: opts})
	}
	return mounts, nil
}

// override adds variables in place of those of the same name: getenv(3) returns the first.
func override(env, more []string) []string {
	for _, e := range more {
		name, _, _ := strings.Cut(e, "=")
		env = slices.DeleteFunc(env, func(had string) bool { return strings.HasPrefix(had, name+"=") })
		env = append(env, e)
	}
	return env
}

func tmpfs(at string, opts ...string) specs.Mount {
	return specs.Mount{Destination: at, Type: "tmpfs", Source: "tmpfs", Options: append([]string{"nosuid", "nodev"}, opts...)}
}

func under(path string, dirs ...string) bool {
	return slices.ContainsFunc(dirs, func(d string) bool { return pathname.Within(path, d) })
}
