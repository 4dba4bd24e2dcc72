// Package sandbox makes the bundle of `agentjail sandbox`: a command over this
// machine's own file tree, without an engine or an image.
package sandbox

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"
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
	UID, GID uint32
	User     string // the user's name
	Home     string // absolute
	Terminal bool
	Term     string   // $TERM
	Env      []string // further variables
	Tighten  map[string]string
	// Directories are file systems of their own on this machine that hold programs,
	// such as a separate /usr.
	Directories []string
}

// hidden are directories of the host that are empty in a sandbox, with their modes: they hold
// private data of services and users.
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
}

// Spec is the incoming spec, to be hardened like any other.
func Spec(o Options, exists func(string) bool) (*specs.Spec, error) {
	if len(o.Args) == 0 || !filepath.IsAbs(o.Args[0]) {
		return nil, fmt.Errorf("the command %q is not an absolute path", o.Args)
	}
	cwd := cmp.Or(o.Dir, o.Workspace, o.Home)
	mounts := []specs.Mount{
		{Destination: "/proc", Type: "proc", Source: "proc", Options: []string{"nosuid", "noexec", "nodev"}},
		{Destination: "/dev", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "strictatime", "mode=755", "size=65536k"}},
		{Destination: "/dev/pts", Type: "devpts", Source: "devpts", Options: []string{"nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"}},
		{Destination: "/dev/shm", Type: "tmpfs", Source: "shm", Options: []string{"nosuid", "noexec", "nodev", "mode=1777"}},
		{Destination: "/dev/mqueue", Type: "mqueue", Source: "mqueue", Options: []string{"nosuid", "noexec", "nodev"}},
		{Destination: "/sys", Type: "sysfs", Source: "sysfs", Options: []string{"nosuid", "noexec", "nodev", "ro"}},
	}
	for _, f := range o.Directories {
		mounts = append(mounts, specs.Mount{Destination: f, Type: "bind", Source: f, Options: []string{"bind", "ro"}})
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
		mounts = append(mounts, tmpfs(o.Home, "mode=0700", fmt.Sprintf("uid=%d", o.UID), fmt.Sprintf("gid=%d", o.GID)))
	}
	for _, dir := range append([]string{o.Workspace}, o.Further...) {
		if dir == "" {
			continue
		}
		opts := []string{"rbind"}
		if o.ReadOnly {
			opts = append(opts, "ro")
		}
		mounts = append(mounts, specs.Mount{Destination: dir, Type: "bind", Source: dir, Options: opts})
	}
	env := []string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/go/bin",
		"HOME=" + o.Home, "USER=" + o.User, "LOGNAME=" + o.User, "LANG=C.UTF-8", "container=agentjail",
	}
	if o.Terminal && o.Term != "" {
		env = append(env, "TERM="+o.Term)
	}
	return &specs.Spec{
		Version:  "1.0.2",
		Hostname: "agentjail",
		Root:     &specs.Root{Path: "/"},
		Process: &specs.Process{
			Terminal: o.Terminal, Args: o.Args, Cwd: cwd, Env: append(env, o.Env...),
			User: specs.User{UID: o.UID, GID: o.GID},
		},
		Mounts:      mounts,
		Annotations: o.Tighten,
		Linux: &specs.Linux{
			CgroupsPath: "/agentjail-" + o.ID,
			// As engines set it: the network namespace is the jail's own, and no capability is
			// granted for its ports.
			Sysctl: map[string]string{"net.ipv4.ip_unprivileged_port_start": "0"},
			Namespaces: []specs.LinuxNamespace{
				{Type: specs.PIDNamespace}, {Type: specs.NetworkNamespace}, {Type: specs.IPCNamespace},
				{Type: specs.UTSNamespace}, {Type: specs.MountNamespace}, {Type: specs.UserNamespace}, {Type: specs.CgroupNamespace},
			},
			MaskedPaths:   []string{"/proc/kcore"},
			ReadonlyPaths: []string{"/proc/sys"},
		},
	}, nil
}

func tmpfs(at string, opts ...string) specs.Mount {
	return specs.Mount{Destination: at, Type: "tmpfs", Source: "tmpfs", Options: append([]string{"nosuid", "nodev"}, opts...)}
}

func under(path string, dirs ...string) bool {
	for _, d := range dirs {
		if path == d || strings.HasPrefix(path, d+"/") {
			return true
		}
	}
	return false
}
