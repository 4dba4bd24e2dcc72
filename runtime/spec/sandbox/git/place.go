package git

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/gitrepo"
	"agentjail.dev/runtime/kernel/atomicfile"
	"agentjail.dev/runtime/kernel/invoker"
	"agentjail.dev/runtime/kernel/pathname"
	"agentjail.dev/runtime/refusal"
)

// A Place is a repository as a jail needs it.
type Place struct {
	// Start is the directory that git is called in.
	Start string
	// Dirs are the directories that git needs, none within another: first the work tree, or the
	// bare repository; then git directories elsewhere, of a submodule or a further work tree.
	Dirs     []string
	UID, GID uint32
}

// maxLink bounds a file that leads git to a directory, in bytes.
const maxLink = unix.PathMax + 16

// workTreeOf reads core.worktree of a git directory.
type workTreeOf func(gitDir string) (string, error)

// Find finds the repository of a directory, as git does (setup_git_directory), and its parts.
//
// A file ".git" leads to another directory, and a jail may have written that file. The directory
// is only accepted if it names the work tree in return, as git makes both sides do
// (gitrepository-layout(5): worktrees/ID/gitdir; core.worktree), or if the person has named it:
// with. Otherwise a jail could open another directory to itself through one that it can write to.
//
// The repository is read with the invoker's rights, to whom it must belong.
func Find(dir string, with []string, workTree workTreeOf) (p *Place, err error) {
	err = invoker.Do(func() error { p, err = find(dir, with, workTree); return err })
	if err == nil {
		err = invoker.Owns(p.UID, p.Start)
	}
	return p, err
}

func find(dir string, with []string, workTree workTreeOf) (*Place, error) {
	abs, err := filepath.Abs(dir)
	if err == nil {
		abs, err = filepath.EvalSymlinks(abs)
	}
	if err != nil {
		return nil, fmt.Errorf("finding the repository of %s: %w", dir, err)
	}
	var st unix.Stat_t
	if err := unix.Stat(abs, &st); err != nil {
		return nil, fmt.Errorf("finding the repository of %s: %w", dir, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return nil, fmt.Errorf("%s is not a directory", dir)
	}
	f := &finder{Place: Place{Start: abs, UID: st.Uid, GID: st.Gid}, workTree: workTree}
	for _, w := range with {
		real, err := filepath.Abs(w)
		if err == nil {
			real, err = filepath.EvalSymlinks(real)
		}
		if err != nil {
			return nil, fmt.Errorf("--with %s: %w", w, err)
		}
		f.with = append(f.with, real)
	}
	top, err := f.up(abs)
	if err != nil {
		return nil, err
	}
	if top == "" {
		return nil, refusal.New(refusal.Git, "there is no repository in %s, nor above it in directories of the same owner",
			abs).WithRemedy("name a directory in a repository")
	}
	return &f.Place, f.borrowed()
}

type finder struct {
	Place
	with     []string
	gitDir   string // with the objects
	workTree workTreeOf
}

// up goes from a directory towards the root until one is a repository's, and returns that; "" for
// none.
func (f *finder) up(dir string) (string, error) {
	for ; ; dir = filepath.Dir(dir) {
		var st unix.Stat_t
		if unix.Lstat(dir, &st) != nil || st.Uid != f.UID {
			return "", nil // another's directory: its repository is not the person's
		}
		found, err := f.at(dir)
		if err != nil || found {
			return dir, err
		}
		if dir == "/" {
			return "", nil
		}
	}
}

// at looks for a repository in one directory.
func (f *finder) at(dir string) (bool, error) {
	r, ok, err := gitrepo.At(gitrepo.Host{}, dir)
	if err != nil {
		return false, refusal.New(refusal.Git, "finding the repository: %v", err).
			WithRemedy("look at the file: it should read `gitdir: DIRECTORY`; or git worktree repair, in the repository that it belongs to")
	}
	if !ok {
		return false, nil
	}
	f.gitDir = r.Common
	if err := f.add(dir); err != nil {
		return false, err
	}
	if r.By != "" && !f.has(r.Dir) {
		if !f.named(r.Dir) && !f.returns(r) {
			return false, f.outside(r.By, r.Dir)
		}
		if err := f.add(r.Dir); err != nil {
			return false, err
		}
	}
	return true, f.common(r)
}

// returns reports whether a git directory names the work tree that leads to it.
func (f *finder) returns(r gitrepo.Repository) bool {
	if back, err := readLink(filepath.Join(r.Dir, "gitdir")); err == nil {
		// A further work tree's: git keeps the way back in it.
		back, err = from(r.Dir, back)
		return err == nil && back == r.By
	}
	back, err := f.workTree(r.Dir)
	if err != nil || back == "" {
		return false
	}
	back, err = from(r.Dir, back)
	return err == nil && back == r.Work
}

// common adds the git directory that a further work tree's shares.
func (f *finder) common(r gitrepo.Repository) error {
	if f.has(r.Common) {
		return nil
	}
	// git puts it only at COMMON/worktrees/NAME.
	if filepath.Dir(r.Dir) != filepath.Join(r.Common, "worktrees") && !f.named(r.Common) {
		return f.outside(filepath.Join(r.Dir, "commondir"), r.Common)
	}
	return f.add(r.Common)
}

// borrowed refuses a repository that uses another repository's objects, which the jail does not
// have (objects/info/alternates).
func (f *finder) borrowed() error {
	text, err := atomicfile.Read(filepath.Join(f.gitDir, "objects/info/alternates"), 1<<16)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading which objects are borrowed: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		dir, err := from(filepath.Join(f.gitDir, "objects"), line)
		if err != nil || f.has(dir) {
			continue
		}
		if !f.named(dir) {
			return f.outside(filepath.Join(f.gitDir, "objects/info/alternates"), dir)
		}
		if err := f.add(dir); err != nil {
			return err
		}
	}
	return nil
}

