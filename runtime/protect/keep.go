package protect

import (
	"maps"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/pathname"
)

// keep protects an existing path, which contains no link.
func (s *search) keep(rel string, typ byte, e *Entry) error {
	if !s.o.Protect {
		return nil
	}
	p := Path{Rel: rel, Treatment: ReadOnly, Dir: typ == unix.DT_DIR, Link: typ == unix.DT_LNK, Why: e.Why}
	if e.Copy && typ == unix.DT_REG {
		if text, st, err := s.read(rel, maxCopy); err == nil {
			p.Treatment, p.Text, p.Mode, p.UID, p.GID = Private, text, st.Mode&0o777, st.Uid, st.Gid
		}
	}
	if st, err := s.stat(rel); typ == unix.DT_REG && err == nil && st.Nlink > 1 {
		s.found.Linked = append(s.found.Linked, rel)
	}
	s.add(p)
	if p.Dir {
		return s.linksIn(rel, e, 0)
	}
	return nil
}

// linksIn protects the targets of the links in a protected directory: hooks are often links to
// files of the work tree.
func (s *search) linksIn(rel string, e *Entry, depth int) error {
	if s.inside[rel] || s.met != "" {
		return nil
	}
	s.inside[rel] = true
	if depth > s.o.Limits.Depth {
		s.tooDeep(rel)
		return nil
	}
	names, err := s.listed(rel, func(_ []byte, typ byte) bool { return typ == unix.DT_LNK || typ == unix.DT_DIR })
	if err != nil {
		return err
	}
	for _, d := range names {
		at := below(rel, d.name)
		if d.typ == unix.DT_DIR {
			if err := s.linksIn(at, e, depth+1); err != nil {
				return err
			}
			continue
		}
		t, err := s.follow(rel, d.name)
		switch {
		case err != nil:
			return err
		case s.kept(t.end) && !slices.ContainsFunc(t.links, func(l string) bool { return !s.kept(l) }):
		case t.end == "." || t.end != "" && pathname.Within(rel, t.end):
			s.found.Unheld = append(s.found.Unheld, at) // it leads to a directory that it lies in
		case t.there && t.typ == unix.DT_DIR && slices.Contains(rebuilt, path.Base(t.end)):
			s.found.Unheld = append(s.found.Unheld, at)
		default:
			inner := Entry{Path: e.Path, Why: e.Why, Absent: EmptyDir}
			if err := s.hold(rel, d.name, &inner, true); err != nil {
				return err
			}
		}
	}
	return nil
}

// kept reports whether a path lies in a directory that is read-only for the jail.
func (s *search) kept(rel string) bool {
	for dir := path.Dir(rel); rel != "" && dir != "."; dir = path.Dir(dir) {
		if i, ok := s.seen[dir]; ok && s.found.Paths[i].Treatment == ReadOnly && s.found.Paths[i].Dir {
			return true
		}
	}
	return false
}

// maxCopy bounds a file that the jail gets a copy of, in bytes.
const maxCopy = 1 << 20

// add notes a path once.
func (s *search) add(p Path) {
	if _, ok := s.seen[p.Rel]; ok || p.Rel == "." {
		return
	}
	if len(s.found.Paths) >= s.o.Limits.Paths {
		s.heaviest = path.Dir(p.Rel)
		by := ""
		if s.limits.PathsBy != "" {
			by = ", which is " + s.limits.PathsBy
		}
		s.meet("there are more than %d paths to protect%s", s.o.Limits.Paths, by)
		return
	}
	s.seen[p.Rel] = len(s.found.Paths)
	s.found.Paths = append(s.found.Paths, p)
}

