package bindsource

import (
	"errors"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/openat"
)

// SetIDLimits bound the search for set-id programs. None is a time, so that other work on the
// machine does not change the result.
type SetIDLimits struct {
	Entries, Depth int
}

// ReportSetID and RefuseSetID are the limits where policy reports set-id programs, and where it
// refuses them. In the latter case a search that meets a limit refuses, too.
var (
	ReportSetID = SetIDLimits{Entries: 2000, Depth: 8}
	RefuseSetID = SetIDLimits{Entries: 3_000_000, Depth: 128}
)

// firstUser is the first id of people's (login.defs(5), UID_MIN): below it are
// the system's own accounts and groups.
const firstUser = 1000

// OwnerMatters reports whether a program that runs as the directory's owner, or group, has more
// rights than the person who owns the directory.
func (f Fact) OwnerMatters() bool {
	return !f.Rootless && !f.IsEngines() && f.Kind == Dir && (f.UID < firstUser || f.GID < firstUser)
}

// FindSetID looks for programs below a source that run as its owner or its group (inode(7)), and
// reports where it stopped early. A jail that may write such a program as its owner can change it
// through a shared mapping, and the kernel leaves the bits: only write(2) removes them.
func (s *Source) FindSetID(l SetIDLimits) {
	type dir struct {
		rel   string
		depth int
	}
	seen := 0
	buf := make([]byte, 16<<10)
	for queue := []dir{{".", 0}}; len(queue) > 0; queue = queue[1:] {
		fd, err := openat.Open(int(s.File.Fd()), queue[0].rel, openat.Beneath, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOATIME)
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
			continue // replaced meanwhile
		}
		if err != nil {
			s.SetIDGaveUp = true
			continue
		}
		for {
			n, err := unix.Getdents(fd, buf)
			if err == unix.EINTR {
				continue
			}
			s.SetIDGaveUp = s.SetIDGaveUp || err != nil && err != unix.ENOENT
			if n <= 0 || err != nil {
				break
			}
			_, _, names := unix.ParseDirent(buf[:n], -1, nil)
			for _, name := range names {
				if seen++; seen > l.Entries {
					s.SetIDGaveUp = true
					unix.Close(fd)
					return
				}
				var st unix.Stat_t
				if unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
					continue
				}
				rel := path.Join(queue[0].rel, name)
				switch {
				case st.Mode&unix.S_IFMT == unix.S_IFDIR && queue[0].depth < l.Depth:
					queue = append(queue, dir{rel, queue[0].depth + 1})
				case st.Mode&unix.S_IFMT == unix.S_IFDIR:
					s.SetIDGaveUp = true
				case s.runsAsOwner(&st):
					s.SetID = append(s.SetID, rel)
				}
			}
		}
		unix.Close(fd)
	}
}

// runsAsOwner reports whether a file runs as the source's owner or group for every user who runs
// it.
func (f Fact) runsAsOwner(st *unix.Stat_t) bool {
	if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Uid != f.UID { // another's cannot be written
		return false
	}
	return st.Mode&unix.S_ISUID != 0 && st.Mode&0o111 != 0 || st.Mode&unix.S_ISGID != 0 && st.Mode&0o010 != 0
}

// SetIDText names them in a line.
func (f Fact) SetIDText() string {
	const most = 5
	names := f.SetID[:min(len(f.SetID), most)]
	text := strings.Join(names, ", ")
	if len(f.SetID) > most {
		text += " and others"
	}
	return text
}
