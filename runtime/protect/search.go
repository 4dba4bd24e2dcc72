package protect

import (
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/pathname"
	"agentjail.dev/runtime/refusal"
)

// Treatment is how a path is kept from a jail.
type Treatment string

// The treatments.
const (
	// ReadOnly mounts the file over itself, read-only.
	ReadOnly Treatment = "read-only"
	// Private mounts a copy of the file that the jail may change.
	Private Treatment = "copy"
	// Placeholder makes something empty, and mounts that read-only.
	Placeholder Treatment = "placeholder"
	// Hidden covers the file with an empty one.
	Hidden Treatment = "hidden"
)

// A Path is something in a mounted directory that is kept from the jail.
type Path struct {
	Rel       string // below the directory
	Treatment Treatment
	// Dir reports a directory, and Link a symbolic link; for a placeholder, the type that it is
	// to have.
	Dir, Link bool
	// Copy reports that the jail has an empty copy of its own over a placeholder.
	Copy bool
	// Text is the content of a placeholder, or of a private copy.
	Text string
	// Mode, UID and GID are the file's of which a private copy is made.
	Mode     uint32
	UID, GID uint32
	Why      string
}

// Limits bound a search: its content is untrusted. A search that meets a limit refuses the start,
// since unsearched paths would be left to the jail. No limit is a time, so that other work on the
// machine, for example another jail's, has no effect.
type Limits struct {
	Entries int // names that are looked at
	// Ignored are names that are looked at in directories that a .gitignore names, and in those
	// that tools make anew: they do not count as Entries.
	Ignored int
	Depth   int // directories below each other
	Paths   int // paths that are protected
	// PathsBy is the reason for the value of Paths.
	PathsBy string
}

// DefaultLimits are those of every search.
var DefaultLimits = Limits{Entries: 3_000_000, Ignored: 12_000_000, Depth: 128, Paths: 10_000}

// Options are for one directory.
type Options struct {
	Source string // its path on the host
	// Mounts reports that the jail gets the mounts below, too.
	Mounts bool
	// Absent has absent paths protected, too.
	Absent bool
	// Home reports that the directory is a user's home, and Homes are the host's home directories
	// by their owners' names.
	Home  bool
	Homes map[string]string
	// Settings are git's own files of settings on the host, of the machine and of users, which
	// every repository takes.
	Settings []string
	// Protect has the table's paths protected, but for those of Unprotect.
	Protect   bool
	Unprotect []string
	Hide      []string // patterns of names
	// Demands are paths that a link or a setting in another mounted directory leads to.
	Demands []Demand
	Limits  Limits
}

// Found is the result of a search.
type Found struct {
	// Paths are sorted, and none lies within another.
	Paths        []Path
	Repositories int
	Searched     int // names
	// Linked are protected files that have a further name, by which they may be
	// written to.
	Linked []string
	// Unheld are links in protected directories whose targets cannot be protected.
	Unheld []string
	// Outside are paths of the host, out of this directory, that links and settings lead to.
	Outside []Demand
}

// Search looks through a directory. It fails with a refusal where that cannot be done as a whole.
func Search(root *os.File, o Options) (*Found, error) {
	if o.Limits == (Limits{}) {
		o.Limits = DefaultLimits
	}
	o.Protect = o.Protect && !slices.ContainsFunc(o.Unprotect, func(u string) bool { return pathname.Within(o.Source, u) })
	s := &search{
		tree: tree{root: root, mounts: o.Mounts}, o: o, limits: o.Limits, found: &Found{}, seen: map[string]int{},
		gits:   map[string]*gitDir{},
		inside: map[string]bool{}, texts: map[string]string{},
		buf: make([]byte, 32<<10),
	}
	err := s.search()
	if err == nil && s.met != "" {
		err = s.refuse()
	}
	if err != nil {
		return nil, fmt.Errorf("searching %s for protected paths: %w", o.Source, err)
	}
	s.finish()
	return s.found, nil
}

