package openat

import (
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// Follow returns a path without its symbolic links, which readlink reads: it returns the target of
// the link at a path, "" for all else, and for nothing. No part of that path before the last is a
// link. Errors are those of readlink, and ELOOP after 40 links (path_resolution(7)).
func Follow(name string, readlink func(at string) (target string, err error)) (string, error) {
	todo := strings.Split(name, "/")
	at := "/"
	for links := 0; len(todo) > 0; {
		elem := todo[0]
		todo = todo[1:]
		switch elem {
		case "", ".":
			continue
		case "..":
			at = path.Dir(at)
			continue
		}
		next := path.Join(at, elem)
		target, err := readlink(next)
		if err != nil {
			return "", err
		}
		if target == "" {
			at = next
			continue
		}
		if links++; links > 40 {
			return "", &os.PathError{Op: "resolve", Path: name, Err: unix.ELOOP}
		}
		if path.IsAbs(target) {
			at = "/"
		}
		todo = append(strings.Split(target, "/"), todo...)
	}
	return at, nil
}
