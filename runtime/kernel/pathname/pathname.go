// Package pathname compares paths by their names alone. Paths are clean (path.Clean): absolute, or
// relative to the same directory. Links are not followed.
package pathname

import (
	"encoding/base64"
	"path"
	"slices"
	"strings"
	"unicode/utf8"
)

// Within reports whether a path is dir or lies below it.
func Within(path, dir string) bool { return path == dir || Below(path, dir) }

// Below reports whether a path lies below dir.
func Below(path, dir string) bool {
	_, ok := Rel(path, dir)
	return ok
}

// Rel returns the part of a path below dir; ok is false if the path does not lie below it.
func Rel(path, dir string) (rel string, ok bool) {
	rest, ok := strings.CutPrefix(path, dir)
	if !ok {
		return "", false
	}
	if !strings.HasSuffix(dir, "/") { // only the root ends in one
		if rest, ok = strings.CutPrefix(rest, "/"); !ok {
			return "", false
		}
	}
	return rest, rest != ""
}

// Fits reports whether a pattern stands for a path. Each part is one of path.Match, and ** stands
// for any number of parts.
func Fits(pattern, name string) bool {
	return fits(strings.Split(pattern, "/"), strings.Split(path.Clean(name), "/"))
}

func fits(pattern, names []string) bool {
	if len(pattern) == 0 {
		return len(names) == 0
	}
	if pattern[0] == "**" {
		for i := range len(names) + 1 {
			if fits(pattern[1:], names[i:]) {
				return true
			}
		}
		return false
	}
	if len(names) == 0 {
		return false
	}
	ok, err := path.Match(pattern[0], names[0])
	return ok && err == nil && fits(pattern[1:], names[1:])
}

// Components splits a path, which need not be clean, and keeps "..".
func Components(name string) []string {
	return slices.DeleteFunc(strings.Split(name, "/"), func(c string) bool { return c == "" || c == "." })
}

// notText begins a path that is in base64: no path has a NUL.
const notText = "\x00"

// ToJSON returns a path as a text that JSON has, also where the path is not UTF-8.
func ToJSON(path string) string {
	if utf8.ValidString(path) {
		return path
	}
	return notText + base64.StdEncoding.EncodeToString([]byte(path))
}

// FromJSON returns the path that ToJSON was called with.
func FromJSON(text string) string {
	if rest, ok := strings.CutPrefix(text, notText); ok {
		if path, err := base64.StdEncoding.DecodeString(rest); err == nil {
			return string(path)
		}
	}
	return text
}

// A Text is a path in a JSON object, as ToJSON returns it, also as a key.
type Text string

// MarshalText is ToJSON.
func (t Text) MarshalText() ([]byte, error) { return []byte(ToJSON(string(t))), nil }

// UnmarshalText is FromJSON.
func (t *Text) UnmarshalText(text []byte) error {
	*t = Text(FromJSON(string(text)))
	return nil
}
