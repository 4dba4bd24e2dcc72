package protect

import (
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/idmap"
	"agentjail.dev/runtime/kernel/openat"
)

// Others is what other users than a directory's owner have in it.
type Others struct {
	// Any reports that there is something.
	Any bool
	// Open are what a user without rights of their own, or the owner by the group, may write to.
	// Of directories, the outermost are listed.
	Open []OpenFile
}

// An OpenFile is one of Others.
type OpenFile struct {
	Rel      string // below the directory
	Dev, Ino uint64
}

// The bounds of FindOthers: in the first glance names, something of others' has to be met.
const (
	glance    = 20_000
	maxNames  = 3_000_000
	maxOpen   = 500
	maxLevels = 256
	aclAttr   = "system.posix_acl_access"
)

// FindOthers looks for files with ids that a mount's mapping, from ids on the disk, does not have.
// An error is the reason why not all that is open was found.
func FindOthers(root *os.File, known idmap.Map) (Others, error) {
	f := &finder{tree: tree{root: root}, known: known}
	var last []string // directories that tools make as a whole: they have the most names
	for level, dirs := 0, []string{"."}; len(dirs) > 0; level++ {
		next := make([][]string, len(dirs))
		parallel(len(dirs), func(i int) { next[i] = f.dir(dirs[i]) })
		switch {
		case f.err != nil, f.names > glance && !f.out.Any:
			return f.out, f.err
		case level == maxLevels:
			return f.out, fmt.Errorf("there are more than %d directories in each other", maxLevels)
		}
		dirs = nil
		for _, at := range slices.Concat(next...) {
			if slices.Contains(rebuilt, path.Base(at)) {
				last = append(last, at)
			} else {
				dirs = append(dirs, at)
			}
		}
		if len(dirs) == 0 {
			dirs, last = last, nil
		}
	}
	return f.out, nil
}

// A finder is one call of FindOthers.
type finder struct {
	tree
	known idmap.Map // from ids on the disk

	lock  sync.Mutex // of the fields below
	names int
	out   Others
	err   error
}

// dir looks at the files of a directory, and returns the directories in it for the next level.
func (f *finder) dir(rel string) (dirs []string) {
	fd, err := f.openDir(int(f.root.Fd()), rel, rel)
	if err != nil {
		f.lock.Lock()
		defer f.lock.Unlock()
		if errors.Is(err, unix.EXDEV) {
			err = fmt.Errorf("%s is a mount of its own", rel)
		}
		if !moved(err) {
			f.err = err
		}
		return nil
	}
	defer unix.Close(fd)
	var any bool
	var open []OpenFile
	var dir, st unix.Stat_t
	_ = unix.Fstat(fd, &dir)
	l := list(fd, make([]byte, 32<<10), maxNames, func(name []byte, _ byte) bool {
		if unix.Fstatat(fd, string(name), &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
			return false // gone meanwhile
		}
		if st.Dev != dir.Dev {
			return true // a mount
		}
		_, own := f.known.HostUID(st.Uid)
		_, group := f.known.HostGID(st.Gid)
		any = any || !own || !group
		if !own && isOpen(fd, string(name), &st, group) {
			open = append(open, OpenFile{below(rel, string(name)), st.Dev, st.Ino})
			return false
		}
		return st.Mode&unix.S_IFMT == unix.S_IFDIR
	})
	for _, d := range l.names {
		if d.typ == unix.DT_DIR {
			dirs = append(dirs, below(rel, d.name))
		}
	}
	f.lock.Lock()
	defer f.lock.Unlock()
	f.names += l.read
	f.out.Any = f.out.Any || any
	f.out.Open = append(f.out.Open, open...)
	switch {
	case l.err != nil && !errors.Is(l.err, unix.ENOENT):
		f.err = fmt.Errorf("%s: %w", rel, l.err)
	case f.names > maxNames:
		f.err = fmt.Errorf("there are more than %d names", maxNames)
	case len(f.out.Open) > maxOpen:
		f.err = fmt.Errorf("every user may write to more than %d of them, as to %s", maxOpen, f.out.Open[0].Rel)
	}
	return dirs
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
		return err != unix.ENOENT
	}
	defer unix.Close(fd)
	_, err = unix.Getxattr(openat.Proc(fd), aclAttr, nil)
	return err != unix.ENODATA && err != unix.EOPNOTSUPP
}
