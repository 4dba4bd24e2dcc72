package protect

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/mountinfo"
	"agentjail.dev/runtime/kernel/openat"
	"agentjail.dev/runtime/kernel/pathname"
	"agentjail.dev/runtime/kernel/unixsocket"
)

// IsReachable reports whether policy leaves the socket or pipe at a path of the host to jails. It,
// or a directory that it lies in, fits one of the patterns (pathname.Fits).
func IsReachable(patterns []string, at string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return pathname.Fits(p+"/**", at) })
}

// MayReachIn reports whether one of the patterns can stand for a path below a directory.
func MayReachIn(patterns []string, dir string) bool {
	parts := strings.Split(dir, "/")
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		for i, p := range strings.Split(pattern, "/") {
			if p == "**" || i == len(parts) {
				return true
			}
			if ok, err := path.Match(p, parts[i]); !ok || err != nil {
				return false
			}
		}
		return true // it stands for the directory, or for one above
	})
}

// isEndpoint reports whether a type of file (DT_SOCK and so on) has a process at its other end.
func isEndpoint(typ byte) bool { return typ == unix.DT_SOCK || typ == unix.DT_FIFO }

// passes reports whether the search for endpoints goes into a directory that the host runs nothing
// of. Those that package managers make as a whole, and git's objects, have none but sockets, which
// coverBound finds.
func (s *search) passes(name string, r region) bool {
	return s.o.Endpoints && (s.deep || !slices.Contains(rebuilt, name) && (r.protect || s.o.Tree || name != "objects"))
}

// endpoint covers a socket that listens, or a pipe, which always has to count as one that a process
// waits at: no call shows that without waking it. It reports whether the name is one of these.
func (s *search) endpoint(rel string, typ byte) bool {
	if !s.o.Endpoints || !isEndpoint(typ) || typ == unix.DT_FIFO && (s.deep || s.o.OfPod) ||
		IsReachable(s.o.Reachable, s.onHost(rel)) {
		return false
	}
	why := "a process of the host can be at its other end"
	if typ == unix.DT_SOCK {
		fd, err := s.open(rel, unix.O_PATH)
		if err != nil {
			return false // gone, or not to be reached
		}
		defer unix.Close(fd)
		var st unix.Stat_t
		if unix.Fstat(fd, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFSOCK || !unixsocket.Listens(fd) ||
			s.o.Shared && !s.ofHost(st.Ino) {
			return false
		}
		s.sockets[uint32(st.Ino)] = true
		why = "a process of the host listens at it"
	}
	p := Path{Rel: rel, Treatment: Covered, Why: why}
	if i, ok := s.seen[rel]; ok && s.found.Paths[i].Treatment == ReadOnly {
		s.found.Paths[i] = p // a link or a setting leads to it
	}
	s.add(p)
	return true
}

// boundSockets lists the sockets of the host's network namespace, once for a search.
func (s *search) boundSockets() ([]unixsocket.Bound, error) {
	if s.bound == nil {
		list, err := unixsocket.List()
		if err != nil {
			return nil, fmt.Errorf("listing the host's sockets: %w", err)
		}
		s.bound = append([]unixsocket.Bound{}, list...)
	}
	return s.bound, nil
}

// ofHost reports whether a socket's file is bound in the host's network namespace.
func (s *search) ofHost(ino uint64) bool {
	list, err := s.boundSockets()
	return err != nil || slices.ContainsFunc(list, func(b unixsocket.Bound) bool { return b.Ino == 0 || b.Ino == uint32(ino) })
}

// coverBound covers the bound sockets of the host's that the search has not met: those in
// directories that it does not go into. Where the name of one does not show its place, and its file
// system is one of the tree's, the search goes into those, too.
func (s *search) coverBound() error {
	if !s.o.Endpoints {
		return nil
	}
	list, err := s.boundSockets()
	if err != nil {
		return err
	}
	lost, own := false, mountID(unix.AT_FDCWD, s.o.Source)
	var devs []string
	for _, b := range list {
		if b.Ino != 0 && s.sockets[b.Ino] {
			continue
		}
		at, mount, found := placeOf(b)
		if rel, in := pathname.Rel(at, s.o.Source); in && found {
			s.endpoint(rel, unix.DT_SOCK)
			continue
		}
		// Another mount can show the same file.
		if found && mount == own || b.Dev == "" {
			continue
		}
		if devs == nil {
			if devs, err = devicesOf(s.o.Source); err != nil {
				return err
			}
		}
		lost = lost || slices.Contains(devs, b.Dev)
	}
	if !lost || s.o.NoWalk {
		return nil
	}
	s.deep = true
	for _, rel := range s.skipped {
		fd, err := s.open(rel, unix.O_RDONLY|unix.O_DIRECTORY)
		if gone(err) {
			continue
		}
		if err == nil {
			_, err = s.dir(fd, rel, region{}, strings.Count(rel, "/"))
		}
		if err != nil || s.met != "" {
			return err
		}
	}
	return nil
}

// placeOf returns the kernel's path of a bound socket's file, and the mount that it is in. found is
// false where the name leads to no file, or to another, or the file has a further name.
func placeOf(b unixsocket.Bound) (at string, mount uint64, found bool) {
	if !path.IsAbs(b.Name) {
		return "", 0, false
	}
	fd, err := unix.Open(b.Name, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", 0, false
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFSOCK || b.Ino != 0 && uint32(st.Ino) != b.Ino || st.Nlink != 1 {
		return "", 0, false
	}
	at, err = openat.Name(fd)
	return at, mountID(fd, ""), err == nil
}

// mountID returns the number of the mount that a file is in (statx(2), Linux 5.8); 0 where the
// kernel does not report it.
func mountID(dir int, name string) uint64 {
	var st unix.Statx_t
	if unix.Statx(dir, name, unix.AT_EMPTY_PATH, unix.STATX_MNT_ID, &st) != nil {
		return 0
	}
	return st.Mnt_id
}

// devicesOf lists the file systems of a directory and of the mounts below it.
func devicesOf(dir string) (devs []string, err error) {
	mounts, err := mountinfo.Read(mountinfo.OfThread)
	if err != nil {
		return nil, err
	}
	holds := -1
	for i := range mounts {
		switch m := &mounts[i]; {
		case pathname.Below(m.Point, dir):
			devs = append(devs, m.Dev)
		case pathname.Within(dir, m.Point) && (holds < 0 || len(m.Point) >= len(mounts[holds].Point)):
			holds = i
		}
	}
	if holds >= 0 {
		devs = append(devs, mounts[holds].Dev)
	}
	return devs, nil
}

// Listening finds sockets of the host's that listen in a directory and came since a moment.
func (a *arrivals) listening(source string) {
	list, err := unixsocket.List()
	if err != nil {
		a.out.Short = "reading the host's sockets: " + err.Error()
		return
	}
	for _, b := range list {
		if at, _, found := placeOf(b); found {
			if rel, in := pathname.Rel(at, source); in && a.changed(rel) {
				a.add(Listener, rel, "a process of the host listens at it, and the jail could connect to it")
			}
		}
	}
}

// IsEndpoint reports whether a file of that mode is a socket or a pipe, which Covered covers.
func IsEndpoint(mode uint32) bool { return isEndpoint(kind(mode)) }

// Gone reports that a name is not there any more, or not to be looked into.
func Gone(err error) bool { return gone(err) }
