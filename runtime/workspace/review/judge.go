package review

import (
	"os"
	"path"
	"slices"
	"sort"
	"strings"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/overlayfs"
	"agentjail.dev/runtime/kernel/pathname"
	"agentjail.dev/runtime/kernel/printable"
	"agentjail.dev/runtime/protect"
)

// guarded are the places of a tree that its protected paths lead to: the links on their way, and
// their ends. Paths are as protect.Fold returns them.
type guarded struct {
	why  map[string]string // of each place, the reason
	gits map[string]bool   // git directories
	// there are those places that exist, sorted, and paths the same as the directory has them.
	there, paths []string
	// ignored are directories that the project does not keep.
	ignored []string
}

// guarded searches the directory, as it would be with a layer. A directory that cannot be searched
// is protected as a whole.
func (w *walker) guarded(l *protect.Layer) guarded {
	g := guarded{why: map[string]string{}, gits: map[string]bool{}}
	o := w.o.Search
	o.Layer = l
	found, err := protect.Search(w.directory, o)
	if err != nil {
		g.why["."] = "what protected paths lead to cannot be found: " + err.Error()
		return g
	}
	for _, p := range found.Paths {
		at := protect.Fold(p.Rel)
		if g.why[at] = p.Why; p.Treatment != protect.Placeholder {
			g.there, g.paths = append(g.there, at), append(g.paths, p.Rel)
		}
	}
	for _, dir := range found.Gits {
		g.gits[protect.Fold(dir)] = true
		g.there = append(g.there, protect.Fold(dir))
	}
	slices.Sort(g.there)
	for _, dir := range found.Ignored {
		g.ignored = append(g.ignored, protect.Fold(dir))
	}
	return g
}

// known returns what is protected in the directory as it is.
func (w *walker) known() guarded {
	if w.out.before.why == nil {
		w.out.before = w.guarded(nil)
	}
	return w.out.before
}

// ignored reports whether a path lies in a directory that the project does not keep: it is in a
// .gitignore of the directory's own, or package managers make it as a whole.
func (w *walker) ignored(at string) bool {
	in := func(dir string) bool { return pathname.Below(protect.Fold(at), dir) }
	return protect.InPackages(at) || slices.ContainsFunc(w.known().ignored, in)
}

// goes reports whether a protected path may be removed with an ignored directory that it lies in:
// it is one by its name, or of a repository there. No path that settings name may.
func (w *walker) goes(at string) bool {
	return w.ignored(at) && (slices.ContainsFunc(strings.Split(at, "/"), isDotGit) || protect.Inside(w.o.Path, at, nil) != nil)
}

// at returns why a path is protected; "" where it is not.
func (g guarded) at(rel string) string {
	for at := protect.Fold(rel); ; at = path.Dir(at) {
		switch why, ok := g.why[at]; {
		case ok:
			return why
		case at == ".":
			return ""
		case g.gits[path.Dir(at)]:
			return "a part of a git directory: git takes hooks and settings from it"
		}
	}
}

// below returns a protected path in a directory, but for those that are to be passed over; "" for
// none.
func (g guarded) below(rel string, pass func(at string) bool) string {
	rel = protect.Fold(rel) + "/"
	for i := sort.SearchStrings(g.there, rel); i < len(g.there) && strings.HasPrefix(g.there[i], rel); i++ {
		if !pass(g.there[i]) {
			return g.there[i]
		}
	}
	return ""
}

// layer is what some changes make of the directory.
func (w *walker) layer(list []*Change) *protect.Layer {
	files := make(map[string]protect.LayerFile, len(list))
	for _, c := range list {
		f := protect.LayerFile{Mode: c.New.Mode, Old: c.Old.Ino, Target: c.Target, Open: func() (*os.File, error) { return w.open(c) }}
		switch {
		case c.Kind == Deleted:
			f.Mode = 0
		case c.Type == Dir && typeOf(c.Old.Mode) == Dir:
			continue // with the same files in it
		}
		files[c.Path] = f
	}
	return protect.NewLayer(files)
}

// open opens the file of a change, as it was when it was compared.
func (w *walker) open(c *Change) (*os.File, error) {
	root := w.lower
	if c.Source.Upper {
		root = w.upper
	}
	fd, err := overlayfs.Beneath(root, c.Source.Path, unix.O_RDONLY)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: c.Path, Err: err}
	}
	f := os.NewFile(uintptr(fd), c.Path)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || StateOf(&st) != c.New {
		f.Close()
		return nil, &os.PathError{Op: "open", Path: c.Path, Err: unix.ESTALE}
	}
	return f, nil
}

// maxJudged bounds how often changes are left out, of those that were left, by what the others make
// of protected paths.
const maxJudged = 8

// Judge marks those of some changes that are protected where just these are applied, by the
// directory as it is and as it will be. It reports whether there are such without a mark before.
func (r *Review) Judge(list []*Change) (found bool) {
	if r.w == nil || len(list) == 0 || slices.Equal(list, r.judged) {
		return false
	}
	r.judged = slices.Clone(list)
	r.w.known()
	after := r.w.guarded(r.w.layer(list))
	if r.rounds++; r.rounds > maxJudged {
		after.why["."] = "which files protected paths lead to depends on too many of the changes (remedy: apply fewer, by their PATHs)"
	}
	for _, c := range list {
		why := r.before.at(c.Path)
		if why == "" {
			why = after.at(c.Path)
		}
		pass := func(at string) bool { return c.Kind == Deleted && r.w.goes(at) }
		if in := r.before.below(c.Path, pass); why == "" && in != "" && c.Conflict == "" && (c.Kind == Deleted || c.Kind == Type) {
			why = "it has " + printable.Line(in, 0)
		}
		if why == "" && c.Kind == Mode && c.shared && r.isLinked(c.Old.Ino) {
			why = "a protected file has this name, too (a hard link)"
		}
		if why != "" && !c.Has(Protected) {
			c.Marks, c.Implied, found = slices.Insert(c.Marks, 0, Mark{Protected, why}), c.Implied && c.By != "", true
		}
	}
	return found
}

// isLinked reports whether a file of the directory, which has several names, has one that is
// protected.
func (r *Review) isLinked(ino uint64) bool {
	if r.linked == nil {
		r.linked = map[uint64]bool{}
		for _, at := range r.before.paths {
			note := func(st *unix.Stat_t) { r.linked[st.Ino] = r.linked[st.Ino] || st.Nlink > 1 && typeOf(st.Mode) == File }
			if st, err := overlayfs.Stat(r.w.lower, at); err == nil && typeOf(st.Mode) != Dir {
				note(&st)
				continue
			}
			_ = overlayfs.Walk(r.w.ctx, r.w.lower, at, func(e overlayfs.Entry, err error) error {
				if err == nil {
					note(&e.Stat)
				}
				return nil
			})
		}
	}
	return r.linked[ino]
}

// mark marks the protected ones of changes that are chosen together: where all of them are applied,
// and where an apply without options leaves out what it has to.
func (r *Review) mark(list []*Change) {
	if slices.Equal(list, r.marked) {
		return
	}
	r.marked = slices.Clone(list)
	for _, c := range list {
		c.Marks, c.Implied = slices.Clone(c.own), c.implied
	}
	r.judged, r.rounds = nil, 0
	without := []string{Never}
	for {
		rest := slices.DeleteFunc(slices.Clone(list), func(c *Change) bool { return slices.ContainsFunc(without, c.Has) })
		if len(rest) == 0 || slices.Equal(rest, r.judged) {
			return
		}
		r.Judge(rest)
		without = []string{Never, Protected, Out}
	}
}
