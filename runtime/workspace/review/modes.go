package review

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/accountfile"
	"agentjail.dev/runtime/kernel/openat"
	"agentjail.dev/runtime/kernel/users"
)

// Modes is how a change alters the permissions of a file that stays, as "0755 → 0777"; "" for no
// change of them.
func (c *Change) Modes() string {
	if c.OldPerm == "" {
		return ""
	}
	return c.OldPerm + " → " + c.Perm
}

// perm is a mode's permissions in octal digits; "" for a link, whose mode counts for nothing.
func perm(mode uint32) string {
	if typeOf(mode) == Link {
		return ""
	}
	return fmt.Sprintf("%04o", mode&0o777)
}

// writers returns who else can write to what a change makes, and could not before: "" for none. gid
// is the group's.
func (w *walker) writers(c *Change, gid uint32) string {
	if c.Kind == Deleted || c.Type == Link || c.Type == Special {
		return ""
	}
	bits := c.New.Mode
	if c.Old.Ino != 0 && c.Kind != Type {
		bits &^= c.Old.Mode
	}
	switch {
	case bits&unix.S_IWOTH != 0:
		return "every user may write to it"
	case bits&unix.S_IWGRP != 0 && !w.isPrivate(gid):
		return fmt.Sprintf("the group %d may write to it", gid)
	}
	return ""
}

// maxGroups bounds the read of group(5), in bytes.
const maxGroups = 4 << 20

// isPrivate reports whether a group has no other member than the directory's owner, as on a host
// with a group for each user (USERGROUPS_ENAB in login.defs(5)), where files are writable by it.
func (w *walker) isPrivate(gid uint32) bool {
	private, known := w.private[gid]
	if known {
		return private
	}
	private = gid == w.owner
	members := []string{"", "root"}
	for _, u := range w.users() {
		if u.UID == w.owner {
			private, members = private || u.GID == gid, append(members, u.Name)
		}
	}
	others := slices.ContainsFunc(w.users(), func(u users.User) bool { return u.GID == gid && u.UID != w.owner && u.UID != 0 })
	text, _ := openat.Head("/etc/group", maxGroups)
	for f := range accountfile.Entries(string(text), 4) {
		others = others || f[2] == strconv.FormatUint(uint64(gid), 10) &&
			slices.ContainsFunc(strings.Split(f[3], ","), func(name string) bool { return !slices.Contains(members, name) })
	}
	w.private[gid] = private && !others
	return w.private[gid]
}
