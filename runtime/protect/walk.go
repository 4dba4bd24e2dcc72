package protect

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/unixsocket"
)

type search struct {
	located
	o        Options
	limits   Limits // at the start: those of o are the rest
	found    *Found
	seen     map[string]int     // paths found, by index
	gits     map[string]*gitDir // git directories, by their place
	order    []*gitDir          // the same, as they were found
	inside   map[string]bool    // protected directories whose links were followed
	projects []workplace        // directories that are worked in
	homes    []workplace
	met      string // the limit that was met
	heaviest string // the place that holds most of the names
	buf      []byte
	outside  map[string]*outsideFile // files of settings that are not in the tree, by their names
	away     map[string]*gitDir      // git directories that are not in the tree, by their place
	abroad   []*gitDir               // the same, as they were found
	readers  []uint32                // the users whose files outside the tree are read
	ownNames []string                // the tree's names, once they are known
	hookDirs []hookDir               // directories of hooks that settings name
	sockets  map[uint32]bool         // covered ones, by the low half of their inodes' numbers
	bound    []unixsocket.Bound
	skipped  []string // directories that the search did not go into
	deep     bool     // looks for sockets there
}

// meet notes the first limit that is met, which ends the search.
func (s *search) meet(format string, args ...any) {
	if s.met == "" {
		s.met = fmt.Sprintf(format, args...)
	}
}

// tooMany and tooDeep note limits that are met at a place.
func (s *search) tooMany(rel string) {
	s.heaviest = rel
	s.meet("there are more than %d names", s.limits.Entries)
}

func (s *search) tooDeep(rel string) {
	// The top of the nested directories: a deep path would not help the reader.
	s.heaviest, _, _ = strings.Cut(rel, "/")
	s.meet("there are more than %d directories in each other", s.limits.Depth)
}

// gone reports that a name is not there any more, or not to be looked into.
func gone(err error) bool {
	return slices.ContainsFunc([]error{unix.ENOENT, unix.ENOTDIR, unix.ELOOP, unix.EXDEV, unix.EACCES, unix.EPERM},
		func(e error) bool { return errors.Is(err, e) })
}

// top protects the paths with known names in the mounted directory itself.
func (s *search) top() error {
	if !s.o.Protect {
		return nil
	}
	if err := s.gitAt(".", ".git"); err != nil {
		return err
	}
	for _, name := range firsts() {
		// One call for each name that is not there, which most are not.
		if _, err := s.stat(name); errors.Is(err, unix.ENOENT) {
			continue
		}
		for _, e := range byName()[name] {
			if err := s.hold(".", e.Path, e, false); err != nil {
				return err
			}
		}
	}
	return nil
}

// A workplace is a directory whose absent paths stay absent, with the folded names of its
// existing entries of the table.
type workplace struct {
	rel   string
	names map[string]bool
}

func place(rel string, list []dirent) workplace {
	w := workplace{rel, make(map[string]bool, len(list))}
	for _, d := range list {
		w.names[Fold(d.name)] = true
	}
	return w
}

// A region has the properties of a directory of the tree and of all below it.
type region struct {
	protect bool // the host may run files there
	counted bool
	rules   []ignoreRule
}

// weight is how many names a directory holds, and which one below it holds most of them.
type weight struct {
	names int
	place string
}

// dir looks through a directory, which it closes, and those below it.
func (s *search) dir(fd int, rel string, r region, depth int) (weight, error) {
	defer unix.Close(fd)
	room := &s.o.Limits.Entries
	if !r.counted {
		room = &s.o.Limits.Ignored
	}
	l := s.listOpen(fd, rel, s.buf, *room+1, func(name []byte, typ byte) bool { return s.wanted(name, typ, r.protect) })
	w := weight{l.read, rel}
	if l.err != nil && !gone(l.err) {
		return w, fmt.Errorf("%s: %w", rel, l.err)
	}
	if *room -= l.read; *room < 0 {
		s.meet("there are more than %d names", s.limits.Entries)
		return w, nil
	}
	s.found.Searched += l.read
	below, err := s.look(rel, l.names, &r)
	if err != nil || s.met != "" {
		return w, err
	}
	heaviest := w
	for _, d := range below {
		child, err := s.down(fd, rel, d, r, depth)
		if err != nil {
			return w, err
		}
		if w.names += child.names; child.names > heaviest.names {
			heaviest = child
		}
		if s.met != "" {
			break
		}
	}
	if heaviest.names*2 > w.names {
		w.place = heaviest.place
	}
	return w, nil
}

