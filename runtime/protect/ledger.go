package protect

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/atomicfile"
	"agentjail.dev/runtime/kernel/flock"
	"agentjail.dev/runtime/kernel/openat"
	"agentjail.dev/runtime/kernel/pathname"
	"agentjail.dev/runtime/kernel/thread"
)

// Ledger is the record of placeholders: mount points that were made in mounted
// directories for paths that were not there. It is written before the first of
// them is made, and outlives a boot as they do. Several jails may stand on one
// placeholder; the last one's end removes it.
type Ledger struct {
	Dir string // mode 0700
	// Boot and Store identify the jails of a record: a machine's containers may share the
	// ledger's directory, and have states of their own.
	Boot, Store string
	// User reports that this process is not the machine's root: its jails have no more rights to
	// create files than the process.
	User bool
}

// A Made is one placeholder.
type CreatedPlaceholder struct {
	Path string `json:"path"` // on the host, when it was made
	Dir  bool   `json:"dir"`
	// Text is the file's content, or the kind of marker.
	Text string `json:"text,omitempty"`
	// Dev, Ino and Born identify the placeholder; 0 until it was made. Born is its birth in
	// nanoseconds since 1970, where the file system keeps that.
	Dev  uint64 `json:"dev,omitempty"`
	Ino  uint64 `json:"ino,omitempty"`
	Born int64  `json:"born,omitempty"`
	// Up is the handle of the directory that it lies in (name_to_handle_at(2)), by
	// which it is found where its path leads to something else by now.
	Up string `json:"up,omitempty"`
}

// An identity is the same by whatever path a placeholder is reached.
type identity struct {
	dev, ino uint64
	born     int64
}

func (m *CreatedPlaceholder) identity() identity { return identity{m.Dev, m.Ino, m.Born} }

// ledgerRecord is a jail's file in the ledger.
type ledgerRecord struct {
	Made []CreatedPlaceholder `json:"made"`
	// Since is when the record was written, in nanoseconds since 1970: agentjail did not make
	// older files.
	Since int64  `json:"since"`
	Boot  string `json:"boot,omitempty"`
	Store string `json:"store,omitempty"`
}

// clockSlack is by how much a file's birth, read from a coarse clock, can lie
// before a moment that was read earlier (clock_gettime(2), CLOCK_REALTIME_COARSE).
const clockSlack = 50 * time.Millisecond

// beforeLock is for tests: it stands for another jail that has the ledger first.
var beforeLock = func() {}

// lock keeps other calls from the ledger.
func (l Ledger) lock() (unlock func(), err error) {
	if err := os.MkdirAll(l.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the ledger of placeholders: %w", err)
	}
	fd, err := unix.Open(filepath.Join(l.Dir, ".lock"), unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the ledger of placeholders: %w", err)
	}
	beforeLock()
	if err := flock.Wait(fd, unix.LOCK_EX); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("locking the ledger of placeholders: %w", err)
	}
	return func() { unix.Close(fd) }, nil
}

// suffix ends the names of records; other files are left over from a crash.
const suffix = ".json"

func (l Ledger) file(key string) string { return filepath.Join(l.Dir, key+suffix) }

// read reads a record. A record without text, as a crash of the machine leaves it, counts as
// empty: the placeholders are unknown then.
func (l Ledger) read(key string) (*ledgerRecord, error) {
	data, err := atomicfile.Read(l.file(key), 8<<20)
	if err != nil {
		return nil, err
	}
	a := new(ledgerRecord)
	if json.Unmarshal(data, a) != nil {
		return new(ledgerRecord), nil
	}
	return a, nil
}

func (l Ledger) write(key string, a *ledgerRecord) error {
	data, err := json.Marshal(a)
	if err != nil {
		return err
	}
	if err := atomicfile.Write(l.file(key), data, 0o600); err != nil {
		return fmt.Errorf("writing the ledger of placeholders: %w", err)
	}
	return nil
}

