package protect

import (
	"errors"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/openat"
	"agentjail.dev/runtime/kernel/pathname"
	"agentjail.dev/runtime/refusal"
)

// maxLinks is the kernel's own limit for one lookup (path_resolution(7)).
const maxLinks = 40

// A trail is where a path of the tree leads on the host, component by component.
type trail struct {
	links []string // symbolic links on the way
	// through are directories that are not there and that a link leads into and out of again.
	through []string
	// end is a place of the tree without links on its way; "" where the path leads out of the
	// tree or in a circle. "." is the tree's top.
	end string
	// outside is the host's path where it leads out of the tree, without links.
	outside string
	// there reports that end exists, and typ its type (DT_DIR and so on). blocked reports that end
	// is a file in place of a directory on the way, so that the path itself does not exist.
	there, blocked bool
	typ            byte
	// dangling reports that a link's target does not exist: a process that creates the target
	// fills the link.
	dangling bool
}

// A component is a part of a path that is still to be walked.
type component struct {
	name string
	link bool // it is of a link's text
}

func components(p string, link bool) []component {
	var out []component
	for name := range strings.SplitSeq(p, "/") {
		if name != "" && name != "." {
			out = append(out, component{name, link})
		}
	}
	return out
}

// follow walks a path of the host, or one from a directory of the host or of the tree that has no
// link on its way. The host's programs follow links, so each is read and walked, as
// path_resolution(7) has it.
func (s *located) follow(dir, p string) (t trail, err error) {
	if path.IsAbs(dir) && !path.IsAbs(p) {
		p = dir + "/" + p
	}
	w := walk{s: s, t: &t, cur: dir, todo: components(p, false)}
	if path.IsAbs(p) {
		err = w.leave("/")
	}
	for len(w.todo) > 0 && err == nil && !w.done {
		c := w.todo[0]
		w.todo = w.todo[1:]
		err = w.step(c)
	}
	if err != nil || w.done {
		return t, err
	}
	if t.outside = w.host; t.outside != "" {
		return t, nil
	}
	t.end, t.there = path.Join(append([]string{w.cur}, w.missing...)...), len(w.missing) == 0
	if t.there && t.typ == 0 {
		t.typ = unix.DT_DIR
	}
	return t, nil
}

// walk is follow's state.
type walk struct {
	s       *located
	t       *trail
	cur     string   // a directory of the tree
	missing []string // missing names below cur
	host    string   // a directory of the host outside the tree; "" in the tree
	// hostLinks counts the links outside the tree.
	hostLinks int
	todo      []component
	done      bool
}

func (w *walk) step(c component) error {
	w.t.typ = 0
	if w.host != "" {
		w.outside(c)
		return nil
	}
	if c.name == ".." {
		switch n := len(w.missing); {
		case n > 0:
			w.t.through = append(w.t.through, path.Join(append([]string{w.cur}, w.missing...)...))
			w.missing = w.missing[:n-1]
		case w.cur == ".":
			return w.leave(path.Dir(w.s.source))
		default:
			w.cur = path.Dir(w.cur)
		}
		return nil
	}
	if len(w.missing) > 0 {
		w.missing = append(w.missing, c.name)
		return nil
	}
	at := below(w.cur, c.name)
	st, err := w.s.stat(at)
	switch {
	case errors.Is(err, unix.ENOENT):
		w.missing, w.t.dangling = []string{c.name}, w.t.dangling || c.link
		return nil
	case gone(err): // another file system that the jail does not get, or not to be looked into
		w.done = true
		return nil
	case err != nil:
		return err
	}
	switch typ := kind(st.Mode); typ {
	case unix.DT_LNK:
		return w.link(at)
	case unix.DT_DIR:
		w.cur = at
	default:
		w.t.end, w.t.there, w.t.typ, w.done, w.t.blocked = at, true, typ, true, len(w.todo) > 0
		w.t.dangling = w.t.dangling || w.t.blocked && (c.link || w.todo[0].link)
	}
	return nil
}

// kind is the type of a file as getdents64(2) has it: DT_DIR is S_IFDIR>>12, and so on.
func kind(mode uint32) byte { return byte(mode & unix.S_IFMT >> 12) }

func join(todo []component) string {
	var names []string
	for _, c := range todo {
		names = append(names, c.name)
	}
	return strings.Join(names, "/")
}

// link goes on where a link leads.
func (w *walk) link(at string) error {
	w.t.links = append(w.t.links, at)
	if len(w.t.links) > maxLinks {
		w.done = true // ELOOP for the host's programs, too: the links are held
		return nil
	}
	text, err := w.s.readlink(at)
	if err != nil {
		return err
	}
	w.todo = append(components(text, true), w.todo...)
	if path.IsAbs(text) {
		return w.leave("/")
	}
	return nil
}

// leave goes on from a directory of the host outside the tree.
func (w *walk) leave(dir string) error {
	top := components(w.s.source, false)
	if dir == "/" && len(w.todo) >= len(top) && join(w.todo[:len(top)]) == join(top) {
		w.cur, w.host, w.todo = ".", "", w.todo[len(top):] // each ".." in the rest is walked
		return nil
	}
	w.host = dir
	return nil
}

