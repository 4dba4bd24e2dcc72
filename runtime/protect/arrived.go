package protect

import (
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/gitrepo"
	"agentjail.dev/runtime/kernel/filetime"
)

// ArrivalKind is the kind of an arrival.
type ArrivalKind string

// The kinds, the most dangerous first: they are listed in this order.
const (
	Gitlink       ArrivalKind = "gitlink"    // in the index of a repository: its own git enters the one that is there
	NewRepository ArrivalKind = "repository" // a directory in which git runs programs that the repository names
	Hook          ArrivalKind = "hook"
	Setting       ArrivalKind = "setting" // a path of the table
	Listener      ArrivalKind = "socket"  // of the host's, which the jail could connect to
)

var arrivalKinds = []ArrivalKind{Gitlink, NewRepository, Hook, Setting, Listener}

// An Arrival is something that the host runs, or is led by, and that came or was changed.
type Arrival struct {
	Kind ArrivalKind
	Rel  string
	Why  string
}

// Arrivals are the results of a search for new paths, whichever process made them.
type Arrivals struct {
	List []Arrival
	// Total counts them, listed or not, and Searched the names that were looked at.
	Total, Searched int
	// Short reports why not all was looked at; "" where it was.
	Short string
}

// Bounds of the search: the jail chooses the content, and must not delay its own removal.
const (
	arrivalNames  = 200_000
	arrivalDepth  = 64
	arrivalNested = 8 // names of submodules, and the content of a path of the table
	arrivalListed = 64
	arrivalTime   = time.Second
)

// Arrived finds paths of the table that were added or changed below a directory since a moment.
// It goes by a file's time of change (inode(7)), which only the kernel sets. A jail cannot change
// protected paths, so that these do not show. Nor do placeholders, which are made earlier. source
// is the directory's path on the host.
//
// Directories that tools recreate as a whole are not searched, except for repositories in them
// that an index names.
func Arrived(root *os.File, source string, since time.Time) *Arrivals {
	a := &arrivals{
		located: located{tree: tree{root: root}, source: source}, since: since, until: time.Now().Add(arrivalTime), out: &Arrivals{},
		seen: map[string]bool{}, fresh: map[string]bool{},
	}
	for a.queue = []string{"."}; len(a.queue) > 0 && a.out.Short == ""; {
		dir := a.queue[0]
		a.queue = a.queue[1:]
		a.dir(dir)
	}
	for _, g := range a.indexed {
		a.gitlinks(g)
	}
	a.listening(source)
	slices.SortStableFunc(a.all, func(x, y Arrival) int {
		if n := slices.Index(arrivalKinds, x.Kind) - slices.Index(arrivalKinds, y.Kind); n != 0 {
			return n
		}
		return strings.Compare(x.Rel, y.Rel)
	})
	a.out.Total = len(a.all)
	a.out.List = a.all[:min(len(a.all), arrivalListed)]
	return a.out
}

type arrivals struct {
	located
	since time.Time
	until time.Time
	queue []string
	all   []Arrival
	seen  map[string]bool
	// fresh are directories with a new repository, and indexed the git directories whose index is
	// to be read.
	fresh   map[string]bool
	indexed []arrivedGit
	out     *Arrivals
}

// arrivedGit is a git directory, and the directory that is worked in, "" where it is not known.
type arrivedGit struct {
	rel, work string
	linked    bool // another's settings are its own
}

func (a *arrivals) add(kind ArrivalKind, rel, why string) {
	if key := string(kind) + rel; !a.seen[key] {
		a.seen[key] = true
		a.all = append(a.all, Arrival{kind, rel, why})
	}
}

// perListing is how many names are read for one look at the bounds.
const perListing = 256