// keys lists the keys of the records.
func (l Ledger) keys() ([]string, error) {
	list, err := os.ReadDir(l.Dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	var out []string
	for _, e := range list {
		if key, ok := strings.CutSuffix(e.Name(), suffix); ok {
			out = append(out, key)
		}
	}
	return out, err
}

// partialFiles lists the files of records that were being written (atomicfile.Write).
func (l Ledger) partialFiles() ([]string, error) {
	return filepath.Glob(filepath.Join(l.Dir, "*"+suffix+".*.tmp"))
}

// create makes the missing placeholders among the paths of a directory, for the jail of that key. A
// file that has appeared since the search stays, and a placeholder whose directory vanishes
// meanwhile is left out. source is the directory's path on the host. denied are the placeholders
// that no user of the jail could make.
func (l Ledger) create(key string, root *os.File, source string, paths []Path) (denied []CreatedPlaceholder, err error) {
	t := tree{root: root, mounts: true}
	absent := slices.ContainsFunc(paths, func(p Path) bool { return p.Treatment == Placeholder })
	keys, err := l.keys()
	if err != nil || !absent && len(keys) == 0 && len(t.bare(paths)) == 0 {
		return nil, err
	}
	unlock, err := l.lock()
	if err != nil {
		return nil, err
	}
	defer unlock()
	// The directories as they are now: another jail's end may have come after the search.
	want, bare := missing(t, source, paths), t.bare(paths)
	a, err := l.read(key)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	if a == nil {
		a = &ledgerRecord{Since: time.Now().UnixNano(), Boot: l.Boot, Store: l.Store}
	}
	known, err := l.known()
	if err != nil {
		return nil, err
	}
	a.Made = append(a.Made, shared(t, source, paths, known, a.Made)...)
	stakes, foreign := l.stand(t, source, bare, known)
	a.Made = append(a.Made, foreign...)
	want = append(want, stakes...)
	if len(want) == 0 && len(a.Made) == 0 {
		return nil, nil
	}
	begin := len(a.Made)
	a.Made = append(a.Made, want...)
	if err := l.write(key, a); err != nil {
		return nil, err
	}
	if len(want) == 0 {
		return nil, nil
	}
	made, denied, err := l.makeAll(t, source, a.Made[begin:])
	if err != nil {
		return nil, err
	}
	a.Made = append(a.Made[:begin:begin], made...)
	return denied, l.write(key, a)
}

// comparePaths orders paths so that a directory's content follows it at once.
func comparePaths(a, b string) int {
	for i := range min(len(a), len(b)) {
		switch x, y := a[i], b[i]; {
		case x == y:
		case x == '/':
			return -1
		case y == '/':
			return 1
		default:
			return cmp.Compare(x, y)
		}
	}
	return cmp.Compare(len(a), len(b))
}

// groupNested splits a list before each placeholder that does not lie in the first of its group.
func groupNested(list []CreatedPlaceholder) (out [][]CreatedPlaceholder) {
	begin := 0
	for i := range list {
		if i+1 == len(list) || !pathname.Below(list[i+1].Path, list[begin].Path) {
			out = append(out, list[begin:i+1])
			begin = i + 1
		}
	}
	return out
}

// makeAll makes placeholders, groups in parallel. made are those that
// were not there, denied those that could not be made.
func (l Ledger) makeAll(t tree, source string, list []CreatedPlaceholder) (made, denied []CreatedPlaceholder, err error) {
	all := groupNested(list)
	type result struct {
		made, denied []CreatedPlaceholder
		err          error
	}
	results := make([]result, len(all))
	parallel(len(all), func(_, i int) {
		r := &results[i]
		r.made, r.denied, r.err = l.makeGroup(t, source, all[i])
	})
	for _, r := range results {
		made, denied, err = append(made, r.made...), append(denied, r.denied...), errors.Join(err, r.err)
	}
	return made, denied, err
}

func (l Ledger) makeGroup(t tree, source string, list []CreatedPlaceholder) (made, denied []CreatedPlaceholder, err error) {
	for _, m := range list {
		if slices.ContainsFunc(denied, func(d CreatedPlaceholder) bool { return pathname.Below(m.Path, d.Path) }) {
			denied = append(denied, m)
			continue
		}
		if isMarker(m.Text) && m.Text != markerStood && !slices.ContainsFunc(made, func(d CreatedPlaceholder) bool {
			return d.Path == path.Dir(m.Path)
		}) {
			continue // the directory is another's
		}
		ok, err := m.make(t, source)
		if errors.Is(err, unix.EPERM) || l.User && errors.Is(err, unix.EACCES) {
			denied = append(denied, m) // an immutable directory (chattr(1)), or another's
			continue
		}
		if moved(err) || err != nil && m.optional() {
			continue
		}
		if err != nil {
			return nil, nil, fmt.Errorf("making the placeholder %s (remedy: make it by hand, or name it in binds.unprotect, which opens it to the jail): %w", m.Path, err)
		}
		if ok {
			made = append(made, m)
		}
	}
	return made, denied, nil
}

// missing lists the placeholders to make among paths: the directories on the way, then the
// placeholder itself, and the marker in a directory.
func missing(t tree, source string, paths []Path) (out []CreatedPlaceholder) {
	absent := map[string]bool{} // directories, by whether they are to be made
	for _, p := range paths {
		if p.Treatment != Placeholder {
			continue
		}
		begin, at := len(out), path.Join(source, p.Rel)
		if p.Dir {
			out = append(out, CreatedPlaceholder{Path: path.Join(at, marker), Text: markerMade})
		}
		out = append(out, CreatedPlaceholder{Path: at, Dir: p.Dir, Text: p.Text})
		for dir := path.Dir(p.Rel); dir != "."; dir = path.Dir(dir) {
			if _, known := absent[dir]; known {
				break
			}
			_, err := t.stat(dir)
			if absent[dir] = errors.Is(err, unix.ENOENT); !absent[dir] {
				break
			}
			out = append(out, CreatedPlaceholder{Path: path.Join(source, dir), Dir: true})
		}
		if p.Dir && absent[path.Dir(p.Rel)] {
			out[begin].Text = markerBoth
		}
		slices.Reverse(out[begin:])
	}
	return out
}

// afterMkdir is for tests: it stands for another user of the directory who acts between two
// steps.
var afterMkdir = func(name string) {}

// make makes a placeholder as the user that its directory belongs to, and records its identity.
// ok is false if the name exists already.
func (m *CreatedPlaceholder) make(t tree, source string) (ok bool, err error) {
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
func (m *CreatedPlaceholder) makeIn(dir int, name string, uid uint32) (ok bool, err error) {
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
	var st unix.Statx_t
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_BASIC_STATS|unix.STATX_BTIME, &st); err != nil {
		return false, err
	}
	if st.Uid != uid && st.Uid != thread.Owner() {
		return false, nil // exchanged meanwhile: another user's
	}
	m.note(&st)
	return true, nil
}

// note records a placeholder's identity.
func (m *CreatedPlaceholder) note(st *unix.Statx_t) {
	m.Dev, m.Ino, m.Born = unix.Mkdev(st.Dev_major, st.Dev_minor), st.Ino, born(st)
}

// known are the placeholders of all records.
func (l Ledger) known() (map[identity]CreatedPlaceholder, error) {
	keys, err := l.keys()
	if err != nil {
		return nil, err
	}
	out := map[identity]CreatedPlaceholder{}
	for _, k := range keys {
		a, err := l.read(k)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, m := range a.Made {
			if m.locate(a.Since); m.Ino != 0 {
				out[m.identity()] = m
			}
		}
	}
	return out, nil
}

// shared lists placeholders of other jails that are to serve this one too, by
// whatever path those have the directory. mine are this jail's already.
func shared(t tree, source string, paths []Path, known map[identity]CreatedPlaceholder,
	mine []CreatedPlaceholder,
) (out []CreatedPlaceholder) {
	if len(known) == 0 {
		return nil
	}
	seen := map[identity]bool{}
	for _, m := range mine {
		seen[m.identity()] = true
	}
	for rel := range withParents(paths) {
		st, err := t.statx(rel)
		if err != nil {
			continue
		}
		m := CreatedPlaceholder{}
		m.note(&st)
		if k, ok := known[m.identity()]; ok && !seen[m.identity()] {
			seen[m.identity()] = true
			k.Path = path.Join(source, rel)
			out = append(out, k)
		}
	}
	slices.SortFunc(out, func(a, b CreatedPlaceholder) int { return comparePaths(a.Path, b.Path) })
	return out
}

// withParents is the set of paths, of the directories that they lie in, and of
// the markers that may be in them.
func withParents(paths []Path) map[string]bool {
	out := map[string]bool{}
	for _, p := range paths {
		if p.Dir {
			out[path.Join(p.Rel, marker)] = true
		}
		for rel := p.Rel; rel != "." && !out[rel]; rel = path.Dir(rel) {
			out[rel] = true
			if up := path.Dir(rel); up != "." { // another jail may keep it as a whole
				out[path.Join(up, marker)] = true
			}
		}
	}
	return out
}

// Remove deletes a jail's record and removes the placeholders that no other jail
// stands on, unless they are something else by now.
func (l Ledger) Remove(key string) error {
	if _, err := os.Lstat(l.file(key)); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	unlock, err := l.lock()
	if err != nil {
		return err
	}
	defer unlock()
	return l.remove(key)
}

func (l Ledger) remove(key string) error {
	a, err := l.read(key)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	keys, err := l.keys()
	if err != nil {
		return err
	}
	used, at := map[identity]bool{}, map[string]bool{}
	for _, k := range keys {
		if k == key {
			continue
		}
		other, err := l.read(k)
		if err != nil {
			return err
		}
		for _, m := range other.Made {
			m.locate(other.Since)
			used[m.identity()] = m.Ino != 0
			at[m.Path] = true
		}
	}
	inUse := func(m CreatedPlaceholder) bool {
		unnoted := m.Ino == 0
		m.locate(a.Since)
		return used[m.identity()] || unnoted && at[m.Path]
	}
	if err := removeAll(slices.DeleteFunc(a.Made, inUse), a.Since); err != nil {
		return err
	}
	if err := os.Remove(l.file(key)); err != nil {
		return fmt.Errorf("removing the ledger's record: %w", err)
	}
	return nil
}

// removeAll removes placeholders, groups in parallel.
func removeAll(list []CreatedPlaceholder, since int64) error {
	// Another jail may have made the first ones of a group.
	slices.SortFunc(list, func(a, b CreatedPlaceholder) int { return comparePaths(a.Path, b.Path) })
	all := groupNested(list)
	errs := make([]error, len(all))
	parallel(len(all), func(_, i int) {
		for _, m := range slices.Backward(all[i]) {
			if err := m.remove(since); err != nil {
				errs[i] = err
				return
			}
		}
	})
	return errors.Join(errs...)
}

// remove removes a placeholder that is still one, at its first place or where its directory is
// now. It leaves files alone that another process has made, filled or moved.
func (m *CreatedPlaceholder) remove(since int64) error {
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
func (m *CreatedPlaceholder) removeIn(dir int, since int64) (found bool, err error) {
	name := path.Base(m.Path)
	var st unix.Statx_t
	if unix.Statx(dir, name, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BASIC_STATS|unix.STATX_BTIME, &st) != nil || !m.is(&st, since) {
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
func (m *CreatedPlaceholder) locate(since int64) {
	if m.Ino != 0 {
		return
	}
	fd, err := openat.Open(unix.AT_FDCWD, m.Path, openat.NoLinks, unix.O_PATH|unix.O_NOFOLLOW)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	var st unix.Statx_t
	if unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_BASIC_STATS|unix.STATX_BTIME, &st) != nil || !m.is(&st, since) {
		return
	}
	if text := m.text(); !m.Dir && st.Size < uint64(len(text)) {
		m.Text = text[:st.Size]
	}
	m.note(&st)
}

// is reports whether a file is this placeholder and no other file of its name.
func (m *CreatedPlaceholder) is(st *unix.Statx_t, since int64) bool {
	kind := uint16(unix.S_IFREG)
	if m.Dir {
		kind = unix.S_IFDIR
	}
	if st.Mode&unix.S_IFMT != kind || !m.Dir && (st.Nlink != 1 || st.Size != uint64(len(m.text())) && m.Ino != 0) {
		return false
	}
	if m.Ino != 0 {
		return st.Ino == m.Ino && unix.Mkdev(st.Dev_major, st.Dev_minor) == m.Dev && born(st) == m.Born
	}
	// A crash came between making it and recording its identity.
	at := born(st)
	return at != 0 && at >= since-int64(clockSlack)
}

// born is a file's birth, 0 where the file system does not keep it.
func born(st *unix.Statx_t) int64 {
	if st.Mask&unix.STATX_BTIME == 0 {
		return 0
	}
	return st.Btime.Sec*int64(time.Second) + int64(st.Btime.Nsec)
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

// ours reports whether a record is of this store's jails, or of an earlier boot's.
func (l Ledger) ours(key string) bool {
	a, err := l.read(key)
	return err == nil && (a.Boot != l.Boot || a.Store == l.Store)
}

// Sweep removes the records of jails that no longer exist.
func (l Ledger) Sweep(exists func(key string) bool) error {
	keys, err := l.keys()
	if err != nil {
		return err
	}
	torn, err := l.partialFiles()
	if err != nil || len(torn) == 0 && !slices.ContainsFunc(keys, func(k string) bool { return !exists(k) }) {
		return err
	}
	unlock, err := l.lock()
	if err != nil {
		return err
	}
	defer unlock()
	// No process writes while the lock is held: such a file is left over from a crash.
	torn, err = l.partialFiles()
	errs := []error{err}
	for _, path := range torn {
		errs = append(errs, os.Remove(path))
	}
	for _, k := range keys {
		if !exists(k) && l.ours(k) {
			errs = append(errs, l.remove(k))
		}
	}
	return errors.Join(errs...)
}

// maxVanished bounds the list of vanished placeholders.
const maxVanished = 64

// Vanished lists a jail's placeholders that are not where they were made any more,
// while the directory that they lay in is.
func (l Ledger) Vanished(key string) (out []string) {
	a, err := l.read(key)
	if err != nil {
		return nil
	}
	marked := map[string]bool{} // placeholders; other directories are only on the way to some
	for i := range a.Made {
		if isMarker(a.Made[i].Text) {
			marked[path.Dir(a.Made[i].Path)] = true
		}
	}
	var gone []string // of those on the way
	for i := range a.Made {
		m := &a.Made[i]
		if m.Ino == 0 || isMarker(m.Text) || m.optional() || m.there() {
			continue
		}
		if !slices.ContainsFunc(gone, func(dir string) bool { return pathname.Below(m.Path, dir) }) && !m.sameDirectory() {
			continue
		}
		if m.Dir && !marked[m.Path] {
			gone = append(gone, m.Path)
		} else if out = append(out, m.Path); len(out) == maxVanished {
			break
		}
	}
	return out
}

// there reports that the placeholder is where it was made.
func (m *CreatedPlaceholder) there() bool {
	var st unix.Statx_t
	if unix.Statx(unix.AT_FDCWD, m.Path, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, unix.STATX_BASIC_STATS|unix.STATX_BTIME,
		&st) != nil {
		return false
	}
	at := CreatedPlaceholder{}
	at.note(&st)
	return at.identity() == m.identity()
}

// sameDirectory reports that the path still leads to the directory that the
// placeholder was made in.
func (m *CreatedPlaceholder) sameDirectory() bool {
	fd, err := unix.Open(path.Dir(m.Path), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	return m.Up == handleOf(fd)
}
