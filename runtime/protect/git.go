package protect

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/gitrepo"
	"agentjail.dev/runtime/kernel/atomicfile"
	"agentjail.dev/runtime/kernel/openat"
	"agentjail.dev/runtime/protect/gitconfig"
	"agentjail.dev/runtime/refusal"
)

// gitDir is a directory that git keeps a repository in.
type gitDir struct {
	rel   string   // or an absolute path of the host
	works []string // the directories that are worked in, as far as they are known; as rel
	// linked reports that it belongs to a further working directory (git-worktree(1))
	// and shares another one's hooks and config.
	linked bool
	names  map[string]bool // the existing names of the table, folded
	common string          // of one outside the tree: the directory with its config and hooks
}

// Protected paths of a repository with names outside the table. Each has the entry of the path
// that leads to it, so that binds.unprotect leaves both to jails.
var (
	gitFile = &Entry{Path: ".git", Absent: EmptyDir, Why: "leads git to its directory, config and hooks (gitrepository-layout(5))"}
	// gitMark is a file by which a tool only keeps git from looking further up: git stops at it.
	gitMark = &Entry{Path: ".git", Copy: true, Why: "would lead git to another directory's config and hooks"}
	gitLink = &Entry{Path: ".git/commondir", Absent: EmptyDir, Why: "leads git to another directory's config and hooks"}
)

// gitAt looks at a ".git" in the directory work, which is one of the tree or of the host.
func (s *search) gitAt(work, name string) error {
	t, err := s.lead(work, name, gitFile, false)
	text := ""
	switch {
	case err != nil:
		return err
	case t.outside != "":
		_, mode, err := gitrepo.Host{}.Stat(t.outside)
		if err == nil && kind(mode) == unix.DT_DIR {
			return s.outsideGit(t.outside, work)
		}
		if text, err = (gitrepo.Host{}).Head(t.outside, gitrepo.MaxPointer); err != nil {
			return nil //nolint:nilerr // git stops at it, too
		}
	case !t.there:
		return nil
	case t.typ == unix.DT_DIR:
		return s.gitDir(t.end, work)
	default:
		if text, err = s.text(t.end); err != nil {
			return err
		}
		e := gitFile
		if _, leads := gitrepo.GitFile(text); !leads {
			e = gitMark
		}
		if !s.unprotected(e, t.end) {
			if err := s.keep(t.end, t.typ, e); err != nil {
				return err
			}
		}
	}
	to, ok := gitrepo.GitFile(text)
	if !ok {
		return nil
	}
	t, err = s.lead(work, to, gitFile, true)
	switch {
	case err != nil:
		return err
	case t.outside != "":
		return s.outsideGit(t.outside, work)
	case t.typ != unix.DT_DIR:
		return nil
	}
	return s.gitDir(t.end, work)
}

// way follows a path that git reads in a file or uses by its name, and protects the links on it.
func (s *search) way(dir, p string, e *Entry) (t trail, err error) {
	if t, err = s.follow(dir, p); err != nil {
		return t, err
	}
	for _, l := range t.links {
		if !s.unprotected(e, l) {
			s.add(Path{Rel: l, Treatment: ReadOnly, Link: true, Why: e.Why})
		}
	}
	for _, d := range t.through {
		if !s.unprotected(e, d) {
			s.add(Path{Rel: d, Treatment: Placeholder, Dir: true, Why: e.Why})
		}
	}
	return t, nil
}

// lead returns the target of a path that leads git to a git directory. Where a target does not
// exist, it is kept absent; one in another mounted directory is protected there as a git directory.
func (s *search) lead(dir, p string, e *Entry, absent bool) (t trail, err error) {
	if t, err = s.way(dir, p, e); err != nil {
		return t, err
	}
	switch {
	case t.outside != "":
		s.found.Outside = append(s.found.Outside, Demand{
			Path: t.outside, From: s.onHost(below(dir, p)), Why: e.Why, Dir: true,
			Git: true,
		})
	case !absent && !t.dangling || t.end == "" || s.unprotected(e, t.end):
	case t.blocked:
		return t, s.keep(t.end, t.typ, e)
	case !t.there:
		s.add(Path{Rel: t.end, Treatment: Placeholder, Dir: e.Absent != EmptyFile, Text: e.Text, Copy: e.Copy, Why: e.Why})
	}
	return t, nil
}

