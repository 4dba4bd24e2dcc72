package plan

import "slices"

// mountFlags tighten a mount, or have nothing to do with trust (mount(8); OCI runtime-spec
// config.md, Linux mount options).
var mountFlags = []string{
	"ro", "nosuid", "nodev", "noexec", "nosymfollow", "noatime", "nodiratime", "relatime", "strictatime", "sync", "dirsync",
	"rro", "rnosuid", "rnodev", "rnoexec", "rnosymfollow", "rnoatime", "rnodiratime", "rrelatime", "rstrictatime",
}

// MountFlags are the mount options that every mount of a jail may have.
func MountFlags() []string { return slices.Clone(mountFlags) }

// MountOptions are the mount options that jails take, sorted: MountFlags, and what bind mounts or
// tmpfs may have. A jail's read-only mounts are so with all that is mounted below them, so that ro
// does what rro does.
func MountOptions() []string {
	out := slices.Concat(mountFlags, []string{"bind", "rbind", "private", "rprivate", "rw", "tmpcopyup"})
	slices.Sort(out)
	return out
}