// names lists those names of a directory that are wanted; one that is gone has none.
func (a *arrivals) names(rel string, wanted func(name string, typ byte) bool) (out []dirent) {
	fd, err := a.open(rel, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil
	}
	f := os.NewFile(uintptr(fd), rel)
	defer f.Close()
	for {
		list, err := f.ReadDir(perListing)
		for _, d := range list {
			typ := byte(unix.DT_REG)
			switch {
			case d.IsDir():
				typ = unix.DT_DIR
			case d.Type()&os.ModeSymlink != 0:
				typ = unix.DT_LNK
			}
			if wanted(d.Name(), typ) {
				out = append(out, dirent{d.Name(), typ})
			}
		}
		a.out.Searched += len(list)
		switch {
		case a.out.Searched > arrivalNames:
			a.out.Short = fmt.Sprintf("after %d names", arrivalNames)
		case time.Now().After(a.until):
			a.out.Short = "for want of time"
		}
		if err != nil || a.out.Short != "" {
			return out
		}
	}
}

func every(string, byte) bool { return true }

// dir looks at a directory that is worked in.
func (a *arrivals) dir(rel string) {
	list := a.names(rel, func(name string, typ byte) bool { return typ == unix.DT_DIR || notable([]byte(name)) })
	if a.isRepository(rel, list) {
		a.gitDir(arrivedGit{rel: rel})
		return
	}
	for _, d := range list {
		at := below(rel, d.name)
		if Fold(d.name) == ".git" {
			a.dotGit(at, rel, d.typ)
			continue
		}
		if e := match(path.Join(a.source, at)); e != nil {
			if a.changedWithin(at, d.typ, 0) {
				a.add(Setting, at, e.Why)
			}
			continue
		}
		if d.typ != unix.DT_DIR || slices.Contains(rebuilt, d.name) {
			continue
		}
		if strings.Count(at, "/") >= arrivalDepth {
			a.out.Short = fmt.Sprintf("below %d directories", arrivalDepth)
			continue
		}
		a.queue = append(a.queue, at)
	}
}

// dotGit examines the name by which git finds a repository, in the directory work.
func (a *arrivals) dotGit(at, work string, typ byte) {
	if typ == unix.DT_DIR {
		a.gitDir(arrivedGit{rel: at, work: work})
		return
	}
	text, err := a.Head(at, gitrepo.MaxPointer)
	if _, leads := gitrepo.GitFile(text); err == nil && !leads && typ == unix.DT_REG {
		return // git stops at it
	}
	if a.changed(at) {
		a.fresh[work] = true
		a.add(NewRepository, work, gitFile.Why)
	}
}

// gitDir examines a git directory. If it existed when the jail was made, the jail cannot change
// its settings.
func (a *arrivals) gitDir(g arrivedGit) {
	at := func(name string) string { return path.Join(g.rel, name) }
	place := g.work
	if place == "" {
		place = g.rel
	}
	_, back := a.stat(at("gitdir"))
	set := g.rel // the directory with the settings
	if r, ok := gitrepo.Look(a, g.rel); ok && back != nil && r.Common != "" && !path.IsAbs(r.Common) {
		set = r.Common
	}
	_, err := a.stat(path.Join(set, "config"))
	if g.linked = g.linked || back == nil; g.linked {
		err = nil // a further work tree's: the settings are another's
		if a.changed(at("gitdir")) {
			a.add(NewRepository, place, "a further work tree's git directory")
		}
	}
	if err != nil || a.changed(path.Join(set, "config")) || set != g.rel && a.changed(at("commondir")) {
		a.fresh[place] = true
		why := "its settings came or were changed: git runs programs that they name"
		if keys := a.programSettings(set); keys != "" {
			why += ": " + keys
		}
		a.add(NewRepository, place, why)
	}
	for _, e := range repositories() {
		name := strings.TrimPrefix(e.Path, ".git/")
		if name != "hooks" && name != "config" && !(g.linked && name == "commondir") && a.changed(at(name)) {
			a.add(Setting, at(name), e.Why)
		}
	}
	for _, d := range a.names(path.Join(set, "hooks"), every) {
		if hook := path.Join(set, "hooks", d.name); !strings.HasSuffix(d.name, ".sample") && a.changed(hook) {
			a.add(Hook, hook, "git runs it (githooks(5))")
		}
	}
	a.submodules(at("modules"), 0)
	for _, d := range a.names(at("worktrees"), every) {
		if d.typ == unix.DT_DIR {
			a.gitDir(arrivedGit{rel: path.Join(at("worktrees"), d.name), linked: true})
		}
	}
	if g.work != "" {
		a.indexed = append(a.indexed, g)
	}
}

