package changes

import (
	"fmt"
	"os"
	"path"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/filetime"
	"agentjail.dev/runtime/kernel/overlayfs"
)

// Bounds limit the search of a directory of the host's: the jail chooses its content, and must
// not delay its own removal.
type Bounds struct {
	Entries int       // names that are looked at
	Names   int       // names that are listed
	Until   time.Time // when the look ends
}

// Share is the part of the bounds for one of n directories, which are searched one after the
// other.
func (b Bounds) Share(now time.Time, n int) Bounds {
	return Bounds{b.Entries / n, b.Names / n, now.Add(b.Until.Sub(now) / time.Duration(n))}
}

// Less is the rest of the bounds after a search.
func (b Bounds) Less(r *Recent) Bounds {
	b.Entries, b.Names = b.Entries-r.Entries, b.Names-len(r.Names)
	return b
}

// Recent are the changes in a directory of the host's since a moment, by any process.
type Recent struct {
	// Names are sorted paths below the directory, beginning with a slash; those of directories
	// end with one. A directory counts as changed when a name in it was made, removed or
	// replaced.
	Names []string
	// Changed is how many were changed, listed or not, and Entries how many were looked at.
	Changed, Entries int
	// Short reports why not all were looked at; "" where they were.
	Short string
}

// longest bounds a path below the directory, in bytes. The journal truncates text at the same
// length.
const longest = 1024

// Since finds the changes below a directory since a moment: a file's time of change (ctime,
// inode(7)) is later, which only the kernel sets. Directories in which names have changed come
// first, then those nearer to the root. Links are not followed, and mounts below are left out.
// root is a directory or a regular file.
func Since(root *os.File, moment time.Time, b Bounds) *Recent {
	s := &since{root: int(root.Fd()), moment: moment, bounds: b, out: new(Recent)}
	s.see(s.root, "", "", ".")
	for s.out.Short == "" {
		from := &s.likely
		if len(*from) == 0 {
			from = &s.queue
		}
		if len(*from) == 0 {
			break
		}
		dir := (*from)[0]
		*from = (*from)[1:]
		s.read(dir)
	}
	slices.Sort(s.out.Names)
	return s.out
}

type since struct {
	root   int
	moment time.Time
	bounds Bounds
	out    *Recent
	// likely are directories that were not read yet and have changed, and queue all others.
	likely, queue []string
}

// perRead is how many names are read for one look at the clock.
const perRead = 128

// read examines the names of a directory. A removed or unreadable directory has none.
func (s *since) read(dir string) {
	if s.late() {
		return
	}
	fd, err := overlayfs.Beneath(s.root, dir, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return
	}
	f := os.NewFile(uintptr(fd), dir)
	defer f.Close()
	for !s.late() {
		names, err := f.Readdirnames(perRead)
		for _, name := range names {
			if s.late() {
				return
			}
			at := path.Join(dir, name)
			s.see(fd, name, "/"+at, at)
		}
		if err != nil {
			return
		}
	}
}

// late reports whether a bound is reached, and records which.
func (s *since) late() bool {
	switch {
	case s.out.Entries >= s.bounds.Entries:
		s.out.Short = fmt.Sprintf("after %d files", s.out.Entries)
	case time.Now().After(s.bounds.Until):
		s.out.Short = fmt.Sprintf("for want of time, after %d files", s.out.Entries)
	}
	return s.out.Short != ""
}

// see examines one name of an open directory, or with "" the opened file itself, and queues a
// directory, which is at rel.
func (s *since) see(dir int, name, shown, rel string) {
	s.out.Entries++
	// Cached values of the kernel are enough: no server is contacted, and nothing is automounted.
	flags := unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT | unix.AT_STATX_DONT_SYNC
	if name == "" {
		flags |= unix.AT_EMPTY_PATH
	}
	var st unix.Statx_t
	if unix.Statx(dir, name, flags, unix.STATX_TYPE|unix.STATX_CTIME, &st) != nil ||
		name != "" && st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0 {
		return
	}
	changed := filetime.After(st.Ctime, s.moment)
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		shown += "/"
		switch {
		case len(rel) > longest:
			s.out.Short = fmt.Sprintf("at a path of more than %d bytes", longest)
		case changed:
			s.likely = append(s.likely, rel)
		default:
			s.queue = append(s.queue, rel)
		}
	}
	if changed {
		s.out.Changed++
		if len(s.out.Names) < s.bounds.Names {
			s.out.Names = append(s.out.Names, shown)
		}
	}
}
