package protect

import (
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/pathname"
)

// Git replaces a file by removing it and making another, which fails for a protected file. `git
// switch` then ends with status 0, the index has the other branch's version, and the directory
// the old one: the next `git commit -a` silently reverts the other branch's changes to the file.

// A WorkTree is a directory that is worked in, with its git directory.
type WorkTree struct {
	GitDir string // below the directory
	Work   string // the directory that is worked in, "." for the top
}

// WorkTrees are those below a directory of the host's in which the jail of that
// key has placeholders: of each, git's commondir is one.
func (l Ledger) WorkTrees(key, source string) (out []WorkTree) {
	a, err := l.read(key)
	if err != nil {
		return nil
	}
	for _, m := range a.Made {
		git, name := path.Split(m.Path)
		rel, ok := pathname.Rel(path.Clean(git), source)
		if ok && name == "commondir" && path.Base(rel) == ".git" {
			out = append(out, WorkTree{rel, path.Dir(rel)})
		}
	}
	return out
}

// Bounds of reading a repository, which the jail may have written.
const (
	maxTracked  = 256
	maxCompared = 4 << 20
	maxReflog   = 64 << 10
)

// A Stale is what git could not replace in a work tree.
type Stale struct {
	// Files are tracked protected files of which the index has another version.
	Files []string
	// Committed reports that tracked protected files are there, and that commits were
	// made after another branch was switched to: they may undo changes of these.
	Committed bool
}

// Stale looks at a repository in which a jail has worked since a moment.
func (r WorkTree) Stale(root *os.File, since time.Time) (Stale, error) {
	var out Stale
	t := tree{root: root}
	st, err := t.statx(path.Join(r.GitDir, "index"))
	if err != nil || !time.Unix(st.Ctime.Sec, int64(st.Ctime.Nsec)).After(since) {
		return out, nil //nolint:nilerr // no index, or nothing was changed in it
	}
	text, _, err := t.read(path.Join(r.GitDir, "index"), maxIndex)
	if err != nil {
		return out, err
	}
	config, _, _ := t.read(path.Join(r.GitDir, "config"), maxCopy)
	algorithm := sha1.New
	if strings.Contains(strings.ToLower(config), "sha256") { // extensions.objectFormat
		algorithm = sha256.New
	}
	tracked, err := trackedIn(text, algorithm().Size())
	if err != nil {
		return out, err
	}
	for _, f := range tracked {
		if f.differs(t, path.Join(r.Work, f.name), algorithm()) {
			out.Files = append(out.Files, f.name)
		}
	}
	out.Committed = len(tracked) > 0 && r.committed(t, since)
	return out, nil
}

// A trackedFile is an entry of an index.
type trackedFile struct {
	name  string
	id    string
	size  uint32
	mtime [2]uint32
}

var errIndex = errors.New("not an index that is understood")

// trackedIn returns the protected files of an index whose object names have size bytes.
func trackedIn(text string, size int) (out []trackedFile, err error) {
	ok := eachEntry(text, size, func(e indexEntry) bool {
		if !e.skipping && e.mode&unix.S_IFMT == unix.S_IFREG && e.stage == 0 && protectedName(e.name) {
			out = append(out, trackedFile{name: e.name, id: e.id, size: e.size, mtime: e.mtime})
		}
		return len(out) < maxTracked
	})
	if !ok {
		return nil, errIndex
	}
	return out, nil
}

// protectedName reports whether the table has a path of a project, or a directory that it lies
// in.
func protectedName(name string) bool {
	// Almost all of a repository's names are none, and each is looked at.
	if !strings.HasPrefix(name, ".") && !strings.Contains(name, "/.") && !strings.Contains(name, "lefthook") {
		return false
	}
	for i := 0; i <= len(name); i++ {
		if i == len(name) || name[i] == '/' {
			if e := match("/" + name[:i]); e != nil && e.Scope == Project {
				return true
			}
		}
	}
	return false
}

// differs reports that the directory has another version of a file than the index. As
// git does, it compares times and sizes first.
func (f *trackedFile) differs(t tree, at string, h hash.Hash) bool {
	st, err := t.stat(at)
	if err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG || st.Size > maxCompared {
		return false
	}
	if f.mtime[0] == uint32(st.Mtim.Sec) && (f.mtime[1] == 0 || f.mtime[1] == uint32(st.Mtim.Nsec)) && f.size == uint32(st.Size) {
		return false
	}
	text, _, err := t.read(at, maxCompared)
	if err != nil {
		return false
	}
	fmt.Fprintf(h, "blob %d\x00%s", len(text), text)
	return string(h.Sum(nil)) != f.id
}

// committed reports whether the log of HEAD has a commit after a switch to another branch
// (git-reflog(1); a line ends with a tab and the reason). Its times are whole seconds, and the
// committer chooses them: this check finds mistakes, not attacks.
func (r WorkTree) committed(t tree, since time.Time) bool {
	fd, err := t.open(path.Join(r.GitDir, "logs/HEAD"), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY)
	if err != nil {
		return false
	}
	f := os.NewFile(uintptr(fd), "HEAD")
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	buf := make([]byte, min(info.Size(), maxReflog))
	n, _ := f.ReadAt(buf, info.Size()-int64(len(buf)))
	switched := false
	for line := range bytes.Lines(buf[:max(n, 0)]) {
		head, reason, ok := bytes.Cut(line, []byte("\t"))
		fields := bytes.Fields(head)
		if !ok || len(fields) < 2 {
			continue
		}
		at, err := strconv.ParseInt(string(fields[len(fields)-2]), 10, 64)
		if err != nil || at < since.Unix() {
			continue
		}
		what, _, _ := strings.Cut(string(reason), ":")
		word, _, _ := strings.Cut(what, " ")
		switch {
		case slices.Contains([]string{"checkout", "merge", "pull", "rebase", "reset"}, word):
			switched = true
		case switched && word == "commit":
			return true
		}
	}
	return false
}
