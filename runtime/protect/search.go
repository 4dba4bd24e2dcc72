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
	// Covered is Hidden for a socket or a pipe of the host's.
	Covered Treatment = "covered"
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
	Source string   // its path on the host
	Names  []string // others of its paths there
	// Mounts reports that the jail gets the mounts below, too.
	Mounts bool
	// Absent has absent paths protected, too.
	Absent bool
	// Home reports that the directory is a user's home. Homes are the host's home directories by
	// their owners' names, and Own those of the users who may run git in the directory.
	Home  bool
	Homes map[string]string
	Own   []string
	// Settings are git's own files of settings on the host, of the machine and of users, which
	// every repository takes.
	Settings []string
	// Readers are users beside root and the directory's owner whose files outside of the directory
	// are read: others could stop the start by theirs.
	Readers []uint32
	// Protect has the table's paths protected, but for those of Unprotect.
	Protect   bool
	Unprotect []string
	Hide      []string // patterns of names
	// Endpoints has sockets that listen and pipes covered, but for those that Reachable lists.
	// Tree reports that the directory is searched for nothing else, and NoWalk that it is a part of
	// the machine's file tree, which is too large: the kernel's list of sockets alone counts.
	Endpoints    bool
	Reachable    []string
	Tree, NoWalk bool
	// Shared reports that containers of one network namespace have the directory together: of its
	// sockets, those of the host's namespace alone are covered. OfPod reports that no pipe is.
	Shared, OfPod bool
	// Demands are paths that a link or a setting in another mounted directory leads to.
	Demands []Demand
	// Layer lies over the directory, or is nil.
	Layer  *Layer
	Limits Limits
}

// Found is the result of a search.
type Found struct {
	// Paths are sorted, and none lies within another.
	Paths        []Path
	Repositories int
	// Gits are the git directories, and Ignored the directories that a .gitignore names, without
	// those in each other.
	Gits, Ignored []string

	Searched int // names
	// Linked are protected files that have a further name, by which they may be
	// written to.
	Linked []string
	// Unheld are links in protected directories whose targets cannot be protected.
	Unheld []string
	// Outside are paths of the host, out of this directory, that links and settings lead to.
	Outside []Demand
}

// KeepsGit reports whether a path is protected as a git directory.
func (f *Found) KeepsGit(rel string) bool {
	_, ok := slices.BinarySearch(f.Gits, rel)
	return ok
}

// Search looks through a directory. It fails with a refusal where that cannot be done as a whole.
func Search(root *os.File, o Options) (*Found, error) {
	if o.Limits == (Limits{}) {
		o.Limits = DefaultLimits
	}
	o.Protect = o.Protect && !slices.ContainsFunc(o.Unprotect, func(u string) bool { return pathname.Within(o.Source, u) })
	s := &search{
		located: located{tree: tree{root: root, mounts: o.Mounts, layer: o.Layer}, source: o.Source, others: o.Names},
		o:       o, limits: o.Limits, found: &Found{}, seen: map[string]int{},
		gits:   map[string]*gitDir{},
		inside: map[string]bool{}, outside: map[string]*outsideFile{}, away: map[string]*gitDir{}, sockets: map[uint32]bool{},
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
	if s.o.NoWalk {
		return s.coverBound()
	}
	if err := s.top(); err != nil {
		return err
	}
	fd, err := s.openDir(int(s.root.Fd()), ".", ".")
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
	if err := s.coverBound(); err != nil || s.met != "" {
		return err
	}
	if err := s.layerGits(); err != nil {
		return err
	}
	if err := s.demandedGits(); err != nil {
		return err
	}
	if err := s.around(); err != nil {
		return err
	}
	if err := s.named(); err != nil {
		return err
	}
	if err := s.hookTexts(); err != nil {
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
	case s.o.Tree:
		return r.WithRemedy("mount a smaller directory, or policy: binds.sockets = [%q] leaves the host's sockets and pipes in it to jails",
			s.o.Source)
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
			return p.Treatment == Placeholder && slices.ContainsFunc(denied, func(m placeholder) bool {
				at := path.Join(o.Source, p.Rel)
				return pathname.Within(at, m.Path)
			})
		})
		t := tree{root: view, mounts: o.Mounts}
		vanished := slices.ContainsFunc(f.Paths, func(p Path) bool {
			if p.Treatment == Covered {
				return false
			}
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

// Pins lists the directories on the way to the protected paths, the deepest first: if one of them
// could be renamed, another could be put in its place. Hidden and covered files stay so
// wherever they are moved.
func (f *Found) Pins() []string {
	seen := map[string]bool{}
	var out []string
	for _, p := range f.Paths {
		if p.Treatment == Hidden || p.Treatment == Covered {
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