// search runs the steps of a search. Paths with known names come first.
func (s *search) search() error {
	if err := s.top(); err != nil {
		return err
	}
	fd, err := s.open(".", unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	w, err := s.dir(fd, ".", region{protect: s.o.Protect, counted: true}, 0)
	if s.heaviest == "" {
		s.heaviest = w.place
	}
	if err != nil || s.met != "" {
		return err
	}
	if err := s.demandedGits(); err != nil {
		return err
	}
	if err := s.named(); err != nil {
		return err
	}
	for _, d := range s.o.Demands {
		if rel, ok := s.inTree(d.Path); ok && s.gits[rel] == nil {
			e := Entry{Path: rel, Why: d.Why, Absent: EmptyFile}
			if d.Dir {
				e.Absent = EmptyDir
			}
			if err := s.hold(".", rel, &e, true); err != nil {
				return err
			}
		}
	}
	return s.absents()
}

// demandedGits protects the git directories that files in other mounted directories lead to.
func (s *search) demandedGits() error {
	for _, d := range s.o.Demands {
		rel, ok := s.inTree(d.Path)
		if !ok || !d.Git {
			continue
		}
		st, err := s.stat(rel)
		switch {
		case err != nil && !gone(err):
			return err
		case err == nil && kind(st.Mode) == unix.DT_DIR:
			if err := s.gitDir(rel, ""); err != nil {
				return err
			}
		}
	}
	return nil
}

// refuse is the answer where a limit was met.
func (s *search) refuse() error {
	at := s.onHost(s.heaviest)
	r := refusal.New(refusal.BindSearch, "%s, most of them in %s: the jail could write to paths that were not searched", s.met, at)
	switch {
	case len(s.o.Hide) > 0:
		return r.WithRemedy("mount a smaller directory: for binds.hide all of it has to be searched")
	case s.heaviest == ".":
		return r.WithRemedy("mount a smaller directory")
	}
	return r.WithRemedy("mount a smaller directory, or policy: binds.unprotect = [%q] leaves that directory to jails unsearched", at)
}

// prepares bounds how often a directory is searched that changes meanwhile.
const prepares = 5

// Prepare searches a directory and makes the placeholders that it needs for the jail of that key.
// view is the directory as the jail will see it, and root as the host does. The found paths exist
// until another process changes them.
func Prepare(view, root *os.File, o Options, l Ledger, key string) (*Found, error) {
	for range prepares {
		f, err := Search(view, o)
		if moved(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		denied, err := l.create(key, root, o.Source, f.Paths)
		if err != nil {
			return nil, err
		}
		f.Paths = slices.DeleteFunc(f.Paths, func(p Path) bool {
			return p.Treatment == Placeholder && slices.ContainsFunc(denied, func(m CreatedPlaceholder) bool {
				at := path.Join(o.Source, p.Rel)
				return pathname.Within(at, m.Path)
			})
		})
		t := tree{root: view, mounts: o.Mounts}
		vanished := slices.ContainsFunc(f.Paths, func(p Path) bool {
			_, err := t.stat(p.Rel) // another jail's placeholder, for one
			return moved(err)
		})
		if !vanished {
			return f, nil
		}
	}
	return nil, refusal.New(refusal.MountMoved, "%s changes too fast for its protected paths to be kept",
		o.Source).WithRemedy("try again when nothing else writes there")
}

// moved reports that a path, or a directory on its way, is not there any more, or is something
// else.
func moved(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP)
}

// Open opens a path that was found, O_PATH, with the bounds of the search.
func Open(view *os.File, o Options, rel string) (*os.File, error) {
	fd, err := tree{root: view, mounts: o.Mounts}.open(rel, unix.O_PATH)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), rel), nil
}

