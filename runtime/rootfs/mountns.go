package rootfs

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/openat"
)

// A delegate reads the list of all mounts several times, and copies it with every mount
// namespace. On a host with hundreds of containers, each with its own mounts, that takes longer
// than all its other work. So the delegate's mount namespace contains only those of the host's
// mounts that it needs.

// wholeTrees are kept with all that is mounted below them: the kernel's own.
var wholeTrees = []string{"/dev", "/proc", "/sys"}

// systemDirs hold the delegate, its libraries, its settings and the system's manager. Directories
// that are no mounts of their own come with the root.
var systemDirs = []string{
	"/bin", "/etc", "/gnu/store", "/lib", "/lib32", "/lib64", "/nix/store", "/opt", "/run/dbus", "/run/systemd", "/sbin", "/tmp",
	"/usr/bin", "/usr/lib", "/usr/lib64", "/usr/libexec", "/usr/local/bin", "/usr/local/lib", "/usr/local/sbin", "/usr/sbin",
	"/var/lib", "/var/tmp",
}

// keepMounts keeps in the thread's mount namespace only the needed mounts of the host: those on the
// way to system directories and to the paths. Where the kernel does not let mounts be left out,
// as in a user's own namespaces, all stay.
func keepMounts(needed []string) error {
	at := "/" // for a working directory that was removed
	var cwd [unix.PathMax]byte
	if n, err := unix.Getcwd(cwd[:]); err == nil {
		at = strings.TrimSuffix(string(cwd[:n]), "\x00")
	}
	l := &sparse{seen: map[string]bool{"/": true}}
	defer l.close()
	if !filepath.IsAbs(at) || !l.clone(append(slices.Concat(systemDirs, needed), at)) {
		return nil
	}
	if err := l.enter(); err != nil {
		return err
	}
	if err := unix.Chdir(at); err != nil {
		return fmt.Errorf("the working directory %s: %w", at, err)
	}
	return nil
}

// sparse is a file tree of clones of some of the host's mounts.
type sparse struct {
	root   int // the clone of the root alone, attached over it
	mounts []kept
	seen   map[string]bool
}

type kept struct {
	at   string
	tree int
}

func (l *sparse) close() {
	for _, m := range l.mounts {
		unix.Close(m.tree)
	}
	if l.root > 0 {
		unix.Close(l.root)
	}
}

// clone clones the root and the mounts on the way to the paths. If that fails it changes nothing
// and returns false.
func (l *sparse) clone(paths []string) bool {
	var keep []string
	for _, t := range wholeTrees {
		l.seen[t] = true
		if isMountPoint(t) {
			keep = append(keep, t)
		}
	}
	for _, p := range paths {
		if p != "" {
			keep = append(keep, l.onTheWay(openat.Resolve(p, openat.Any))...)
		}
	}
	slices.Sort(keep) // a directory before the paths below it
	var err error
	if l.root, err = unix.OpenTree(unix.AT_FDCWD, "/", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC); err != nil {
		return false
	}
	for _, at := range keep {
		flags := uint(unix.OPEN_TREE_CLONE | unix.OPEN_TREE_CLOEXEC | unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT)
		if slices.Contains(wholeTrees, at) {
			flags |= unix.AT_RECURSIVE
		}
		fd, err := unix.OpenTree(unix.AT_FDCWD, at, flags)
		if err != nil {
			return false
		}
		l.mounts = append(l.mounts, kept{at, fd})
	}
	return true
}

// enter makes the clones this thread's file tree, and lets go of all other
// mounts. Where that cannot be done, all is as it was.
func (l *sparse) enter() error {
	// Attached over the root, where a path does not lead to.
	if err := unix.MoveMount(l.root, "", unix.AT_FDCWD, "/", unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return nil //nolint:nilerr // nothing has changed
	}
	if err := unix.Fchdir(l.root); err != nil {
		return err
	}
	complete := true
	for _, m := range l.mounts {
		complete = complete && unix.MoveMount(m.tree, "", unix.AT_FDCWD, m.at[1:], unix.MOVE_MOUNT_F_EMPTY_PATH) == nil
	}
	if complete {
		// Both paths the same: the old root is then mounted over the new one
		// (pivot_root(2), Notes). The root of an initramfs cannot be left.
		_ = unix.PivotRoot(".", ".")
	}
	// Now "." has the tree over it that is not to be: the old one, or this.
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("unmounting the other root: %w", err)
	}
	return nil
}

// onTheWay lists the mount points on the way to a path, its end included, that
// were not seen before.
func (l *sparse) onTheWay(path string) []string {
	var out []string
	for end := 1; end <= len(path); end++ {
		if end < len(path) && path[end] != '/' {
			continue
		}
		at := path[:end]
		if l.seen[at] {
			if slices.Contains(wholeTrees, at) {
				return out
			}
			continue
		}
		l.seen[at] = true
		if isMountPoint(at) {
			out = append(out, at)
		}
	}
	return out
}

func isMountPoint(path string) bool {
	mounted, err := mountedAt(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT)
	return err == nil && mounted
}
