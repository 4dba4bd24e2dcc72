package protect

import (
	"io"
	"path"
	"slices"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/gitrepo"
)

// located is a tree with its path on the host. It is a gitrepo.Tree, whose paths are those of the
// tree, or absolute ones of the host.
type located struct {
	tree
	source string
	others []string // further paths of it
}

// isRepository reports whether git takes a directory, with these names in it, for a repository, or
// would once a jail has written to it.
func (l *located) isRepository(rel string, list []dirent) bool {
	if !slices.ContainsFunc(list, func(d dirent) bool { return Fold(d.name) == "head" }) {
		return false
	}
	_, ok := gitrepo.Look(l, rel)
	return ok
}

// place returns where a path leads: in the tree, or on the host outside of it.
func (l *located) place(at string) (rel, outside string, err error) {
	t, err := l.follow(".", at)
	switch {
	case err != nil:
		return "", "", err
	case t.outside != "":
		return "", t.outside, nil
	case t.end == "" || !t.there:
		return "", "", unix.ENOENT
	}
	return t.end, "", nil
}

// Lstat is that of gitrepo.Tree.
func (l *located) Lstat(at string) (uint32, error) {
	st, err := l.stat(at)
	if err == nil || !gone(err) {
		return st.Mode, err
	}
	dir, outside, err := l.place(path.Dir(at))
	if outside != "" {
		return gitrepo.Host{}.Lstat(path.Join(outside, path.Base(at)))
	}
	if err == nil {
		st, err = l.stat(below(dir, path.Base(at)))
	}
	return st.Mode, err
}

// Stat is that of gitrepo.Tree.
func (l *located) Stat(at string) (string, uint32, error) {
	if st, err := l.stat(at); err == nil && kind(st.Mode) != unix.DT_LNK {
		return path.Clean(at), st.Mode, nil
	}
	rel, outside, err := l.place(at)
	if outside != "" {
		return gitrepo.Host{}.Stat(outside)
	}
	if err != nil {
		return "", 0, err
	}
	st, err := l.stat(rel)
	return rel, st.Mode, err
}

// Readlink is that of gitrepo.Tree.
func (l *located) Readlink(at string) (string, error) {
	if to, err := l.readlink(at); err == nil {
		return to, nil
	}
	dir, outside, err := l.place(path.Dir(at))
	if outside != "" {
		return gitrepo.Host{}.Readlink(path.Join(outside, path.Base(at)))
	}
	if err != nil {
		return "", err
	}
	return l.readlink(below(dir, path.Base(at)))
}

// Head is that of gitrepo.Tree.
func (l *located) Head(at string, max int64) (string, error) {
	real, _, err := l.Stat(at)
	switch {
	case err != nil:
		return "", err
	case path.IsAbs(real):
		return gitrepo.Host{}.Head(real, max)
	}
	f, _, err := l.regular(real)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, max))
	return string(text), err
}
