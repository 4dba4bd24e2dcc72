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
	flagName    = 0x0fff
)

// gitlinksOf lists the paths of an index that are gitlinks: repositories of their own. ok is false for what is no index.
func gitlinksOf(text string) (paths []string, ok bool) {
	// The length of an object's name is in the repository's settings (extensions.objectFormat).
	for _, name := range []int{20, 32} {
		if paths, ok = parseIndex(text, name); ok {
			return paths, true
		}
	}
	return nil, false
}

func parseIndex(text string, object int) (paths []string, ok bool) {
	if len(text) < indexHead || text[:4] != "DIRC" {
		return nil, false
	}
	word := func(at int) uint32 { return binary.BigEndian.Uint32([]byte(text[at : at+4])) }
	version, count := word(4), word(8)
	if version < 2 || version > 4 {
		return nil, false
	}
	at, before := indexHead, ""
	for range count {
		start := at
		if at += indexStat + object + 2; at > len(text) {
			return nil, false
		}
		mode := word(start+24) & modeType
		flags := uint32(text[at-2])<<8 | uint32(text[at-1])
		switch mode {
		case 0o100000, 0o120000, modeGitlink, 0o040000:
		default:
			return nil, false
		}
		if flags&flagMore != 0 {
			if at += 2; version < 3 {
				return nil, false
			}
		}
		kept := 0
		if version == 4 {
			drop, n := stripped(text[min(at, len(text)):])
			if n == 0 || drop > len(before) {
				return nil, false
			}
			kept, at = len(before)-drop, at+n
		}
		if at > len(text) {
			return nil, false
		}
		end := strings.IndexByte(text[at:], 0)
		if end < 0 || version < 4 && flags&flagName != flagName && int(flags&flagName) != end {
			return nil, false
		}
		name := before[:kept] + text[at:at+end]
		at += end + 1
		if version < 4 { // one to eight zeros, to a multiple of eight
			at = start + (at-1-start+8)&^7
		}
		if before = name; mode == modeGitlink {
			paths = append(paths, name)
		}
	}
	return paths, at <= len(text)
}

// stripped reads the number of bytes that a name of version 4 leaves away of the one before, in git's offset encoding
// (gitformat-pack(5)); n is 0 for none.
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
