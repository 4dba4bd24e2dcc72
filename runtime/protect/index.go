package protect

import (
	"encoding/binary"
	"strings"
)

// Parts of an index (gitformat-index(5)).
const (
	indexHead   = 12
	indexStat   = 40 // before the object's name
	modeType    = 0o170000
	modeGitlink = 0o160000
	flagMore    = 0x4000
	flagStage   = 0x3000
	flagName    = 0x0fff
	flagSkip    = 0x4000 // of the extended flags
)

// maxIndex bounds an index that is read, in bytes: the jail may have written it.
const maxIndex = 64 << 20

// An indexEntry is an entry of an index. Its strings are parts of the index's text.
type indexEntry struct {
	name     string
	id       string // the object's name
	mode     uint32
	size     uint32
	mtime    [2]uint32 // seconds and nanoseconds
	stage    uint32    // not 0 in a merge that has not ended
	skipping bool      // skip-worktree: the file need not be there
}

// eachEntry calls f with the entries of an index, versions 2 to 4, whose object names have object
// bytes, until f returns false. It reports whether the text was an index as far as it was read.
func eachEntry(text string, object int, f func(indexEntry) bool) bool {
	if len(text) < indexHead || text[:4] != "DIRC" {
		return false
	}
	word := func(at int) uint32 { return binary.BigEndian.Uint32([]byte(text[at : at+4])) }
	version, count := word(4), word(8)
	if version < 2 || version > 4 {
		return false
	}
	at, before := indexHead, ""
	for range count {
		start := at
		if at += indexStat + object + 2; at > len(text) {
			return false
		}
		flags := uint32(text[at-2])<<8 | uint32(text[at-1])
		e := indexEntry{
			id: text[start+indexStat : at-2], mode: word(start + 24), size: word(start + 36),
			mtime: [2]uint32{word(start + 8), word(start + 12)},
			stage: flags & flagStage,
		}
		switch e.mode & modeType {
		case 0o100000, 0o120000, modeGitlink, 0o040000:
		default:
			return false
		}
		if flags&flagMore != 0 {
			if at += 2; version < 3 || at > len(text) {
				return false
			}
			e.skipping = text[at-2]&(flagSkip>>8) != 0
		}
		kept := 0
		if version == 4 {
			drop, n := stripped(text[at:])
			if n == 0 || drop > len(before) {
				return false
			}
			kept, at = len(before)-drop, at+n
		}
		end := strings.IndexByte(text[at:], 0)
		if end < 0 || version < 4 && flags&flagName != flagName && int(flags&flagName) != end {
			return false
		}
		e.name = before[:kept] + text[at:at+end]
		at += end + 1
		if version < 4 { // one to eight zeros, to a multiple of eight
			at = start + (at-1-start+8)&^7
		}
		if before = e.name; at > len(text) {
			return false
		}
		if !f(e) {
			break
		}
	}
	return true
}

// gitlinksOf lists the paths of an index that are gitlinks: repositories of their own. ok is
// false if the text is no index.
func gitlinksOf(text string) (paths []string, ok bool) {
	// The length of an object's name is in the repository's settings (extensions.objectFormat).
	for _, object := range []int{20, 32} {
		paths = nil
		ok = eachEntry(text, object, func(e indexEntry) bool {
			if e.mode&modeType == modeGitlink {
				paths = append(paths, e.name)
			}
			return true
		})
		if ok {
			return paths, true
		}
	}
	return nil, false
}

// stripped reads the number of bytes that a name of version 4 omits of the one before, in git's
// offset encoding (gitformat-pack(5)); n is 0 for none.
func stripped(text string) (drop, n int) {
	const most = 1 << 20
	for i := range min(len(text), 4) {
		c := int(text[i])
		drop += c & 0x7f
		if c&0x80 == 0 {
			return drop, i + 1
		}
		if drop = (drop + 1) << 7; drop > most {
			return 0, 0
		}
	}
	return 0, 0
}