// gitDir protects a git directory, which is that of the directory work; "" where that is not known.
// A directory that a file leads to is taken for one whatever is in it: git takes it for one as soon
// as the jail has filled it.
func (s *search) gitDir(rel, work string) error {
	if !s.o.Protect {
		return nil
	}
	g := s.gits[rel]
	known := g != nil
	if !known {
		g = &gitDir{rel: rel}
		s.gits[rel] = g
		s.order = append(s.order, g)
	}
	if work == "" || slices.Contains(g.works, work) {
		if known {
			return nil
		}
	} else {
		g.works = append(g.works, work)
	}
	if known {
		return s.common(g, work)
	}
	return s.inGit(g, work)
}

// inGit protects the existing paths of the table in a git directory, and looks for git
// directories in it.
func (s *search) inGit(g *gitDir, work string) error {
	list, err := s.listed(g.rel, func(name []byte, typ byte) bool { return inGit()[Fold(string(name))] })
	if err != nil {
		return err
	}
	g.names = place(g.rel, list).names
	if err := s.common(g, work); err != nil {
		return err
	}
	for _, d := range list {
		at, folded := below(g.rel, d.name), Fold(d.name)
		for _, e := range repositories() {
			first, rest, _ := strings.Cut(strings.TrimPrefix(e.Path, ".git/"), "/")
			if first != folded {
				continue
			}
			if err := s.hold(g.rel, path.Join(d.name, rest), e, false); err != nil {
				return err
			}
		}
		switch {
		case d.typ != unix.DT_DIR:
		case folded == "modules":
			err = s.modules(at, 0)
		case folded == "worktrees":
			err = s.worktrees(at)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// layerGits protects the git directories that the layer has, or lies in, also where no directory is
// searched.
func (s *search) layerGits() error {
	if s.layer == nil {
		return nil
	}
	seen := map[string]bool{}
	for _, dir := range slices.Sorted(maps.Keys(s.layer.names)) {
		for ; !seen[dir]; dir = path.Dir(dir) {
			seen[dir] = true
			if _, ok := gitrepo.Look(s, dir); !ok || s.unprotected(gitFile, dir) {
				continue
			}
			if err := s.gitDir(dir, ""); err != nil {
				return err
			}
		}
	}
	return nil
}

// listed lists a directory of the tree, and counts its names.
func (s *search) listed(rel string, wanted func(name []byte, typ byte) bool) ([]dirent, error) {
	l := s.list(rel, s.buf, s.o.Limits.Entries+1, wanted)
	s.found.Searched += l.read
	if s.o.Limits.Entries -= l.read; s.o.Limits.Entries < 0 {
		s.tooMany(rel)
		return nil, nil
	}
	if l.err != nil && !gone(l.err) {
		return nil, l.err
	}
	return l.names, nil
}

// text is the text of a file by which git finds a directory, whatever links lead to it; "" where
// there is no such file.
func (s *search) text(rel string) (string, error) {
	text, err := s.Head(rel, gitrepo.MaxPointer+1)
	switch {
	case err == nil && len(text) > gitrepo.MaxPointer:
		return "", fmt.Errorf("%s: %w: more than %d bytes", rel, atomicfile.ErrTooLong, gitrepo.MaxPointer)
	case err == nil:
		return text, nil
	case gone(err) || errors.Is(err, openat.ErrIrregular):
		return "", nil
	}
	return "", err
}

// common follows a git directory's commondir to the directory from which git takes config and
// hooks instead.
func (s *search) common(g *gitDir, work string) error {
	if !g.names["commondir"] {
		return nil
	}
	text, err := s.text(below(g.rel, "commondir"))
	if err != nil || text == "" {
		return err
	}
	t, err := s.lead(g.rel, gitrepo.Pointer(text), gitLink, true)
	if err == nil && t.outside != "" {
		return s.outsideGit(t.outside, work)
	}
	if err != nil || t.typ != unix.DT_DIR || t.end == g.rel {
		return err
	}
	g.linked = true
	return s.gitDir(t.end, work)
}

// modules looks for the git directories of submodules, whose names can contain slashes
// ("lib/net/http").
func (s *search) modules(rel string, depth int) error {
	if depth > s.o.Limits.Depth {
		s.tooDeep(rel)
		return nil
	}
	list, err := s.listed(rel, func(_ []byte, typ byte) bool { return typ == unix.DT_DIR })
	if err != nil {
		return err
	}
	for _, d := range list {
		at := below(rel, d.name)
		if gitrepo.Begun(s, at) {
			if err := s.gitDir(at, ""); err != nil {
				return err
			}
			continue
		}
		if err := s.modules(at, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// worktrees examines the git directories of further working directories.
func (s *search) worktrees(rel string) error {
	list, err := s.listed(rel, func(_ []byte, typ byte) bool { return typ == unix.DT_DIR })
	if err != nil {
		return err
	}
	for _, d := range list {
		at := below(rel, d.name)
		work := ""
		// gitdir names the ".git" of the working directory.
		text, err := s.text(below(at, "gitdir"))
		if err != nil {
			return err
		}
		if text = gitrepo.Pointer(text); text != "" {
			text = path.Dir(text)
			if !path.IsAbs(text) {
				text = path.Join(s.onHost(at), text)
			}
			in := false
			if work, in = s.inTree(text); !in {
				work = text
			}
		}
		if err := s.gitDir(at, work); err != nil {
			return err
		}
		s.gits[at].linked = true
	}
	return nil
}

// absentGit adds placeholders to a git directory.
func (s *search) absentGit(g *gitDir) error {
	for _, e := range repositories() {
		name := strings.TrimPrefix(e.Path, ".git/")
		if g.linked && name != "config.worktree" {
			continue // they are the other directory's
		}
		if first, _, _ := strings.Cut(name, "/"); g.names[first] {
			if err := s.hold(g.rel, name, e, true); err != nil {
				return err
			}
		} else if e.Absent != Leave {
			s.absent(below(g.rel, name), e)
		}
	}
	return nil
}

// named protects files and directories of the tree that settings name: git runs the programs in
// core.hooksPath, and reads further settings. Settings of users and of the machine that name
// absolute paths count where there is no repository, too.
func (s *search) named() error {
	if !s.o.Protect {
		return nil
	}
	for i := 0; i < len(s.order); i++ { // a file may lead to further ones
		g := s.order[i]
		var files []string
		for _, name := range []string{"config", "config.worktree"} {
			if g.names[name] {
				files = append(files, below(g.rel, name))
			}
		}
		if err := s.settingsOf(g, files); err != nil {
			return err
		}
	}
	for _, g := range s.abroad {
		if err := s.inOutsideGit(g); err != nil {
			return err
		}
	}
	if len(s.order)+len(s.abroad) > 0 {
		return nil
	}
	return s.settingsOf(nil, nil)
}

// settingsOf protects the files that the settings of a repository name, together with those of
// users and of the machine.
func (s *search) settingsOf(g *gitDir, files []string) error {
	r := reading{search: s, g: g, seen: map[string]bool{}}
	for _, file := range append(files, s.o.Settings...) {
		if err := r.file(file, 0); err != nil {
			return err
		}
	}
	return nil
}

// reading is the state of reading a repository's settings.
type reading struct {
	*search
	g     *gitDir         // nil for settings that no repository takes yet
	seen  map[string]bool // files
	words int             // that were looked up
}

// maxIncludes is git's own limit of files that include each other (MAX_INCLUDE_DEPTH in its
// config.c). maxSettingFiles and maxLookedUp bound how many files a repository's settings may be
// in, and how many words of them are looked up in its work trees.
const (
	maxIncludes     = 10
	maxSettingFiles = 500
	maxLookedUp     = 50_000
)

// file reads a file of settings of the tree, or of the host, and the files that it includes.
func (r *reading) file(rel string, depth int) error {
	if i, ok := r.search.seen[rel]; ok && r.found.Paths[i].Treatment == Private {
		if r.seen[rel] {
			return nil
		}
		r.seen[rel] = true
		return r.settings(gitconfig.Scan(r.found.Paths[i].Text), rel, depth)
	}
	if f := r.outside[rel]; f != nil {
		return r.outsideFile(f, depth)
	}
	t, err := r.follow(".", rel)
	if err == nil && t.outside != "" {
		f := &outsideFile{name: r.onHost(rel), at: t.outside}
		text, err := r.outsideText(f)
		if err != nil {
			return r.tooLong(f.at)
		}
		f.settings = gitconfig.Scan(text)
		if path.IsAbs(rel) {
			r.outside[rel] = f
		}
		return r.outsideFile(f, depth)
	}
	if err != nil || !t.there || t.typ != unix.DT_REG || r.seen[t.end] {
		return err
	}
	if path.IsAbs(rel) || strings.HasPrefix(rel, "../") {
		rel = t.end
	}
	r.seen[t.end] = true
	text, _, err := r.read(t.end, maxCopy)
	switch {
	case errors.Is(err, atomicfile.ErrTooLong) || len(r.seen) > maxSettingFiles:
		return r.tooLong(t.end)
	case err != nil && !gone(err):
		return err
	}
	return r.settings(gitconfig.Scan(text), rel, depth)
}

// tooLong refuses settings that are not read to their end.
func (r *reading) tooLong(rel string) error {
	if r.unprotected(&Entry{Path: ".git/config"}, rel) {
		return nil
	}
	return refusal.New(refusal.BindSearch, "%s has more than %d bytes, includes more than %d files or names more than %d paths: programs that it has git run cannot be protected",
		r.onHost(rel), maxCopy, maxSettingFiles, maxLookedUp).WithRemedy("shorten it, or policy: binds.unprotect = [%q]", r.onHost(rel))
}

// settings protects the files that settings name. rel is the name of their file.
func (r *reading) settings(list []gitconfig.Setting, rel string, depth int) error {
	for _, set := range list {
		if err := r.setting(set, rel, depth); err != nil {
			return err
		}
	}
	return nil
}

// setting protects the files that a setting names.
func (r *reading) setting(set gitconfig.Setting, file string, depth int) error {
	if set.Section == "core" && set.Key == "worktree" && r.g != nil {
		t, err := r.way(r.g.rel, set.Value, gitFile)
		work := t.outside
		if t.there && t.typ == unix.DT_DIR {
			work = t.end
		}
		if err == nil && work != "" && !slices.Contains(r.g.works, work) {
			r.g.works = append(r.g.works, work)
		}
		return err
	}
	n, ok := namedBy(set)
	if !ok {
		return nil
	}
	e := &Entry{Path: ".git/config", Why: "the repository's config names it: " + n.name + " (git-config(1))", Absent: n.absent}
	value := set.Value
	if set.Key == "" {
		value = set.Sub
	}
	for _, from := range r.from(n.what, file) {
		for _, w := range r.wordsOf(n, value) {
			if r.words++; r.words > maxLookedUp {
				return r.tooLong(file)
			}
			if from == "" && !path.IsAbs(w.path) {
				continue
			}
			if err := r.holdNamed(from, w, n, e); err != nil {
				return err
			}
			if n.what != included || depth >= maxIncludes {
				continue
			}
			at := w.path
			if !path.IsAbs(at) {
				at = path.Join(from, at) // by the name that git opens, whatever it is a link to
			}
			if err := r.file(at, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

// from lists the directories that a setting's paths are relative to: the file that includes
// another, or those that git runs programs in, which are the tops of work trees, or the git
// directory where there is none (githooks(5)). It is "" where none is known.
func (r *reading) from(what subject, file string) []string {
	switch {
	case what == included:
		return []string{path.Dir(file)}
	case r.g == nil:
		return []string{""}
	case len(r.g.works) > 0:
		return r.g.works
	case path.Base(r.onHost(r.g.rel)) != ".git":
		return []string{r.g.rel}
	case r.g.rel == ".":
		return []string{path.Dir(r.o.Source), "."}
	}
	return []string{path.Dir(r.g.rel), r.g.rel}
}