type search struct {
	tree
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
	texts    map[string]string // of files of settings that are not in the tree
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
	for _, e := range []error{unix.ENOENT, unix.ENOTDIR, unix.ELOOP, unix.EXDEV, unix.EACCES, unix.EPERM} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
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
		var st unix.Stat_t
		if unix.Fstatat(int(s.root.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT) == unix.ENOENT {
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
		w.names[fold(d.name)] = true
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
	l := list(fd, s.buf, *room+1, func(name []byte, typ byte) bool { return s.wanted(name, typ, r.protect) })
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
	if d.shut || slices.Contains(rebuilt, d.name) {
		r.protect, r.counted = false, false
	}
	if r.protect && slices.Contains(s.o.Unprotect, s.onHost(rel)) {
		r.protect = false // all that lies below is the jails'
	}
	if !r.protect && len(s.o.Hide) == 0 {
		return weight{}, nil
	}
	if r.counted && ignores(r.rules, rel) {
		r.counted = false
	}
	fd, err := tree{mounts: s.mounts}.openAt(parent, d.name, unix.O_RDONLY|unix.O_DIRECTORY)
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
	return typ == unix.DT_DIR || protect && notable(name) || len(s.o.Hide) > 0 && hidden(s.o.Hide, string(name))
}

// A sub is a directory that is to be looked through.
type sub struct {
	name string
	// shut reports that the host runs nothing of the directory except protected paths: it is
	// searched only for paths that policy hides.
	shut bool
}

// look examines the wanted names of one directory. It returns the directories in it that are to
// be searched.
func (s *search) look(rel string, list []dirent, r *region) (dirs []sub, err error) {
	home, repository := rel == "." && s.o.Home, rel == "." && s.found.Searched > 0
	for _, d := range list {
		at, shut := below(rel, d.name), !r.protect
		switch {
		case hidden(s.o.Hide, d.name):
			s.add(Path{Rel: at, Treatment: Hidden, Dir: d.typ == unix.DT_DIR, Link: d.typ == unix.DT_LNK, Why: "binds.hide"})
			continue
		case shut:
		case fold(d.name) == ".git":
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
		if d.typ == unix.DT_DIR && (!shut || len(s.o.Hide) > 0) {
			dirs = append(dirs, sub{d.name, shut})
		}
	}
	if r.protect && isGitDir(list) {
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
	if e := match(path.Join(path.Base(s.o.Source), at)); e != nil {
		return !s.left(e, at), s.hold(dir, d.name, e, false)
	}
	// In place of a directory that the table's paths lie in: a link, which leads to them, or a
	// file, for which a directory could be put.
	if d.typ == unix.DT_DIR {
		return false, nil
	}
	for _, e := range byName()[fold(d.name)] {
		_, rest, _ := strings.Cut(e.Path, "/")
		if err := s.hold(dir, d.name+"/"+rest, e, false); err != nil {
			return false, err
		}
	}
	return false, nil
}

// below is the path of a name in a directory of the tree.
func below(dir, name string) string {
	if dir == "." {
		return name
	}
	return dir + "/" + name
}

// onHost is a path of the tree as the host names it.
func (s *search) onHost(rel string) string { return path.Join(s.o.Source, rel) }

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
	if !s.o.Absent {
		return nil
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
	for i := range Table {
		e := &Table[i]
		first, _, nested := strings.Cut(e.Path, "/")
		switch {
		case e.Scope != scope || e.Absent == Leave:
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

// absent adds a placeholder for a missing path. Its directory may be missing as well.
func (s *search) absent(rel string, e *Entry) {
	if !s.left(e, rel) {
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
	for i := range Table {
		e := &Table[i]
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
	var treatments []Treatment // by the index of s.seen
	for _, p := range f.Paths {
		treatments = append(treatments, p.Treatment)
	}
	f.Paths = slices.DeleteFunc(f.Paths, func(p Path) bool {
		for dir := path.Dir(p.Rel); dir != "."; dir = path.Dir(dir) {
			// Hidden paths are also hidden within a read-only path.
			if i, ok := s.seen[dir]; ok && (p.Treatment != Hidden || treatments[i] == Hidden) {
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

// Pins lists the directories on the way to the protected paths, the deepest first: if one of them
// could be renamed, another could be put in its place. Hidden files stay hidden wherever they are
// moved.
func (f *Found) Pins() []string {
	seen := map[string]bool{}
	var out []string
	for _, p := range f.Paths {
		if p.Treatment == Hidden {
			continue
		}
		for dir := path.Dir(p.Rel); dir != "." && !seen[dir]; dir = path.Dir(dir) {
			seen[dir] = true
			out = append(out, dir)
		}
	}
	slices.SortFunc(out, func(a, b string) int {
		if n := strings.Count(b, "/") - strings.Count(a, "/"); n != 0 {
			return n
		}
		return strings.Compare(a, b)
	})
	return out
}

// Keeps reports whether a path, or something that it lies in, is kept from the jail.
func (f *Found) Keeps(rel string) bool {
	return slices.ContainsFunc(f.Paths, func(p Path) bool { return pathname.Within(rel, p.Rel) })
}

// Count reports how many paths have a treatment.
func (f *Found) Count(t Treatment) int {
	n := 0
	for _, p := range f.Paths {
		if p.Treatment == t {
			n++
		}
	}
	return n
}