// outside is step outside the tree, until a part of the path is the tree's top.
func (w *walk) outside(c component) {
	if c.name == ".." {
		w.host = path.Dir(w.host)
		return
	}
	at := path.Join(w.host, c.name)
	if rel, in := w.s.inTree(at); in {
		w.cur, w.host = rel, ""
		return
	}
	if isOwn(at) {
		if w.host = "/"; path.Base(at) == "cwd" { // hooks and programs of settings run in the work tree
			w.cur, w.host = ".", ""
		}
		return
	}
	text, err := os.Readlink(at)
	if err != nil { // no link, or nothing
		w.host = at
		if rel, in := w.s.entered(at); in {
			w.cur, w.host, w.todo = ".", "", append(components(rel, c.link), w.todo...)
		}
		return
	}
	if w.hostLinks++; w.hostLinks > maxLinks {
		w.done = true
		return
	}
	w.todo = append(components(text, true), w.todo...)
	if path.IsAbs(text) {
		_ = w.leave("/")
	}
}

// isOwn reports whether a path is that of a process's root or working directory (proc(5)): what
// process is going to read it is not known.
func isOwn(at string) bool {
	parts := strings.Split(at, "/")
	return len(parts) > 3 && parts[1] == "proc" && strings.Trim(parts[2], "0123456789") == "" &&
		(len(parts) == 4 || len(parts) == 6 && parts[3] == "task") && (path.Base(at) == "root" || path.Base(at) == "cwd")
}

// entered returns where in the tree a directory of the host is that another mount shows.
func (s *located) entered(at string) (rel string, ok bool) {
	fd, err := openat.Open(unix.AT_FDCWD, at, openat.NoLinks, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return "", false
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	top, err := s.statOwn(".")
	if err != nil || unix.Fstat(fd, &st) != nil || st.Dev != top.Dev || st.Ino == top.Ino {
		return ".", err == nil && st.Dev == top.Dev && st.Ino == top.Ino
	}
	// Its name in the mount of the tree.
	handle, _, err := unix.NameToHandleAt(fd, "", unix.AT_EMPTY_PATH)
	if err != nil {
		return "", false
	}
	mount, err := s.open(".", unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return "", false
	}
	defer unix.Close(mount)
	own, err := unix.OpenByHandleAt(mount, handle, unix.O_PATH)
	if err != nil {
		return "", false
	}
	defer unix.Close(own)
	from, err := openat.Name(mount)
	name, err2 := openat.Name(own)
	if err != nil || err2 != nil {
		return "", false
	}
	return pathname.Rel(name, from)
}

// inTree is the path in the tree of one on the host.
func (s *located) inTree(abs string) (rel string, ok bool) {
	top := func(at string) bool {
		if rel, ok = ".", abs == at; !ok {
			rel, ok = pathname.Rel(abs, at)
		}
		return ok
	}
	if !top(s.source) && !slices.ContainsFunc(s.others, top) {
		return "", false
	}
	return rel, true
}

// A Demand is a path that is to be kept from a jail for another reason than its name: a link, or
// a setting of git's, leads to it.
type Demand struct {
	Path string // the host's
	From string // the host's path that leads there
	Why  string
	// Dir is the type of a placeholder; an existing file stays as it is.
	Dir bool
	// Git reports that git takes the path for a git directory: an existing one is protected as
	// such, and not as a whole.
	Git bool
}

// hold protects a path of a directory: each link on its way, and the target. A missing file gets
// a placeholder if absent is true, or if a link leads to it.
func (s *search) hold(dir, p string, e *Entry, absent bool) error {
	if path.IsAbs(dir) && !path.IsAbs(p) {
		p = path.Join(dir, p)
	}
	if s.unprotected(e, below(dir, p)) {
		return nil
	}
	t, err := s.follow(dir, p)
	if err != nil {
		return err
	}
	for _, l := range t.links {
		s.add(Path{Rel: l, Treatment: ReadOnly, Link: true, Why: e.Why})
	}
	if s.unprotected(e, t.end) {
		return nil
	}
	for _, d := range t.through {
		s.add(Path{Rel: d, Treatment: Placeholder, Dir: true, Why: e.Why})
	}
	switch {
	case t.outside != "":
		s.found.Outside = append(s.found.Outside, Demand{
			Path: t.outside, From: s.onHost(below(dir, p)), Why: e.Why,
			Dir: e.Absent != EmptyFile,
		})
	case t.end == "":
	case t.end == ".":
		return s.whole(below(dir, p), e)
	case t.blocked && e.Absent == Leave && !t.dangling: // it stands for a missing path
	case t.there:
		return s.keep(t.end, t.typ, e)
	case absent && e.Absent != Leave, t.dangling:
		s.add(Path{Rel: t.end, Treatment: Placeholder, Dir: e.Absent != EmptyFile, Text: e.Text, Copy: e.Copy, Why: e.Why})
	}
	return nil
}

// unprotected reports whether policy leaves a path of the tree to jails.
func (s *search) unprotected(e *Entry, rel string) bool {
	return unprotected(s.o.Unprotect, e, s.onHost(rel))
}

// whole refuses a path that could be protected only together with the directory that the jail is
// to write to.
func (s *search) whole(rel string, e *Entry) error {
	return refusal.New(refusal.BindSearch, "%s leads to the mounted directory itself, in which the jail may write: %s", s.onHost(rel), e.Why).
		WithRemedy("remove it on the host, or policy: binds.unprotect = [%q]", s.onHost(rel))
}
