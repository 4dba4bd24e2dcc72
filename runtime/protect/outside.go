package protect

import (
	"errors"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/gitrepo"
	"agentjail.dev/runtime/kernel/atomicfile"
	"agentjail.dev/runtime/kernel/openat"
	"agentjail.dev/runtime/protect/gitconfig"
)

// around looks for the repositories around the directory, as git does from a directory towards the
// root (setup_git_directory_gently), but beyond the first and across file systems: git may run in
// each of the directories.
func (s *search) around() error {
	if !s.o.Protect {
		return nil
	}
	for _, dir := range append([]string{s.o.Source}, s.o.Names...) {
		for dir != "/" {
			dir = path.Dir(dir)
			if _, err := (gitrepo.Host{}).Lstat(path.Join(dir, ".git")); err == nil {
				if err := s.gitAt(dir, ".git"); err != nil {
					return err
				}
			}
			if r, ok := gitrepo.Look(gitrepo.Host{}, dir); ok {
				if err := s.outsideGit(r.Dir, ""); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// outsideGit notes a git directory outside the tree, which is that of the directory work; "" where
// that is not known. A directory that a file leads to is taken for one whatever is in it.
func (s *search) outsideGit(dir, work string) error {
	g := s.away[dir]
	if g == nil {
		var st unix.Stat_t
		if unix.Stat(dir, &st) != nil || !s.reads(&st) {
			return nil
		}
		if len(s.abroad) == maxOutsideGits {
			s.heaviest = "."
			s.meet("there are more than %d git directories outside that files in it lead to", maxOutsideGits)
			return nil
		}
		g = &gitDir{rel: dir, common: dir}
		if r, ok := gitrepo.Look(gitrepo.Host{}, dir); ok && r.Common != "" {
			g.common = r.Common
		}
		s.away[dir] = g
		s.abroad = append(s.abroad, g)
	}
	if work != "" && !slices.Contains(g.works, work) {
		g.works = append(g.works, work)
	}
	if rel, in := s.inTree(g.common); in {
		return s.gitDir(rel, work)
	}
	return nil
}

// inOutsideGit protects the files of the tree that a git directory outside of it names, or that
// its parts are links to.
func (s *search) inOutsideGit(g *gitDir) error {
	var files []string
	for _, dir := range slices.Compact([]string{g.common, g.rel}) {
		files = append(files, dir+"/config", dir+"/config.worktree")
		for _, e := range repositories() {
			if err := s.holdOutside(dir, strings.TrimPrefix(e.Path, ".git/"), e); err != nil {
				return err
			}
		}
		if err := s.linksAbroad(dir+"/hooks", repositories()[0]); err != nil {
			return err
		}
	}
	return s.settingsOf(g, files)
}

// holdOutside protects a file of the tree that a name in a directory outside of it leads to.
func (s *search) holdOutside(dir, name string, e *Entry) error {
	t, err := s.follow(dir, name)
	if err != nil || t.outside != "" || t.end == "" || t.end == "." {
		return err
	}
	inner := Entry{Path: e.Path, Why: e.Why, Absent: EmptyDir}
	return s.hold(dir, name, &inner, true)
}

// maxOutsideGits bounds the git directories outside the tree that are read.
const maxOutsideGits = 1000

// maxAbroad bounds the names of a directory outside the tree that are looked at.
const maxAbroad = 10_000

// linksAbroad protects the files of the tree that links in a directory of programs outside of it
// lead to.
func (s *search) linksAbroad(dir string, e *Entry) error {
	if s.inside[dir] {
		return nil
	}
	s.inside[dir] = true
	fd, err := openat.Open(unix.AT_FDCWD, dir, openat.Real, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil //nolint:nilerr // there is none, or git may not read it
	}
	defer unix.Close(fd)
	for _, d := range list(fd, s.buf, maxAbroad, func(_ []byte, typ byte) bool { return typ == unix.DT_LNK }).names {
		if err := s.holdOutside(dir, d.name, e); err != nil {
			return err
		}
	}
	return nil
}

// An outsideFile is a file of settings outside the tree.
type outsideFile struct {
	name, at string // as git opens it, and without links
	settings []gitconfig.Setting
}

// outsideFile protects the files that the settings of a file outside the tree name.
func (r *reading) outsideFile(f *outsideFile, depth int) error {
	if r.seen[f.at] {
		return nil
	}
	if r.seen[f.at] = true; len(r.seen) > maxSettingFiles {
		return r.tooLong(f.at)
	}
	return r.settings(f.settings, f.name, depth)
}

// outsideText returns the text of a settings file outside the tree: a jail cannot write it, but
// it may name files in the tree. It is read if the file, or the directory that it lies in, belongs
// to the machine or to a user who may run git in the tree. A nested repository, which a jail has
// made, may include any file of the host's, and others could stop the start by theirs.
func (s *search) outsideText(o *outsideFile) (string, error) {
	f, err := openat.Regular(unix.AT_FDCWD, o.at, openat.Real)
	if err != nil {
		return "", nil //nolint:nilerr // there is none, or git may not read it
	}
	defer f.Close()
	var st, dir unix.Stat_t
	if unix.Fstat(int(f.Fd()), &st) != nil {
		return "", nil
	}
	if !s.reads(&st) && !slices.Contains(systemSettings, o.name) &&
		(unix.Stat(path.Dir(o.at), &dir) != nil || !s.reads(&dir) || dir.Mode&0o002 != 0) {
		return "", nil
	}
	text, err := atomicfile.ReadAll(f, maxCopy)
	if errors.Is(err, atomicfile.ErrTooLong) && s.reads(&st) {
		return "", err
	}
	return string(text), nil
}

// reads reports whether files of a file's owner are read outside the tree.
func (s *search) reads(st *unix.Stat_t) bool {
	if s.readers == nil {
		s.readers = append([]uint32{0}, s.o.Readers...)
		var top unix.Stat_t
		if unix.Fstat(int(s.root.Fd()), &top) == nil {
			s.readers = append(s.readers, top.Uid)
		}
	}
	return slices.Contains(s.readers, st.Uid)
}

// systemSettings are git's settings of the machine (git-config(1), FILES), as distributions and
// local installations have them.
var systemSettings = []string{"/etc/gitconfig", "/usr/local/etc/gitconfig"}
