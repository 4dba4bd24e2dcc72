package protect

import (
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/openat"
	"agentjail.dev/runtime/kernel/thread"
)

// A placeholder is a file or directory that was made for a path that was not there.
type placeholder struct {
	Path string `json:"path"` // on the host, when it was made
	Dir  bool   `json:"dir"`
	// Text is the file's content, or the kind of marker.
	Text string `json:"text,omitempty"`
	identity
	// Up is the handle of the directory that it lies in (name_to_handle_at(2)), by
	// which it is found where its path leads to something else by now.
	Up string `json:"up,omitempty"`
}

// An identity is the same by whatever path a placeholder is reached; it is zero until that was
// made.
type identity struct {
	Dev uint64 `json:"dev,omitempty"`
	Ino uint64 `json:"ino,omitempty"`
	// Born is the file's birth in nanoseconds since 1970, where the file system keeps that.
	Born int64 `json:"born,omitempty"`
}

// identityOf returns the identity of a file with the attributes of statx.
func identityOf(st *unix.Statx_t) identity {
	id := identity{Dev: unix.Mkdev(st.Dev_major, st.Dev_minor), Ino: st.Ino}
	if st.Mask&unix.STATX_BTIME != 0 {
		id.Born = st.Btime.Sec*int64(time.Second) + int64(st.Btime.Nsec)
	}
	return id
}

// statx returns the attributes of a file, not of what it links to, with its birth (statx(2)).
func statx(dir int, name string, flags int) (st unix.Statx_t, err error) {
	err = unix.Statx(dir, name, flags|unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BASIC_STATS|unix.STATX_BTIME, &st)
	return st, err
}

// clockSlack is by how much a file's birth, read from a coarse clock, can lie
// before a moment that was read earlier (clock_gettime(2), CLOCK_REALTIME_COARSE).
const clockSlack = 50 * time.Millisecond

// afterMkdir is for tests: there another user of the directory acts between two steps.
var afterMkdir = func(name string) {}

// make makes a placeholder as the user that its directory belongs to, and records its identity.
// ok is false if the name exists already.
func (m *placeholder) make(t tree, source string) (ok bool, err error) {
	rel := strings.TrimPrefix(m.Path, source+"/")
	dir, err := t.open(path.Dir(rel), unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return false, err
	}
	defer unix.Close(dir)
	var st unix.Stat_t
	if err := unix.Fstat(dir, &st); err != nil {
		return false, err
	}
	m.Up = handleOf(dir)
	err = thread.AsOwner(st.Uid, st.Gid, func() error {
		ok, err = m.makeIn(dir, path.Base(rel), st.Uid)
		return err
	})
	return ok, err
}

// makeIn makes a placeholder in an open directory of uid's, with the thread's ids.
func (m *placeholder) makeIn(dir int, name string, uid uint32) (ok bool, err error) {
	fd := -1
	create := func() (err error) {
		if m.Dir {
			return unix.Mkdirat(dir, name, 0o755)
		}
		fd, err = unix.Openat(dir, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o644)
		return err
	}
	if err = create(); errors.Is(err, unix.EACCES) {
		err = thread.AnyMode(create) // the owner can change the mode, and so can the jail
	}
	if err == nil && m.Dir {
		afterMkdir(m.Path)
		fd, err = unix.Openat(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) || errors.Is(err, unix.EACCES) {
			return false, nil // something else is there by now
		}
	}
	switch {
	case errors.Is(err, unix.EEXIST):
		return false, nil
	case err != nil:
		return false, err
	}
	defer unix.Close(fd)
	if text := m.text(); text != "" {
		if _, err := unix.Write(fd, []byte(text)); err != nil {
			return false, err
		}
	}
	st, err := statx(fd, "", unix.AT_EMPTY_PATH)
	if err != nil {
		return false, err
	}
	if st.Uid != uid && st.Uid != thread.Owner() {
		return false, nil // exchanged meanwhile: another user's
	}
	m.identity = identityOf(&st)
	return true, nil
}

