package guest

import (
	"slices"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/jailinit"
	"agentjail.dev/runtime/kernel/landlock"
)

// Rights by the version of Landlock that brought them (landlock(7)).
const (
	writes = unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE |
		unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK |
		unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_SYM | unix.LANDLOCK_ACCESS_FS_REFER |
		unix.LANDLOCK_ACCESS_FS_TRUNCATE
	never = unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK
	// resolveUnix is LANDLOCK_ACCESS_FS_RESOLVE_UNIX (Linux 7.1): connecting to a Unix socket at a
	// path that no process of the same domain made.
	resolveUnix = 1 << 16
	// ofFiles are those that a rule for a file may allow.
	ofFiles = unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV |
		resolveUnix
)

// confine enters a Landlock domain: a protection that no other depends on. Files are
// written on the jail's writable mounts only, no device file is made, ioctls go
// to the jail's own devices only, and mounts stay as they are, whatever
// capability a program might come by.
func confine(o *jailinit.Orders) error {
	l := &o.Landlock
	abi, err := landlock.ABI()
	if err != nil || abi < 2 {
		// Version 1 refuses every rename from one directory to another.
		if l.Required {
			return refusal("this kernel has no Landlock of version 2 or later, and policy requires it (landlock.required)")
		}
		return nil
	}
	attr := unix.LandlockRulesetAttr{Handled_access_fs: writes | never}
	if abi < 3 {
		attr.Handled_access_fs &^= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	if abi >= 4 && l.NoTCP {
		attr.Handled_access_net = unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
	}
	if abi >= 5 {
		attr.Handled_access_fs |= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	if abi >= 9 && l.NoSockets {
		attr.Handled_access_fs |= resolveUnix // each process of an engine's has a domain: not where the jail writes
	}
	if abi >= 6 && l.Scoped {
		attr.Scoped = scope(o)
	}
	fd, err := landlock.Create(&attr)
	if err != nil {
		return refusal("making a ruleset: " + err.Error())
	}
	defer unix.Close(fd)
	ms, err := table()
	if err != nil {
		return err
	}
	handled := attr.Handled_access_fs
	for i := range ms {
		m := &ms[i]
		// Below /proc and /sys there are masks, which need not be written.
		if m.ReadOnly() || inDir(m.Point, "/proc") || inDir(m.Point, "/sys") {
			continue
		}
		if err := allow(fd, m.Point, m.ID, handled&(writes|resolveUnix)); err != nil {
			return refusal("a rule for " + m.Point + ": " + err.Error())
		}
		if m.Point == "/" {
			break // rules hold for all below: the others would add nothing
		}
	}
	if handled&unix.LANDLOCK_ACCESS_FS_IOCTL_DEV != 0 {
		for _, p := range l.Devices {
			if err := allow(fd, p, "", unix.LANDLOCK_ACCESS_FS_IOCTL_DEV); err != nil {
				return refusal("a rule for " + p + ": " + err.Error())
			}
		}
	}
	if err := landlock.Restrict(fd); err != nil {
		return refusal("entering the domain: " + err.Error())
	}
	return nil
}

// scopes are the kinds of access that a domain can confine, by the namespace that does the same.
var scopes = []struct {
	namespace string
	scope     uint64
}{
	{"pid", unix.LANDLOCK_SCOPE_SIGNAL},
	{"net", unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET},
}

// scope returns the kinds of access that the domain confines: those that no namespace confines
// which the step has seen to differ from the host's. Where a namespace does, a scope would separate
// processes that are to reach each other: each process that a delegate starts has a domain of its
// own, also in containers that share their namespaces.
func scope(o *jailinit.Orders) (out uint64) {
	seen := !slices.Contains(o.Without, "namespaces")
	for _, s := range scopes {
		if !seen || !slices.ContainsFunc(o.Namespaces, func(n jailinit.Namespace) bool { return n.Name == s.namespace }) {
			out |= s.scope
		}
	}
	return out
}

// allow adds a rule for what is at path now, which must be of the mount with that id, if it is not
// empty: in a running jail a hostile process may have put a link in the way. A path that is gone,
// hidden or leads elsewhere gets no rule.
func allow(ruleset int, path, id string, rights uint64) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil //nolint:nilerr // less is allowed
	}
	defer unix.Close(fd)
	var st unix.Statx_t
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_TYPE|unix.STATX_MNT_ID, &st); err != nil {
		return err
	}
	// Linux 5.8 reports the mount.
	if id != "" && st.Mask&unix.STATX_MNT_ID != 0 && itoa(st.Mnt_id) != id {
		return nil
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		rights &= ofFiles
	}
	if rights == 0 || st.Mode&unix.S_IFMT == unix.S_IFLNK {
		return nil
	}
	return landlock.AllowBeneath(ruleset, &unix.LandlockPathBeneathAttr{Allowed_access: rights, Parent_fd: int32(fd)})
}
