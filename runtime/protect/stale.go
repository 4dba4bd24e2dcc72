package protect

import (
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/binary"
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
)

// Git replaces a file by removing it and making another, which it cannot do with a
// protected one. `git switch` then ends with status 0, the index has the other
// branch's version, and the directory the old one: the next `git commit -a` undoes
// in silence what the other branch has of the file.

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
		rel, ok := strings.CutPrefix(path.Clean(git), source+"/")
		if ok && name == "commondir" && path.Base(rel) == ".git" {
			out = append(out, WorkTree{rel, path.Dir(rel)})
		}
	}
	return out
}

// Bounds of what is read of a repository, which the jail may have written.
const (
	maxIndex    = 64 << 20
	maxTracked  = 256
	maxCompared = 4 << 20
	maxReflog   = 64 << 10
)

// A Stale is what git could not replace.
type Stale struct {
	// Files are tracked protected files of which the index has another version.
	Files []string
	// Committed says that tracked protected files are there, and that commits were
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
	tracked, err := trackedIn([]byte(text), algorithm().Size())
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

// trackedIn reads the protected files of an index (gitformat-index(5), versions 2
// to 4), whose object names have size bytes.
func trackedIn(text []byte, size int) (out []trackedFile, err error) {
	const header, fixed = 12, 40
	if len(text) < header || string(text[:4]) != "DIRC" {
		return nil, errIndex
	}
	version, count := binary.BigEndian.Uint32(text[4:]), binary.BigEndian.Uint32(text[8:])
	if version < 2 || version > 4 {
		return nil, errIndex
	}
	rest, name := text[header:], []byte(nil)
	for range count {
		begin := rest
		if len(rest) < fixed+size+2 {
			return nil, errIndex
		}
		f := trackedFile{id: string(rest[fixed : fixed+size]), size: binary.BigEndian.Uint32(rest[36:])}
		f.mtime = [2]uint32{binary.BigEndian.Uint32(rest[8:]), binary.BigEndian.Uint32(rest[12:])}
		mode, flags := binary.BigEndian.Uint32(rest[24:]), binary.BigEndian.Uint16(rest[fixed+size:])
		rest = rest[fixed+size+2:]
		absent := false
		if flags&0x4000 != 0 { // extended
			if len(rest) < 2 {
				return nil, errIndex
			}
			absent = binary.BigEndian.Uint16(rest)&0x4000 != 0 // skip-worktree
			rest = rest[2:]
		}
		if version == 4 {
			strip, n := indexVarint(rest)
			if n == 0 || strip > uint64(len(name)) {
				return nil, errIndex
			}
			rest, name = rest[n:], name[:len(name)-int(strip)]
		} else {
			name = name[:0]
		}
		end := bytes.IndexByte(rest, 0)
		if end < 0 {
			return nil, errIndex
		}
		name = append(name, rest[:end]...)
		rest = rest[end+1:]
		if version < 4 { // entries are padded to 8 bytes, with at least one
			used := len(begin) - len(rest)
			pad := (8 - used%8) % 8
			if pad > len(rest) {
				return nil, errIndex
			}
			rest = rest[pad:]
		}
		if absent || mode&unix.S_IFMT != unix.S_IFREG || flags&0x3000 != 0 || !protectedName(name) {
			continue
		}
		f.name = string(name)
		if out = append(out, f); len(out) == maxTracked {
			break
		}
	}
	return out, nil
}

// indexVarint reads a number as git's pack files have offsets (decode_varint in its
// varint.c); n is 0 where there is none.
func indexVarint(b []byte) (v uint64, n int) {
	for i, c := range b {
		if i > 8 {
			return 0, 0
		}
		v = v<<7 | uint64(c&0x7f)
		if c&0x80 == 0 {
			return v, i + 1
		}
		v++
	}
	return 0, 0
}

// protectedName says whether the table has a path of a project, or what it lies in.
func protectedName(name []byte) bool {
	// Almost all of a repository's names are none, and this is asked of each.
	if !bytes.HasPrefix(name, []byte(".")) && !bytes.Contains(name, []byte("/.")) && !bytes.Contains(name, []byte("lefthook")) {
		return false
	}
	for i := 0; i <= len(name); i++ {
		if i == len(name) || name[i] == '/' {
			if e := match("/" + string(name[:i])); e != nil && e.Scope == Project {
				return true
			}
		}
	}
	return false
}

// differs says that the directory has another version of a file than the index. As
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

// committed says whether the log of HEAD has a commit after a switch to something
// else (git-reflog(1); a line ends with a tab and the reason). Its times are whole
// seconds, and whoever commits chooses them: this is for mistakes, not for attacks.
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
