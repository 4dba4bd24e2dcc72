package bindsource

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/mountinfo"
	"agentjail.dev/runtime/kernel/pathname"
	"agentjail.dev/runtime/kernel/users"
)

// Mounts are the mounts of a mount namespace, the oldest first. They are read only as far as
// needed: a host has a mount or two for each of its containers, and the kernel takes some
// microseconds to describe each.
type Mounts struct {
	fd   int    // of mountinfo, or -1 when all is read
	tail string // the beginning of a line whose end is still to be read
	list []mountinfo.Mount
	err  error
}

// OpenMounts opens the mounts of this thread's mount namespace as it is now, whatever
// namespace the thread is in later. Close them after use.
func OpenMounts() (*Mounts, error) {
	const path = "/proc/thread-self/mountinfo"
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return &Mounts{fd: fd}, nil
}

// Close stops reading.
func (ms *Mounts) Close() {
	if ms != nil && ms.fd >= 0 {
		unix.Close(ms.fd)
		ms.fd = -1
	}
}

// all iterates over them. After it, err reports whether something kept it from
// reading on.
func (ms *Mounts) all(yield func(*mountinfo.Mount) bool) {
	for i := 0; ; i++ {
		for i == len(ms.list) {
			if !ms.more() {
				return
			}
		}
		if !yield(&ms.list[i]) {
			return
		}
	}
}

// more reads the next part of mountinfo: the kernel returns whole lines, about a page of them at
// once.
func (ms *Mounts) more() bool {
	if ms.fd < 0 {
		return false
	}
	var buf [16 << 10]byte
	n, err := unix.Read(ms.fd, buf[:])
	if errors.Is(err, unix.EINTR) {
		return true
	}
	if err != nil {
		ms.err = fmt.Errorf("reading the mounts: %w", err)
	}
	if n <= 0 {
		ms.Close()
		return false
	}
	text := ms.tail + string(buf[:n])
	end := strings.LastIndexByte(text, '\n') + 1
	ms.tail = text[end:]
	list, err := mountinfo.Parse(text[:end])
	if err != nil {
		ms.err = fmt.Errorf("reading the mounts: %w", err)
	}
	ms.list = append(ms.list, list...)
	return err == nil
}

// Super returns the source and the file system options of the mount that an open
// file is on.
func (ms *Mounts) Super(fd int) (source, options string, err error) {
	if source, options, err = statmount(fd); err == nil {
		return source, options, nil
	}
	want, err := mountOf(fd)
	if err != nil {
		return "", "", err
	}
	for m := range ms.all {
		if m.ID == want {
			return m.Source, mountinfo.Unescape(m.Super), nil
		}
	}
	if ms.err != nil {
		return "", "", ms.err
	}
	return "", "", fmt.Errorf("mount %s is not in mountinfo", want)
}

// mountOf is the id of the mount that an open file is on.
func mountOf(fd int) (string, error) {
	var stx unix.Statx_t
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_MNT_ID, &stx); err != nil {
		return "", fmt.Errorf("statx: %w", err)
	}
	return fmt.Sprint(stx.Mnt_id), nil
}

// elsewhere is the place of the host's file tree that path, on the mount of
// that id, is really at; "" where that is path itself. A directory can be mounted
// at a second place: Docker's local driver makes a volume of any directory
// (`docker volume create -o type=none -o o=bind -o device=/etc`), and an
// administrator may have done so. The oldest mount of a file system that has
// the directory counts as its real place. shown are, if all is true, all places of its content.
func (ms *Mounts) elsewhere(id, path string, all bool) (real string, shown Shown, err error) {
	own, inside, err := ms.onMount(id, path)
	if own == nil {
		return "", Shown{}, err
	}
	real = ms.realPlace(own, inside, path)
	if all {
		shown = ms.shown(own.Dev, inside, path)
	}
	return real, shown, ms.err
}

// onMount returns the mount of an id that shows a path, and the path in its file system; nil where
// the mounts do not show it.
func (ms *Mounts) onMount(id, path string) (own *mountinfo.Mount, inside string, err error) {
	for m := range ms.all {
		if m.ID == id && pathname.Within(path, m.Point) {
			return m, filepath.Join(m.Root, strings.TrimPrefix(path, m.Point)), nil
		}
	}
	return nil, "", ms.err
}

// realPlace is where a mount's directory inside is found through the oldest mount.
func (ms *Mounts) realPlace(own *mountinfo.Mount, inside, path string) string {
	for m := range ms.all { // has been read as far as own
		if m.ID == own.ID {
			return ""
		}
		if m.Dev == own.Dev && pathname.Within(inside, m.Root) {
			if p := filepath.Join(m.Point, strings.TrimPrefix(inside, m.Root)); p != path {
				return p
			}
			return ""
		}
	}
	return ""
}

// MountsBelow returns the places of all mounts below a directory.
func MountsBelow(path string) ([]string, error) {
	ms, err := OpenMounts()
	if err != nil {
		return nil, err
	}
	defer ms.Close()
	all, _, _, err := ms.below(path, users.New())
	return all, err
}

// below lists the places of the mounts below path, the directories mounted there that no jail
// may have, and the further places of the mounts' content.
func (ms *Mounts) below(path string, known *users.List) (all, forbidden, reached []string, err error) {
	for m := range ms.all {
		if m.Point == path || !pathname.Within(m.Point, path) {
			continue
		}
		all = append(all, m.Point)
		places := ms.shown(m.Dev, m.Root, m.Point).counted()
		if real := ms.realPlace(m, m.Root, m.Point); real != "" {
			places = append([]string{real}, places...)
		}
		reached = append(reached, m.Point)
		reached = append(reached, places...)
		if i := slices.IndexFunc(places, func(at string) bool {
			why, _ := forbiddenOfUsers(at, known.Homes(at), false)
			return forbiddenElsewhere(at, false) != "" || why != ""
		}); i >= 0 {
			forbidden = append(forbidden, places[i])
		}
	}
	return all, forbidden, reached, ms.err
}
