package protect

import (
	"errors"
	"fmt"
	"os"
	"path"
	"slices"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/idmap"
	"agentjail.dev/runtime/kernel/openat"
)

// Others is what other users than a directory's owner have in it.
type Others struct {
	Any bool // there is something
	// Open are what a user without rights of their own, or the owner by the group, may write to.
	// Of directories, the outermost are listed.
	Open []OpenFile
}

// An OpenFile is one of Others.
type OpenFile struct {
	Rel      string // below the directory
	Dev, Ino uint64
}

// The bounds of FindOthers. In the first glance names something of others' has to be met.
const (
	glance  = 10_000
	maxOpen = 500
	aclAttr = "system.posix_acl_access"
)

// FindOthers looks for files with ids that a mount's mapping, from ids on the disk, does not have.
// An error is the reason why not all that is open was found.
func FindOthers(root *os.File, known idmap.Map) (o Others, err error) {
	var top unix.Stat_t
	if err := unix.Fstat(int(root.Fd()), &top); err != nil {
		return o, err
	}
	t, names, buf := tree{root: root}, 0, make([]byte, 32<<10)
	var later []string // directories that tools make as a whole: they have the most names
	for dirs := []string{"."}; len(dirs) > 0 && (o.Any || names < glance); {
		dir := dirs[0]
		fd, err := t.open(dir, unix.O_RDONLY|unix.O_DIRECTORY)
		switch dirs = dirs[1:]; {
		case moved(err):
		case errors.Is(err, unix.EXDEV):
			return o, fmt.Errorf("%s is a mount of its own", dir)
		case err != nil:
			return o, err
		default:
			l := list(fd, buf, DefaultLimits.Entries, func(name []byte, _ byte) bool {
				return o.see(fd, dir, string(name), top.Dev, known)
			})
			unix.Close(fd)
			if names += l.read; l.err != nil && !moved(l.err) {
				return o, fmt.Errorf("%s: %w", dir, l.err)
			}
			for _, d := range l.names {
				switch at := below(dir, d.name); {
				case d.typ != unix.DT_DIR:
				case slices.Contains(rebuilt, path.Base(at)):
					later = append(later, at)
				default:
					dirs = append(dirs, at)
				}
			}
		}
		switch {
		case names > DefaultLimits.Entries:
			return o, fmt.Errorf("there are more than %d names", DefaultLimits.Entries)
		case len(o.Open) > maxOpen:
			return o, fmt.Errorf("every user may write to more than %d of them, as to %s", maxOpen, o.Open[0].Rel)
		case len(dirs) == 0:
			dirs, later = later, nil
		}
	}
	return o, nil
}

// see notes a file of a directory, and reports whether it is a directory to be looked into. Of what
// is mounted there, the mount's own owner does not count.
func (o *Others) see(fd int, dir, name string, dev uint64, known idmap.Map) bool {
	var st unix.Stat_t
	if unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return false // gone meanwhile
	}
	_, own := known.HostUID(st.Uid)
	_, group := known.HostGID(st.Gid)
	o.Any = o.Any || st.Dev == dev && (!own || !group)
	if own || !isOpen(fd, name, &st, group) {
		return st.Mode&unix.S_IFMT == unix.S_IFDIR
	}
	o.Open = append(o.Open, OpenFile{below(dir, name), st.Dev, st.Ino})
	return false
}

// isOpen reports whether a user of a mapped group, or without any, may write to another's file. An
// access control list shows in the group's bits (acl(5)), and may name the owner of the directory.
func isOpen(dir int, name string, st *unix.Stat_t, group bool) bool {
	switch {
	case st.Mode&unix.S_IFMT == unix.S_IFLNK:
		return false
	case st.Mode&unix.S_IWOTH != 0, st.Mode&unix.S_IWGRP != 0 && group:
		return true
	case st.Mode&unix.S_IWGRP == 0:
		return false
	}
	fd, err := unix.Openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return true
	}
	defer unix.Close(fd)
	_, err = unix.Getxattr(openat.Proc(fd), aclAttr, nil)
	return err != unix.ENODATA && err != unix.EOPNOTSUPP
}
