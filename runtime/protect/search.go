package protect

import (
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/refusal"
)

// Treatment is how a path is kept from a jail.
type Treatment string

// The treatments.
const (
	// ReadOnly mounts what is there over itself, read-only.
	ReadOnly Treatment = "read-only"
	// Private gives the jail a copy of the file.
	Private Treatment = "copy"
	// Placeholder makes something empty, and mounts that read-only.
	Placeholder Treatment = "placeholder"
	// Hidden covers what is there with something empty.
	Hidden Treatment = "hidden"
)

// A Path is something in a mounted directory that is kept from the jail.
type Path struct {
	Rel       string // below the directory
	Treatment Treatment
	// Dir says that it is a directory, and Link that it is a symbolic link; for a
	// placeholder, what it is to be.
	Dir, Link bool
	// Copy says of a placeholder that the jail gets an empty copy of its own over it.
	Copy bool
	// Text is what a placeholder holds, or the text of a private copy.
	Text string
	// Mode, UID and GID are the file's of which a private copy is made.
	Mode     uint32
	UID, GID uint32
	Why      string
}

// Limits bound a search: what is searched is somebody else's.
type Limits struct {
	Entries int // names that are looked at
	Depth   int // directories below each other
	Paths   int // paths that are protected
	// Time bounds what is looked at after the first Sure names: those are looked at however long it takes, so that other
	// work on the machine, another jail's for one, does not decide what is protected.
	Time time.Duration
	Sure int
}

// DefaultLimits are those of every search: about 50 ms on a local disk.
var DefaultLimits = Limits{Entries: 100_000, Depth: 24, Paths: 1200, Time: time.Second, Sure: 5000}

// Options are for one directory.
type Options struct {
	Source string // its path on the host
	// Mounts says that the jail gets what is mounted below, too.
	Mounts bool
	// Absent has absent paths protected, too.
	Absent bool
	// Home says that it is somebody's home directory.
	Home bool
	// Protect has the table's paths protected, but for those of Unprotect.
	Protect   bool
	Unprotect []string
	Hide      []string // patterns of names
	Limits    Limits
}

// Found is what a search found.
type Found struct {
	// Paths are sorted, and none lies within another.
	Paths        []Path
	Repositories int
	Searched     int // names
	// GaveUp says at which bound the search ended; "" where it did not.
	GaveUp string
	// Linked are protected files that have a further name, by which they may be
	// written to.
	Linked []string
}

// Search looks through a directory.
func Search(root *os.File, o Options) (*Found, error) {
	if o.Limits == (Limits{}) {
		o.Limits = DefaultLimits
	}
	s := &search{
		tree: tree{root: root, mounts: o.Mounts}, o: o, found: &Found{}, seen: map[string]int{}, gits: map[string]bool{},
		until: time.Now().Add(o.Limits.Time),
	}
	s.room.Store(int64(o.Limits.Entries))
	s.queue = []string{"."}
	for len(s.queue) > 0 && s.found.GaveUp == "" {
		if err := s.next(); err != nil {
			return nil, fmt.Errorf("searching %s for protected paths: %w", o.Source, err)
		}
	}
	s.absents() // last: what is there matters more where there is too much
	s.finish()
	return s.found, nil
}

// prepares bounds how often a directory is searched that changes meanwhile.
const prepares = 5

// Prepare searches a directory and makes the placeholders that it needs for the
// jail of that key. view is the directory as the jail will see it, and root as
// the host does. What was found is there, until somebody else changes it.
func Prepare(view, root *os.File, o Options, l Ledger, key string) (*Found, error) {
	for range prepares {
		f, err := Search(view, o)
		if err != nil {
			return nil, err
		}
		denied, err := l.Make(key, root, o.Source, f.Paths)
		if err != nil {
			return nil, err
		}
		f.Paths = slices.DeleteFunc(f.Paths, func(p Path) bool {
			return p.Treatment == Placeholder && slices.ContainsFunc(denied, func(m Made) bool {
				at := path.Join(o.Source, p.Rel)
				return at == m.Path || strings.HasPrefix(at, m.Path+"/")
			})
		})
		t := tree{root: view, mounts: o.Mounts}
		vanished := slices.ContainsFunc(f.Paths, func(p Path) bool {
			_, err := t.stat(p.Rel) // another jail's placeholder, for one
			return errors.Is(err, unix.ENOENT)
		})
		if !vanished {
			return f, nil
		}
	}
	return nil, refusal.New(refusal.MountMoved, "%s changes too fast for its protected paths to be kept", o.Source).WithRemedy("try again when nothing else writes there")
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
	found    *Found
	seen     map[string]int  // paths found, by index
	gits     map[string]bool // git directories
	queue    []string
	projects []string // directories that are worked in
	homes    []string
	gitDirs  []gitDir
	until    time.Time
	room     atomic.Int64 // names that may still be read
	bufs     [readers][]byte
}

