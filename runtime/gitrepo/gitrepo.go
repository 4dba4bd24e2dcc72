// Package gitrepo decides which directories git takes for a repository, by git's own rule
// (setup.c of git 2.52), over any tree of files.
package gitrepo

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// A Tree is where repositories are looked for: the host's files, a mounted directory, a view.
// Its paths need not be clean, and have links on their way, which it follows.
type Tree interface {
	// Lstat returns the mode (inode(7)) of the file at a path, whose last part is not followed.
	Lstat(at string) (mode uint32, err error)
	// Stat returns the mode of the file that a path leads to, and its path without links.
	Stat(at string) (real string, mode uint32, err error)
	// Readlink returns the target of the symbolic link at a path.
	Readlink(at string) (string, error)
	// Head returns the first bytes of the regular file that a path leads to, at most max.
	Head(at string, max int64) (string, error)
}

// MaxPointer is git's own bound of a file ".git", in bytes (read_gitfile_gently). Files "commondir"
// have the same bound here.
const MaxPointer = 1 << 20

// maxHead is how much of HEAD git reads, in bytes (validate_headref).
const maxHead = 255

// oidLength is the length of the shorter object names in hexadecimal digits, SHA-1's: git looks at
// the beginning of a text only (get_oid_hex_any).
const oidLength = 40

// A Repository is a directory with git's own files.
type Repository struct {
	Dir string // the git directory
	// Common is the directory with objects, refs, config and hooks: Dir itself, or where its file
	// "commondir" leads to; "" where that leads to nothing.
	Common string
	// Whole reports that git takes it for a repository now. Otherwise it has the names of one, and
	// git takes it for one as soon as a file in it is written.
	Whole bool
	// Work is the directory whose ".git" leads to it, and By that path, where it is a file or a
	// link. Both are "" for a bare repository (At).
	Work, By string
}

// Begun reports whether a directory has a HEAD, without which git takes none for a repository.
func Begun(t Tree, dir string) bool {
	mode, err := t.Lstat(dir + "/HEAD")
	return err == nil && mode&unix.S_IFMT != unix.S_IFDIR
}

// Look looks at a directory as git does (is_git_directory). ok is false for one that has not even
// the names of a repository.
func Look(t Tree, dir string) (r Repository, ok bool) {
	if !Begun(t, dir) {
		return r, false
	}
	r = Repository{Dir: dir, Common: dir, Whole: isHead(t, dir+"/HEAD")}
	if _, err := t.Lstat(dir + "/commondir"); err == nil {
		ok, r.Common = true, commonOf(t, dir)
	}
	named := true
	for _, name := range []string{"/objects", "/refs"} {
		_, err := t.Lstat(dir + name)
		named = named && err == nil
		r.Whole = r.Whole && r.Common != "" && isSearchable(t, r.Common+name)
	}
	return r, ok || named
}

// isHead reports whether git takes a file for a HEAD (validate_headref).
func isHead(t Tree, at string) bool {
	if mode, err := t.Lstat(at); err == nil && mode&unix.S_IFMT == unix.S_IFLNK {
		target, err := t.Readlink(at)
		return err == nil && strings.HasPrefix(target, "refs/")
	}
	text, err := t.Head(at, maxHead)
	if err != nil {
		return false
	}
	if name, symbolic := strings.CutPrefix(text, "ref:"); symbolic && strings.HasPrefix(strings.TrimLeft(name, " \t\r\n"), "refs/") {
		return true
	}
	return len(text) >= oidLength && strings.Trim(text[:oidLength], "0123456789abcdefABCDEF") == ""
}

// isSearchable reports whether access(2) with X_OK succeeds for a path's owner: for any directory,
// which its owner can open, and for any file with such a bit.
func isSearchable(t Tree, at string) bool {
	_, mode, err := t.Stat(at)
	return err == nil && (mode&unix.S_IFMT == unix.S_IFDIR || mode&0o111 != 0)
}

// commonOf returns where a git directory's file "commondir" leads to (get_common_dir_noenv).
func commonOf(t Tree, dir string) string {
	text, err := t.Head(dir+"/commondir", MaxPointer+1)
	if err != nil || text == "" || len(text) > MaxPointer {
		return ""
	}
	real, _, err := t.Stat(From(dir, Pointer(text)))
	if err != nil {
		return ""
	}
	return real
}

// From returns the path that a file in a directory names.
func From(dir, to string) string {
	if path.IsAbs(to) {
		return to
	}
	return dir + "/" + to // a link may stand before a "..", so that the path stays as it is
}

// Pointer returns the path in a file that leads git to a directory ("commondir", "gitdir"): without
// the line ends after it, of any number.
func Pointer(text string) string {
	to, _, _ := strings.Cut(strings.TrimRight(text, "\r\n"), "\x00")
	return to
}

// GitFile returns the path in a file ".git" (read_gitfile_gently). ok is false for a text without
// one.
func GitFile(text string) (to string, ok bool) {
	to, ok = strings.CutPrefix(text, "gitdir: ")
	to = strings.TrimRight(to, "\r\n")
	ok = ok && to != ""
	return Pointer(to), ok
}

// errBroken reports a ".git" that is neither a directory nor leads to one: git goes no further up.
var errBroken = errors.New("it leads to no git directory")

// At looks for the repository at a directory, as git does at each step towards the root
// (repo_discovery_find_dir): by its ".git", or a bare one. ok is false for none. A ".git" that is
// neither a git directory nor leads to one is an error.
func At(t Tree, dir string) (r Repository, ok bool, err error) {
	dotGit := dir + "/.git"
	at, mode, err := t.Stat(dotGit)
	if err == nil && mode&unix.S_IFMT != unix.S_IFDIR {
		if at, err = pointed(t, dir, dotGit); err != nil {
			return r, false, fmt.Errorf("%s: %w", dotGit, err)
		}
		r.By = dotGit
	}
	if err == nil {
		by := r.By
		if r, ok = Look(t, at); ok && r.Whole {
			if link, err := t.Lstat(dotGit); err == nil && link&unix.S_IFMT == unix.S_IFLNK {
				by = dotGit
			}
			r.Work, r.By = dir, by
			return r, true, nil
		}
		if by != "" {
			return r, false, fmt.Errorf("%s: %w", dotGit, errBroken)
		}
	}
	r, ok = Look(t, dir)
	return r, ok && r.Whole, nil
}

// pointed returns the directory that a file ".git" leads to.
func pointed(t Tree, dir, dotGit string) (string, error) {
	text, err := t.Head(dotGit, MaxPointer+1)
	to, ok := GitFile(text)
	if err != nil || !ok || len(text) > MaxPointer {
		return "", errors.Join(errBroken, err)
	}
	at, _, err := t.Stat(From(dir, to))
	if err != nil {
		return "", errors.Join(errBroken, err)
	}
	return at, nil
}