// remove removes a placeholder that is still one, at its first place or where its directory is
// now. It leaves files alone that another process has made, filled or moved.
func (m *placeholder) remove(since int64) error {
	dir, err := openat.Open(unix.AT_FDCWD, path.Dir(m.Path), openat.NoLinks, unix.O_PATH|unix.O_DIRECTORY)
	if err == nil {
		found, err := m.removeIn(dir, since)
		unix.Close(dir)
		if found || err != nil {
			return err
		}
	}
	if dir = m.openUp(); dir < 0 {
		return nil // gone, with its content
	}
	defer unix.Close(dir)
	_, err = m.removeIn(dir, since)
	return err
}

// removeIn removes a placeholder from an open directory, as the directory's owner.
// found reports that it is there.
func (m *placeholder) removeIn(dir int, since int64) (found bool, err error) {
	name := path.Base(m.Path)
	if st, err := statx(dir, name, 0); err != nil || !m.is(&st, since) {
		return false, nil
	}
	if !m.Dir {
		// After a crash between making it and recording its identity, it may have a part of its
		// text, or none.
		text, ok := readAt(dir, name, len(m.text())+1)
		if !ok || text != m.text() && (m.Ino != 0 || !strings.HasPrefix(m.text(), text)) {
			return true, nil
		}
	}
	var up unix.Stat_t
	if err := unix.Fstat(dir, &up); err != nil {
		return true, err
	}
	flags := 0
	if m.Dir {
		flags = unix.AT_REMOVEDIR // only when empty
	}
	err = thread.AsOwner(up.Uid, up.Gid, func() error {
		unlink := func() error { return unix.Unlinkat(dir, name, flags) }
		if err := unlink(); !errors.Is(err, unix.EACCES) {
			return err
		}
		return thread.AnyMode(unlink)
	})
	if err == nil || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EROFS) || errors.Is(err, unix.ENOTEMPTY) ||
		errors.Is(err, unix.EEXIST) {
		return true, nil
	}
	return true, fmt.Errorf("removing the placeholder %s: %w", m.Path, err)
}

// locate notes what a crash kept from being noted of a placeholder that is there: its identity, and
// how much of its text it has. No process makes any while the ledger is locked.
func (m *placeholder) locate(since int64) {
	if m.Ino != 0 {
		return
	}
	fd, err := openat.Open(unix.AT_FDCWD, m.Path, openat.NoLinks, unix.O_PATH|unix.O_NOFOLLOW)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	st, err := statx(fd, "", unix.AT_EMPTY_PATH)
	if err != nil || !m.is(&st, since) {
		return
	}
	if text := m.text(); !m.Dir && st.Size < uint64(len(text)) {
		m.Text = text[:st.Size]
	}
	m.identity = identityOf(&st)
}

// is reports whether a file is this placeholder and no other file of its name.
func (m *placeholder) is(st *unix.Statx_t, since int64) bool {
	kind := uint16(unix.S_IFREG)
	if m.Dir {
		kind = unix.S_IFDIR
	}
	if st.Mode&unix.S_IFMT != kind || !m.Dir && (st.Nlink != 1 || st.Size != uint64(len(m.text())) && m.Ino != 0) {
		return false
	}
	id := identityOf(st)
	if m.Ino != 0 {
		return id == m.identity
	}
	// A crash came between making it and recording its identity.
	return id.Born != 0 && id.Born >= since-int64(clockSlack)
}

// readAt reads up to most bytes of a regular file.
func readAt(dir int, name string, most int) (string, bool) {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", false
	}
	defer unix.Close(fd)
	buf := make([]byte, most)
	n, err := unix.Read(fd, buf)
	return string(buf[:max(n, 0)]), err == nil
}

// there reports that the placeholder is where it was made.
func (m *placeholder) there() bool {
	st, err := statx(unix.AT_FDCWD, m.Path, unix.AT_NO_AUTOMOUNT)
	return err == nil && identityOf(&st) == m.identity
}

// sameDirectory reports that the path still leads to the directory that the
// placeholder was made in.
func (m *placeholder) sameDirectory() bool {
	fd, err := unix.Open(path.Dir(m.Path), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	return m.Up == handleOf(fd)
}
