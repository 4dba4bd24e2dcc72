package bundle

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxDepth bounds the nesting of JSON values; the deepest field of the
// specification lies below ten.
const maxDepth = 64

// manyKeys is where looking up an object's keys one by one would get slow.
const manyKeys = 16

// A level is one object or list that is open while scanning.
type level struct {
	object bool
	key    bool // the next string is a key
	keys   []string
	many   map[string]bool // the keys and their folded forms, once there are many
}

// scan refuses text that decoders read in different ways, before any of them reads it: text that
// is not UTF-8 (Go puts U+FFFD in place of it, others do not), a name that an object has twice
// (the last one wins, or the first, or both are merged), and NUL characters (at which a program
// in C ends the text). It bounds the nesting, too, since decoders recurse. The decoder checks
// that the rest is JSON at all. alike reports that an object has names that differ only in letter
// case.
func scan(data []byte) (alike bool, err error) {
	if bytes.HasPrefix(data, []byte("\xef\xbb\xbf")) {
		return false, errors.New("begins with a byte order mark, which JSON does not have (RFC 8259, section 8.1)")
	}
	if !utf8.Valid(data) {
		return false, errors.New("not valid UTF-8")
	}
	var open []*level
	for i := 0; i < len(data); i++ {
		var top *level
		if len(open) > 0 {
			top = open[len(open)-1]
		}
		switch data[i] {
		case '{', '[':
			if len(open) == maxDepth {
				return false, fmt.Errorf("nested more than %d deep", maxDepth)
			}
			open = append(open, &level{object: data[i] == '{', key: data[i] == '{'})
		case '}', ']':
			if top != nil {
				open = open[:len(open)-1]
			}
		case ',':
			if top != nil {
				top.key = top.object
			}
		case ':':
			if top != nil {
				top.key = false
			}
		case '"':
			end, err := stringEnd(data, i)
			if err != nil {
				return false, err
			}
			if top != nil && top.key {
				also, err := top.add(data[i : end+1])
				if err != nil {
					return false, err
				}
				alike = alike || also
			}
			i = end
		}
	}
	return alike, nil
}

// stringEnd returns the place of the quotation mark that ends the string begun
// at i, or the last byte.
func stringEnd(data []byte, i int) (int, error) {
	for i++; i < len(data); i++ {
		switch data[i] {
		case '"':
			return i, nil
		case '\\':
			if bytes.HasPrefix(data[i:], []byte(`\u0000`)) {
				return i, errors.New(`contains a NUL character (\u0000)`)
			}
			i++
		}
	}
	return len(data) - 1, nil
}

// add takes a key in its quotation marks, and reports whether another one of the
// object is the same but for letters' case.
func (l *level) add(quoted []byte) (alike bool, err error) {
	var name string
	if bytes.IndexByte(quoted, '\\') < 0 && len(quoted) > 1 {
		name = string(quoted[1 : len(quoted)-1])
	} else if json.Unmarshal(quoted, &name) != nil {
		return false, nil // the decoder will report the error
	}
	if l.many != nil {
		// Folded forms are kept apart from names by a first character that no
		// name has: it was refused.
		folded := "\x00" + fold(name)
		if l.many[name] {
			return false, fmt.Errorf("has the field %q twice", clip(name))
		}
		alike = l.many[folded]
		l.many[name], l.many[folded] = true, true
		return alike, nil
	}
	for _, k := range l.keys {
		if k == name {
			return false, fmt.Errorf("has the field %q twice", clip(name))
		}
		alike = alike || strings.EqualFold(k, name)
	}
	if l.keys = append(l.keys, name); len(l.keys) > manyKeys {
		l.many = make(map[string]bool, 4*len(l.keys))
		for _, k := range l.keys {
			l.many[k], l.many["\x00"+fold(k)] = true, true
		}
	}
	return alike, nil
}

// clip keeps messages to a line.
func clip(s string) string {
	if len(s) > 60 {
		return s[:57] + "..."
	}
	return s
}

// fold is the form in which encoding/json compares names: without regard to
// case, where the long s counts as an s and the Kelvin sign as a k.
func fold(name string) string {
	out := make([]byte, 0, len(name))
	for _, r := range name {
		if 'a' <= r && r <= 'z' {
			out = append(out, byte(r-'a'+'A'))
			continue
		}
		if r < utf8.RuneSelf {
			out = append(out, byte(r))
			continue
		}
		for {
			next := unicode.SimpleFold(r)
			if next <= r {
				out = utf8.AppendRune(out, next)
				break
			}
			r = next
		}
	}
	return string(out)
}