// outside refuses a path that leads out of the repository.
func (f *finder) outside(by, to string) error {
	return refusal.New(refusal.Git, "%s leads to %s, which does not name this work tree in its turn: a jail may have written it", by, to).
		WithRemedy("if you know that it belongs to this repository: agentjail git --with %s, which opens that directory to programs of the repository", to)
}

// named reports whether the person has named a directory, or one that it is in.
func (f *finder) named(dir string) bool {
	return slices.ContainsFunc(f.with, func(w string) bool { return pathname.Within(dir, w) })
}

// has reports whether a directory is mounted.
func (f *finder) has(dir string) bool {
	return slices.ContainsFunc(f.Dirs, func(d string) bool { return pathname.Within(dir, d) })
}

// add mounts a directory. All belong to one owner, which becomes the jail's user.
func (f *finder) add(dir string) error {
	if f.has(dir) {
		return nil
	}
	var st unix.Stat_t
	if err := unix.Lstat(dir, &st); err != nil {
		return fmt.Errorf("looking at %s: %w", dir, err)
	}
	if st.Uid != f.UID {
		return refusal.New(refusal.Git, "%s belongs to uid %d, and %s to uid %d", dir, st.Uid, f.Start,
			f.UID).WithRemedy("a clone of your own: git clone --no-local")
	}
	f.Dirs = slices.DeleteFunc(f.Dirs, func(d string) bool { return pathname.Within(d, dir) })
	f.Dirs = append(f.Dirs, dir)
	return nil
}

// from is the real place of a path that a file in dir names.
func from(dir, to string) (string, error) {
	if !filepath.IsAbs(to) {
		to = filepath.Join(dir, to)
	}
	return filepath.EvalSymlinks(to)
}

// readLink reads a file that holds one path.
func readLink(path string) (string, error) {
	text, err := atomicfile.Read(path, maxLink)
	return gitrepo.Pointer(string(text)), err
}