// submodules examines the git directories of submodules, whose names can contain slashes.
func (a *arrivals) submodules(rel string, depth int) {
	if depth > arrivalNested {
		return
	}
	for _, d := range a.names(rel, every) {
		at := path.Join(rel, d.name)
		if d.typ != unix.DT_DIR {
			continue
		}
		if gitrepo.Begun(a, at) {
			a.gitDir(arrivedGit{rel: at})
			continue
		}
		a.submodules(at, depth+1)
	}
}

// changed reports whether the file at a path has changed. A missing file has not.
func (a *arrivals) changed(rel string) bool {
	fd, err := a.open(rel, unix.O_PATH)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	var st unix.Statx_t
	if unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_SYMLINK_NOFOLLOW, unix.STATX_CTIME, &st) != nil {
		return false
	}
	return filetime.After(st.Ctime, a.since)
}

// changedWithin is changed for a path and all below it.
func (a *arrivals) changedWithin(rel string, typ byte, depth int) bool {
	if a.changed(rel) {
		return true
	}
	if typ != unix.DT_DIR || depth > arrivalNested || a.out.Short != "" {
		return false
	}
	return slices.ContainsFunc(a.names(rel, every), func(d dirent) bool {
		return a.changedWithin(path.Join(rel, d.name), d.typ, depth+1)
	})
}

// gitlinks finds the entries of an index that lead git into a new repository. An unchanged index
// can have such an entry for a repository that is new. A changed one can have a new entry for a
// repository that was there: an index has no times of its entries, so that those count as old that
// .gitmodules names, if it was not changed.
func (a *arrivals) gitlinks(g arrivedGit) {
	var files []string
	for _, d := range a.names(g.rel, func(name string, _ byte) bool {
		return name == "index" || strings.HasPrefix(name, "sharedindex.")
	}) {
		files = append(files, path.Join(g.rel, d.name))
	}
	changed := slices.ContainsFunc(files, a.changed)
	if len(a.fresh) == 0 && !changed {
		return
	}
	var old []string
	if modules := path.Join(g.work, ".gitmodules"); changed && !a.changed(modules) {
		old = a.modules(modules)
	}
	for _, file := range files {
		text, _, err := a.read(file, maxIndex)
		links, ok := gitlinksOf(text)
		if err != nil || !ok {
			a.add(Gitlink, file, "it cannot be read as an index: which repositories it leads to is not known")
			continue
		}
		for _, l := range links {
			a.gitlink(path.Join(g.work, l), g.work, changed && !slices.Contains(old, l))
		}
	}
}

// gitlink looks at where an entry leads, which may be new.
func (a *arrivals) gitlink(to, from string, entry bool) {
	if !a.fresh[to] {
		st, err := a.stat(path.Join(to, ".git"))
		if err != nil {
			return
		}
		// In a directory that is not searched, or in one that was not reached.
		a.dotGit(path.Join(to, ".git"), to, byte(st.Mode&unix.S_IFMT>>12))
	}
	switch runs := "git's own status and diff in " + from + " run programs that the repository there names"; {
	case a.fresh[to]:
		a.add(Gitlink, to, runs)
	case entry:
		a.add(Gitlink, to, "the index was changed, and no .gitmodules from before names it: "+runs)
	}
}
