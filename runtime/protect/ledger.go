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
	"agentjail.dev/runtime/kernel/pathname"
)

// Ledger is the record of placeholders: mount points that were made in mounted directories for
// paths that were not there. It is written before the first of them is made, and outlives a boot as
// they do. Several jails may have one placeholder; it is removed with the last of them.
type Ledger struct {
	Dir string // mode 0700
	// Boot and Store identify the jails of a record: a machine's containers may share the
	// ledger's directory, and have states of their own.
	Boot, Store string
	// User reports that this process is not the machine's root: its jails have no more rights to
	// create files than the process.
	User bool
}

// ledgerRecord is a jail's file in the ledger.
type ledgerRecord struct {
	Made []placeholder `json:"made"`
	// Since is when the record was written, in nanoseconds since 1970: agentjail did not make
	// older files.
	Since int64  `json:"since"`
	Boot  string `json:"boot,omitempty"`
	Store string `json:"store,omitempty"`
}

// beforeLock is for tests: there another jail takes the ledger first.
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
func (l Ledger) create(key string, root *os.File, source string, paths []Path) (denied []placeholder, err error) {
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
func groupNested(list []placeholder) (out [][]placeholder) {
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
func (l Ledger) makeAll(t tree, source string, list []placeholder) (made, denied []placeholder, err error) {
	all := groupNested(list)
	type result struct {
		made, denied []placeholder
		err          error
	}
	results := make([]result, len(all))
	parallel(len(all), func(i int) {
		r := &results[i]
		r.made, r.denied, r.err = l.makeGroup(t, source, all[i])
	})
	for _, r := range results {
		made, denied, err = append(made, r.made...), append(denied, r.denied...), errors.Join(err, r.err)
	}
	return made, denied, err
}

func (l Ledger) makeGroup(t tree, source string, list []placeholder) (made, denied []placeholder, err error) {
	for _, m := range list {
		if slices.ContainsFunc(denied, func(d placeholder) bool { return pathname.Below(m.Path, d.Path) }) {
			denied = append(denied, m)
			continue
		}
		if isMarker(m.Text) && m.Text != markerStood && !slices.ContainsFunc(made, func(d placeholder) bool {
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
func missing(t tree, source string, paths []Path) (out []placeholder) {
	absent := map[string]bool{} // directories, by whether they are to be made
	for _, p := range paths {
		if p.Treatment != Placeholder {
			continue
		}
		begin, at := len(out), path.Join(source, p.Rel)
		if p.Dir {
			out = append(out, placeholder{Path: path.Join(at, marker), Text: markerMade})
		}
		out = append(out, placeholder{Path: at, Dir: p.Dir, Text: p.Text})
		for dir := path.Dir(p.Rel); dir != "."; dir = path.Dir(dir) {
			if _, known := absent[dir]; known {
				break
			}
			_, err := t.stat(dir)
			if absent[dir] = errors.Is(err, unix.ENOENT); !absent[dir] {
				break
			}
			out = append(out, placeholder{Path: path.Join(source, dir), Dir: true})
		}
		if p.Dir && absent[path.Dir(p.Rel)] {
			out[begin].Text = markerBoth
		}
		slices.Reverse(out[begin:])
	}
	return out
}

// known are the placeholders of all records.
func (l Ledger) known() (map[identity]placeholder, error) {
	records, err := l.records("")
	out := map[identity]placeholder{}
	for _, a := range records {
		for _, m := range a.Made {
			if m.locate(a.Since); m.Ino != 0 {
				out[m.identity] = m
			}
		}
	}
	return out, err
}

// records reads all records but that of a key.
func (l Ledger) records(but string) (out []*ledgerRecord, err error) {
	keys, err := l.keys()
	for _, k := range keys {
		if k == but {
			continue
		}
		a, err := l.read(k)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		out = append(out, a)
	}
	return out, err
}

// shared lists placeholders of other jails that are to serve this one too, by
// whatever path those have the directory. mine are this jail's already.
func shared(t tree, source string, paths []Path, known map[identity]placeholder,
	mine []placeholder,
) (out []placeholder) {
	if len(known) == 0 {
		return nil
	}
	seen := map[identity]bool{}
	for _, m := range mine {
		seen[m.identity] = true
	}
	for rel := range withParents(paths) {
		st, err := t.statx(rel)
		if err != nil {
			continue
		}
		if k, ok := known[identityOf(&st)]; ok && !seen[k.identity] {
			seen[k.identity] = true
			k.Path = path.Join(source, rel)
			out = append(out, k)
		}
	}
	slices.SortFunc(out, func(a, b placeholder) int { return comparePaths(a.Path, b.Path) })
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

// Remove deletes a jail's record and removes the placeholders that no other jail has, unless they
// are something else by now.
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
	others, err := l.records(key)
	if err != nil {
		return err
	}
	used, at := map[identity]bool{}, map[string]bool{}
	for _, other := range others {
		for _, m := range other.Made {
			m.locate(other.Since)
			used[m.identity] = m.Ino != 0
			at[m.Path] = true
		}
	}
	inUse := func(m placeholder) bool {
		unnoted := m.Ino == 0
		m.locate(a.Since)
		return used[m.identity] || unnoted && at[m.Path]
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
func removeAll(list []placeholder, since int64) error {
	// Another jail may have made the first ones of a group.
	slices.SortFunc(list, func(a, b placeholder) int { return comparePaths(a.Path, b.Path) })
	all := groupNested(list)
	errs := make([]error, len(all))
	parallel(len(all), func(i int) {
		for _, m := range slices.Backward(all[i]) {
			if err := m.remove(since); err != nil {
				errs[i] = err
				return
			}
		}
	})
	return errors.Join(errs...)
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