// down looks through a directory below an open one.
func (s *search) down(parent int, dir string, d sub, r region, depth int) (weight, error) {
	rel := below(dir, d.name)
	if depth >= s.o.Limits.Depth {
		s.tooDeep(rel)
		return weight{}, nil
	}
	passes := s.passes(d.name, r)
	if d.shut || slices.Contains(rebuilt, d.name) {
		r.protect, r.counted = false, false
	}
	if r.protect && slices.Contains(s.o.Unprotect, s.onHost(rel)) {
		r.protect = false // all that lies below is the jails'
	}
	if !r.protect && len(s.o.Hide) == 0 && !passes {
		if s.o.Endpoints {
			s.skipped = append(s.skipped, rel)
		}
		return weight{}, nil
	}
	if r.counted && ignores(r.rules, rel) {
		r.counted = false
		s.found.Ignored = append(s.found.Ignored, rel)
	}
	fd, err := s.openDir(parent, d.name, rel)
	if gone(err) {
		return weight{}, nil
	}
	if err != nil {
		return weight{}, err
	}
	return s.dir(fd, rel, r, depth+1)
}

// wanted reports whether look has to see a name.
func (s *search) wanted(name []byte, typ byte, protect bool) bool {
	return typ == unix.DT_DIR || s.o.Endpoints && isEndpoint(typ) ||
		protect && notable(name) || len(s.o.Hide) > 0 && IsHidden(s.o.Hide, string(name))
}

// A sub is a directory that is to be looked through.
type sub struct {
	name string
	// shut reports that the host runs nothing of the directory except protected paths: it is
	// searched only for paths that policy hides, and for sockets and pipes.
	shut bool
}

// look examines the wanted names of one directory. It returns the directories in it that are to
// be searched.
func (s *search) look(rel string, list []dirent, r *region) (dirs []sub, err error) {
	home, repository := rel == "." && s.o.Home, rel == "." && s.found.Searched > 0 && !s.isOwn()
	for _, d := range list {
		at, shut := below(rel, d.name), !r.protect
		switch {
		case IsHidden(s.o.Hide, d.name):
			s.add(Path{Rel: at, Treatment: Hidden, Dir: d.typ == unix.DT_DIR, Link: d.typ == unix.DT_LNK, Why: "binds.hide"})
			continue
		case s.endpoint(at, d.typ):
			continue
		case shut:
		case Fold(d.name) == ".git":
			repository, shut = true, true
			err = s.gitAt(rel, d.name)
		case d.name == ignoreFile && d.typ == unix.DT_REG:
			r.rules = append(slices.Clip(r.rules), s.ignoreRules(rel)...)
		default:
			home = home || slices.Contains(homeMarks, d.name)
			shut, err = s.entry(rel, d)
		}
		if err != nil {
			return nil, err
		}
		if d.typ == unix.DT_DIR && (!shut || len(s.o.Hide) > 0 || s.o.Endpoints) {
			dirs = append(dirs, sub{d.name, shut})
		}
	}
	if r.protect && s.isRepository(rel, list) {
		err = s.gitDir(rel, "")
	}
	if home && r.protect {
		s.homes = append(s.homes, place(rel, list))
	}
	if repository && r.protect {
		s.projects = append(s.projects, place(rel, list))
	}
	return dirs, err
}

// entry protects a name of a directory that the table has. kept reports that nothing below it
// needs a search.
func (s *search) entry(dir string, d dirent) (kept bool, err error) {
	at := below(dir, d.name)
	if e := match(s.onHost(at)); e != nil {
		return !s.unprotected(e, at), s.hold(dir, d.name, e, false)
	}
	// In place of a directory that the table's paths lie in: a link, which leads to them, or a
	// file, for which a directory could be put.
	if d.typ == unix.DT_DIR {
		return false, nil
	}
	for _, e := range byName()[Fold(d.name)] {
		_, rest, _ := strings.Cut(e.Path, "/")
		if err := s.hold(dir, d.name+"/"+rest, e, false); err != nil {
			return false, err
		}
	}
	return false, nil
}

// below is the path of a name in a directory of the tree; that of the host for an absolute one.
func below(dir, name string) string {
	if dir == "." || path.IsAbs(name) {
		return name
	}
	return dir + "/" + name
}

// onHost is a path of the tree as the host names it, or one outside of it. It is clean, as
// CheckUnprotect requires of paths.
func (s *search) onHost(rel string) string {
	if path.IsAbs(rel) {
		return path.Clean(rel)
	}
	return path.Join(s.o.Source, rel)
}
