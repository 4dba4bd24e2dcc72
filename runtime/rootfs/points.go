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
	over := []covered{{"/", root}}
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
		c := covered{at: at}
		if s.binds[i] != nil {
			if s.Sources[i].Kind == bindsource.Dir {
				c.tree = s.Sources[i].File
			}
		} else if m.Type == "tmpfs" && slices.Contains(m.Options, "tmpcopyup") {
			continue // it begins as a copy of the covered directory
		}
		over = append(over, c)
	}
	return nil
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