func (s *search) giveUp(format string, args ...any) {
	if s.found.GaveUp == "" {
		s.found.GaveUp = fmt.Sprintf(format, args...)
	}
}

// gone says that a name is not there any more, or not to be looked into.
func gone(err error) bool {
	for _, e := range []error{unix.ENOENT, unix.ENOTDIR, unix.ELOOP, unix.EXDEV, unix.EACCES, unix.EPERM, unix.ENAMETOOLONG} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// ahead bounds how many directories are read before the first of them is looked through.
const ahead = 64

// next looks through some of the queue's directories, which are read beside each other.
func (s *search) next() error {
	batch := s.queue[:min(len(s.queue), ahead)]
	s.queue = s.queue[len(batch):]
	lists := make([]listing, len(batch))
	parallel(len(batch), func(worker, i int) {
		lists[i] = s.list(batch[i], &s.room, s.buf(worker), s.wanted)
	})
	for i, rel := range batch {
		if s.found.Searched >= s.o.Limits.Sure && time.Now().After(s.until) {
			s.giveUp("after %v", s.o.Limits.Time)
		}
		if s.found.GaveUp != "" {
			return nil
		}
		list, err := s.count(lists[i])
		if err != nil {
			return err
		}
		if err := s.look(rel, list); err != nil {
			return err
		}
	}
	return nil
}

// buf is a worker's scratch space.
func (s *search) buf(worker int) []byte {
	if s.bufs[worker] == nil {
		s.bufs[worker] = make([]byte, 32<<10)
	}
	return s.bufs[worker]
}

// count counts the names of a directory that was read. One that cannot be read is empty.
func (s *search) count(l listing) ([]dirent, error) {
	s.found.Searched += l.read
	if l.full {
		s.giveUp("after %d names", s.o.Limits.Entries)
	}
	if l.err != nil && !gone(l.err) {
		return nil, l.err
	}
	return l.names, nil
}

// names lists a directory and counts.
func (s *search) names(rel string) ([]dirent, error) {
	return s.count(s.list(rel, &s.room, s.buf(0), func([]byte, byte) bool { return true }))
}

// wanted says whether look has to see a name.
func (s *search) wanted(name []byte, typ byte) bool {
	return typ == unix.DT_DIR || s.o.Protect && notable(name) || len(s.o.Hide) > 0 && hidden(s.o.Hide, string(name))
}

// look goes through one directory, of which it is given the wanted names.
func (s *search) look(rel string, list []dirent) error {
	if isGitDir(list) {
		return s.gitDir(gitDir{rel: rel})
	}
	home := rel == "." && s.o.Home
	repository := false
	for _, d := range list {
		at := below(rel, d.name)
		switch {
		case hidden(s.o.Hide, d.name):
			s.add(Path{Rel: at, Treatment: Hidden, Dir: d.typ == unix.DT_DIR, Link: d.typ == unix.DT_LNK, Why: "binds.hide"})
			continue
		case !s.o.Protect:
		case fold(d.name) == ".git":
			repository = true
			if err := s.git(at, rel, d.typ); err != nil {
				return err
			}
			continue
		default:
			home = home || slices.Contains(homeMarks, d.name)
			if e := match(path.Join(path.Base(s.o.Source), at)); e != nil {
				s.keep(at, d.typ, e)
				continue
			}
		}
		if d.typ == unix.DT_DIR && !slices.Contains(rebuilt, d.name) {
			if strings.Count(at, "/") >= s.o.Limits.Depth {
				s.giveUp("below %d directories", s.o.Limits.Depth)
				continue
			}
			s.queue = append(s.queue, at)
		}
	}
	if home {
		s.homes = append(s.homes, rel)
	}
	if repository || rel == "." && s.found.Searched > 0 {
		s.projects = append(s.projects, rel)
	}
	return nil
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

// keep has what is there protected, and what a link leads to.
func (s *search) keep(rel string, typ byte, e *Entry) {
	if !s.o.Protect || unprotected(s.o.Unprotect, e, s.onHost(rel)) {
		return
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
	if p.Link {
		if to := s.target(rel, s.o.Source); to != "" {
			if st, err := s.stat(to); err == nil {
				s.add(Path{Rel: to, Treatment: ReadOnly, Dir: st.Mode&unix.S_IFMT == unix.S_IFDIR, Why: e.Why})
			}
		}
	}
}

// maxCopy bounds a file that the jail gets a copy of, in bytes.
const maxCopy = 1 << 20

// add notes a path once.
func (s *search) add(p Path) {
	if _, ok := s.seen[p.Rel]; ok || p.Rel == "." {
		return
	}
	if len(s.found.Paths) >= s.o.Limits.Paths {
		s.giveUp("after %d protected paths", s.o.Limits.Paths)
		return
	}
	s.seen[p.Rel] = len(s.found.Paths)
	s.found.Paths = append(s.found.Paths, p)
}

// absents adds what is not there and must not come.
func (s *search) absents() {
	if !s.o.Protect {
		return
	}
	for _, g := range s.gitDirs {
		s.absentGit(g)
	}
	if !s.o.Absent {
		return
	}
	for _, where := range []struct {
		dirs  []string
		scope Scope
	}{{s.projects, Project}, {s.homes, Home}} {
		for _, dir := range where.dirs {
			s.absentsOf(dir, where.scope)
		}
	}
}

// absentsOf adds what is not there of the table's paths of a scope. Where several
// share a directory that is not there, in a repository below the top, that
// directory is kept absent as a whole: a mount for each path of a hundred
// repositories is felt at every start.
func (s *search) absentsOf(dir string, scope Scope) {
	for i := range Table {
		e := &Table[i]
		if e.Scope != scope || e.Absent == Leave {
			continue
		}
		if parent, _, nested := strings.Cut(e.Path, "/"); nested && dir != "." && s.keepParent(below(dir, parent), parent) {
			continue
		}
		s.absent(below(dir, e.Path), e)
	}
}

// keepParent adds a placeholder for a directory that several of the table's paths
// share, unless it is there or policy leaves a part of it to jails. It says
// whether they are kept by it.
func (s *search) keepParent(rel, name string) bool {
	if i, ok := s.seen[rel]; ok {
		return s.found.Paths[i].Treatment == Placeholder
	}
	if slices.ContainsFunc(s.o.Unprotect, func(u string) bool { return strings.HasPrefix(u, s.onHost(rel)+"/") }) {
		return false
	}
	for i := range Table {
		e := &Table[i]
		if strings.HasPrefix(e.Path, name+"/") && unprotected(s.o.Unprotect, e, path.Join(s.onHost(path.Dir(rel)), e.Path)) {
			return false
		}
	}
	if _, err := s.stat(rel); !errors.Is(err, unix.ENOENT) {
		return false
	}
	s.add(Path{Rel: rel, Treatment: Placeholder, Dir: true, Why: "holds settings of an agent"})
	return true
}

// absent adds a placeholder unless something is there.
func (s *search) absent(rel string, e *Entry) {
	if e.Absent == Leave || unprotected(s.o.Unprotect, e, s.onHost(rel)) {
		return
	}
	if _, ok := s.seen[rel]; ok {
		return
	}
	// ENOTDIR and ELOOP: what is in the way is no directory of the tree.
	if _, err := s.stat(rel); !errors.Is(err, unix.ENOENT) {
		return
	}
	s.add(Path{Rel: rel, Treatment: Placeholder, Dir: e.Absent == EmptyDir, Text: e.Text, Copy: e.Copy, Why: e.Why})
}

// finish sorts, and drops what lies within something else that is protected.
func (s *search) finish() {
	f := s.found
	f.Repositories = len(s.gits)
	f.Paths = slices.DeleteFunc(f.Paths, func(p Path) bool {
		for dir := path.Dir(p.Rel); dir != "."; dir = path.Dir(dir) {
			if _, ok := s.seen[dir]; ok {
				return true
			}
		}
		return false
	})
	slices.SortFunc(f.Paths, func(a, b Path) int { return strings.Compare(a.Rel, b.Rel) })
	slices.Sort(f.Linked)
}

// Pins lists the directories on the way to the protected paths, the deepest
// first: with one of them renamed, another could be put in its place. What is
// hidden stays hidden wherever it is moved to.
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

// Count tells how many paths have a treatment.
func (f *Found) Count(t Treatment) int {
	n := 0
	for _, p := range f.Paths {
		if p.Treatment == t {
			n++
		}
	}
	return n
}
