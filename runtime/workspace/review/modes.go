package review

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/accountfile"
	"agentjail.dev/runtime/kernel/openat"
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

// maxAccounts bounds the reads of the host's users and groups, in bytes.
const maxAccounts = 4 << 20

// isPrivate reports whether a group has no other member than the directory's owner, as on a host
// with a group for each user (USERGROUPS_ENAB in login.defs(5)), where files are writable by it.
func (w *walker) isPrivate(gid uint32) bool {
	private, known := w.private[gid]
	if known {
		return private
	}
	var names []string // of the owner
	number := strconv.FormatUint(uint64(gid), 10)
	private = gid == w.owner
	others := false
	passwd, _ := openat.Head("/etc/passwd", maxAccounts)
	for f := range accountfile.Entries(string(passwd), 4) {
		switch uid := f[2]; {
		case uid == strconv.FormatUint(uint64(w.owner), 10):
			names = append(names, f[0])
			private = private || f[3] == number
		case f[3] == number && uid != "0":
			others = true
		}
	}
	group, _ := openat.Head("/etc/group", maxAccounts)
	for f := range accountfile.Entries(string(group), 4) {
		if f[2] != number {
			continue
		}
		for name := range strings.SplitSeq(f[3], ",") {
			others = others || name != "" && name != "root" && !slices.Contains(names, name)
		}
	}
	w.private[gid] = private && !others
	return w.private[gid]
}
