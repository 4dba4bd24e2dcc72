package rootfs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/openat"
	"agentjail.dev/runtime/kernel/pathname"
	"agentjail.dev/runtime/refusal"
	"agentjail.dev/runtime/spec/bindsource"
	"agentjail.dev/runtime/spec/plan"
)

// covered is a place of the jail's file tree that a mount covers, with the mounted tree; nil for
// file systems that begin empty.
type covered struct {
	at   string
	tree *os.File
	file bool // a single file, in which no place is
}

// checkPoints follows every mount's destination through the symbolic links of the image and of
// the directories mounted before, as the delegate will, and refuses a destination that a mount
// may not have. An image with /work -> /dev would otherwise have the workspace mounted over the
// jail's device nodes, and an agent could leave such a link behind for the next jail
// (CVE-2025-31133 and CVE-2026-41579 use such links).
func (s *stager) checkPoints() error {
	root, err := OpenDir(s.root)
	if err != nil {
		return err
	}
	defer root.Close()
	over := []covered{{at: "/", tree: root}}
	for i, m := range s.Spec.Mounts {
		dest := filepath.Clean(m.Destination)
		at, link, err := follow(over, dest)
		if err != nil {
			return fmt.Errorf("mount at %s: %w", dest, err)
		}
		if link != "" && (at == "/" || plan.Reserved(at) != "" || plan.Reserved(dest) != "") {
			return refusal.New(refusal.MountPlace, "the image's symbolic link %s leads it to %s", link, at).About("mount at %s", dest)
		}
		s.places = append(s.places, at)
		c := covered{at: at, file: s.bind(i) != nil && s.Sources[i].Kind != bindsource.Dir}
		if s.bind(i) != nil || m.Type != "bind" { // and not agentjail's own
			if err := checkKind(over, at, c.file).About("mount of %s at %s", m.Source, dest); err != nil {
				return err
			}
		}
		if s.binds[i] != nil {
			if !c.file {
				c.tree = s.Sources[i].File
			}
		} else if m.Type == "tmpfs" && slices.Contains(m.Options, "tmpcopyup") {
			continue // it begins as a copy of the covered directory
		}
		over = append(over, c)
	}
	return nil
}

// checkKind refuses a file over a directory, the reverse, and a place below a file. The delegate
// would fail with the names of agentjail's own mounts.
func checkKind(over []covered, at string, file bool) *refusal.Error {
	const whether = "not a directory: " // by which Docker recognises it (moby, daemon/errors.go)
	kinds := map[bool]string{true: "file", false: "directory"}
	isFile, err := isFileAt(over, at)
	switch {
	case errors.Is(err, unix.ENOTDIR):
		return refusal.New(refusal.MountPlace, whether+"a file is on the way").WithRemedy("another place")
	case err == nil && isFile != file:
		return refusal.New(refusal.MountPlace, whether+"a %s would cover a %s", kinds[file], kinds[isFile]).
			WithRemedy("a %s as the source, or another place", kinds[isFile])
	}
	return nil // the delegate makes it, or reports the error
}

// isFileAt reports whether anything but a directory is at a path without links. It returns
// unix.ENOTDIR for a path below a file, and another error where nothing is there yet.
func isFileAt(over []covered, path string) (bool, error) {
	for _, c := range slices.Backward(over) {
		switch rel, in := pathname.Rel(path, c.at); {
		case !in:
			continue
		case rel == "." || rel == "":
			return c.file, nil
		case c.file:
			return false, unix.ENOTDIR
		case c.tree == nil:
			return false, unix.ENOENT
		default:
			fd, err := openat.Open(int(c.tree.Fd()), rel, openat.Beneath, unix.O_PATH|unix.O_NOFOLLOW)
			if err != nil {
				return false, err
			}
			defer unix.Close(fd)
			var st unix.Stat_t
			err = unix.Fstat(fd, &st)
			return st.Mode&unix.S_IFMT != unix.S_IFDIR, err
		}
	}
	return false, unix.ENOENT
}

// follow resolves a path of the jail's file tree. link is the first symbolic link on the way. A
// mounted directory is untrusted: a link in it is an error.
func follow(over []covered, path string) (at, link string, err error) {
	at, err = openat.Follow(path, func(next string) (string, error) {
		target, mounted, err := readlink(over, next)
		if err == nil && mounted && target != "" {
			err = refusal.New(refusal.MountPlace, "the symbolic link %s, in a mounted directory, is in the way", next)
		}
		if target != "" && link == "" {
			link = next
		}
		return target, err
	})
	return at, link, err
}

// readlink returns the target of the link at path, "" if path is no link or does not exist;
// mounted reports whether it is in a mounted directory. No part of path before the last is a
// link.
func readlink(over []covered, path string) (target string, mounted bool, err error) {
	var c covered
	for i := len(over) - 1; ; i-- { // the last one shows; the root holds all
		c = over[i]
		if path == c.at {
			return "", false, nil // where something is mounted, no link shows
		}
		if pathname.Below(path, c.at) {
			break
		}
	}
	if c.tree == nil {
		return "", false, nil
	}
	rel := strings.TrimPrefix(strings.TrimPrefix(path, c.at), "/")
	fd, err := openat.Open(int(c.tree.Fd()), rel, openat.Beneath, unix.O_PATH|unix.O_NOFOLLOW)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
		return "", false, nil // the delegate makes it, or reports the error
	}
	if err != nil {
		return "", false, &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	target, err = openat.Readlink(fd, "")
	if errors.Is(err, unix.ENOENT) { // no link (readlink(2))
		return "", false, nil
	}
	if err != nil {
		return "", false, &os.PathError{Op: "readlink", Path: path, Err: err}
	}
	return target, c.at != "/", nil
}
