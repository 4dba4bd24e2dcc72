// Package pathname compares paths by their names alone. Paths are clean (path.Clean): absolute, or
// relative to the same directory. Links are not followed.
package pathname

import "strings"

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