// absents adds the paths that are missing and must stay so.
func (s *search) absents() error {
	if !s.o.Protect {
		return nil
	}
	for _, g := range s.order {
		if err := s.absentGit(g); err != nil {
			return err
		}
	}
	if err := s.mountedOwn(); err != nil || !s.o.Absent {
		return err
	}
	for _, where := range []struct {
		places []workplace
		scope  Scope
	}{{s.projects, Project}, {s.homes, Home}} {
		for _, w := range where.places {
			if err := s.absentsOf(w, where.scope); err != nil {
				return err
			}
		}
	}
	return nil
}

// absentsOf adds the missing paths among the table's paths of a scope. If several share a missing
// directory, in a repository below the top, that directory is kept absent as a whole: a mount for
// each path of a hundred repositories would slow every start.
func (s *search) absentsOf(w workplace, scope Scope) error {
	for _, e := range Entries() {
		first, _, nested := strings.Cut(e.Path, "/")
		switch {
		case e.Scope != scope || e.Absent == Leave || e.Own != "" && !s.isThere(below(w.rel, e.Own), w.names[first]):
		case len(e.Beside) > 0 && !slices.ContainsFunc(e.Beside, func(name string) bool { return w.names[name] }):
		case w.names[first]:
			if err := s.hold(w.rel, e.Path, e, true); err != nil {
				return err
			}
		case nested && w.rel != "." && s.keepParent(below(w.rel, first), first):
		default:
			s.absent(below(w.rel, e.Path), e)
		}
	}
	return nil
}

// isThere reports whether a path exists; first is false where its first part does not.
func (s *search) isThere(rel string, first bool) bool {
	if !first {
		return false
	}
	_, err := s.stat(rel)
	return err == nil
}

// absent adds a placeholder for a missing path. Its directory may be missing as well.
func (s *search) absent(rel string, e *Entry) {
	if !s.unprotected(e, rel) {
		s.add(Path{Rel: rel, Treatment: Placeholder, Dir: e.Absent == EmptyDir, Text: e.Text, Copy: e.Copy, Why: e.Why})
	}
}

// keepParent adds a placeholder for a directory that is not there and that several of the
// table's paths share, unless policy leaves a part of it to jails. It reports whether they are kept
// by it.
func (s *search) keepParent(rel, name string) bool {
	if i, ok := s.seen[rel]; ok {
		return s.found.Paths[i].Treatment == Placeholder
	}
	if slices.ContainsFunc(s.o.Unprotect, func(u string) bool { return pathname.Below(u, s.onHost(rel)) }) {
		return false
	}
	for _, e := range Entries() {
		if pathname.Below(e.Path, name) && unprotected(s.o.Unprotect, e, path.Join(s.onHost(path.Dir(rel)), e.Path)) {
			return false
		}
	}
	s.add(Path{Rel: rel, Treatment: Placeholder, Dir: true, Why: "holds settings of an agent"})
	return true
}

// finish sorts the paths, and drops those within another protected path.
func (s *search) finish() {
	f := s.found
	f.Repositories = len(s.gits)
	f.Gits = slices.Sorted(maps.Keys(s.gits))
	var treatments []Treatment // by the index of s.seen
	for _, p := range f.Paths {
		treatments = append(treatments, p.Treatment)
	}
	f.Paths = slices.DeleteFunc(f.Paths, func(p Path) bool {
		for dir := path.Dir(p.Rel); dir != "."; dir = path.Dir(dir) {
			// Hidden and covered paths are so within a read-only path, too.
			if i, ok := s.seen[dir]; ok && (p.Treatment != Hidden && p.Treatment != Covered || treatments[i] == Hidden) {
				return true
			}
		}
		return false
	})
	slices.SortFunc(f.Paths, func(a, b Path) int { return strings.Compare(a.Rel, b.Rel) })
	slices.SortFunc(f.Outside, func(a, b Demand) int { return strings.Compare(a.Path+"\x00"+a.From, b.Path+"\x00"+b.From) })
	f.Outside = slices.Compact(f.Outside)
	for _, list := range []*[]string{&f.Linked, &f.Unheld} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
}
