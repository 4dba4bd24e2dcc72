// Package workspace keeps the views of mounted directories: a jail writes into a layer of its own
// over the directory, and the directory changes only when its owner applies the layer.
//
// Layout below the store's directory, which only root may enter:
//
//	ID/record.json   the record
//	ID/image         the layer: an ext4 file system, allocated as a whole
//	ID/applied.json  what apply has left in the directory
//	ID/bases.json    what the layer's files were made of (review.Bases)
//	ID/apply         the journal of an apply that works, or was cut off
//	.template-…      images that new ones are copied from, by kind and size
//	.new-…           a view that is being made
//	.applies         the locks of directories that an apply works in
//
// The layers of roots on disk are files without names there (ThrowAway).
package workspace

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/atomicfile"
	"agentjail.dev/runtime/kernel/filetime"
	"agentjail.dev/runtime/kernel/pathname"
	"agentjail.dev/runtime/state"
	"agentjail.dev/runtime/state/reference"
	"agentjail.dev/runtime/version/form"
	"agentjail.dev/runtime/workspace/review"
)

// State reports what can be done with a view.
type State string

// The states of a view.
const (
	// Open is a view that a jail has, or had until it was killed.
	Open State = "open"
	// Ended is a view that no jail has: all that its jail wrote is on the disk.
	Ended State = "ended"
	// Incomplete is a view that was open when the machine ended: what was written last may be
	// missing (overlayfs.rst, "Volatile mount"). It is never mounted for a jail again.
	Incomplete State = "incomplete"
)

// A Record describes one view.
type Record struct {
	// Form is the newest form of what belongs to the view (package form).
	Form int    `json:"form,omitempty"`
	ID   string `json:"id"`
	Name string `json:"name,omitempty"`
	// Path is the directory's when the view was made, and Dev and Ino identify the directory.
	Path string `json:"path"`
	Dev  uint64 `json:"dev"`
	Ino  uint64 `json:"ino"`
	// UID, GID and Mode are the directory's.
	UID  uint32 `json:"uid"`
	GID  uint32 `json:"gid"`
	Mode uint32 `json:"mode"`
	// At is the view's place in the jail.
	At string `json:"at"`
	// Since is when the view was made, in nanoseconds since 1970, by the clock of files' times
	// (filetime.Moment): a file of the directory with a later ctime has changed since.
	Since int64 `json:"since"`
	// Booted is the boot of Boot by the clock as a jail began with the view (filetime.Booted), and
	// Back by how much the clock was set back until then: files' times are earlier by that.
	Booted int64 `json:"booted,omitempty"`
	Back   int64 `json:"back,omitempty"`
	// Boot is the boot in which a jail had the view last, Jail that jail's id, and Key its key.
	Boot string `json:"boot"`
	Jail string `json:"jail"`
	Key  string `json:"key"`
	// Journal is the path of that jail's journal, "" where it has none.
	Journal string `json:"journal,omitempty"`
	// Size and Files bound the layer, in bytes and inodes.
	Size  int64 `json:"size"`
	Files int64 `json:"files"`
	// Hide are the names that policy hides in the view.
	Hide []string `json:"hide,omitempty"`
	// State is Open or Ended in the file; Store.Open and List return Incomplete where it holds.
	State State `json:"state"`
}

// Store is the directory of all views. Boot is this boot's id.
type Store struct {
	Dir, Boot string
	Bounds    Bounds // of layers that are made
	// Invoker, if not 0, is the user on whose behalf root looks: views of other users' directories
	// are left out.
	Invoker uint32
}

// defaultDir holds the views of the machine's jails: they outlive a boot.
const defaultDir = "/var/lib/agentjail/workspaces"

// Of returns the store of the views of a store's jails.
func Of(s state.Store) Store {
	w := Store{Dir: filepath.Join(s.Root, "workspaces"), Boot: state.BootID()}
	if s.Root == state.DefaultRoot {
		w.Dir = defaultDir
	}
	return w
}

const (
	recordFile  = "record.json"
	appliedFile = "applied.json"
	basesFile   = "bases.json"
	imageFile   = "image"
	newPrefix   = ".new-"
	journalDir  = "apply"
	locksFile   = ".applies"

	maxRecord = 1 << 20
	maxPaths  = 256 << 20
)

// ErrNotFound is wrapped by the error for a view that does not exist.
var ErrNotFound = errors.New("there is no such view")

// Journal is the path of the journal of a view's apply: it exists while one works, and after one
// that was cut off.
func (s Store) Journal(r *Record) string { return s.path(r.ID, journalDir) }

// Locks is the path of the file with the locks of directories, by an apply each.
func (s Store) Locks() string { return filepath.Join(s.Dir, locksFile) }

// Began returns the first moment, by the clock of files' times, of a change that may be later than
// the view: Since, or back before it, by as much as the clock was set back meanwhile.
func (s Store) Began(r *Record) (began time.Time, back time.Duration, err error) {
	back, err = s.setBack(r)
	return time.Unix(0, r.Since).Add(-back), back, err
}

// setBack returns by how much the clock was set back since a view was made. In a boot that no jail
// has had the view in, no time is before that boot.
func (s Store) setBack(r *Record) (time.Duration, error) {
	_, now, err := filetime.Booted()
	had := r.Booted
	if r.Boot != s.Boot {
		had = r.Since
	}
	return time.Duration(max(r.Back, had-now, 0)), err
}

// noteClock records how the clock is, and how it was set until now.
func (s Store) noteClock(r *Record) error {
	back, err := s.setBack(r)
	if err != nil {
		return err
	}
	r.Back, r.Boot = int64(back), s.Boot
	r.Booted, _, err = filetime.Booted()
	return err
}

func (s Store) path(id, name string) string { return filepath.Join(s.Dir, id, name) }

// List returns all views, the oldest first. A record that cannot be read, as a crash of the
// machine may leave it, is an Incomplete view with its id alone.
func (s Store) List() ([]*Record, error) {
	list, err := os.ReadDir(s.Dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing views: %w", err)
	}
	var out []*Record
	for _, e := range list {
		if strings.HasPrefix(e.Name(), ".") || !e.IsDir() {
			continue
		}
		r, err := s.read(e.Name())
		if errors.Is(err, os.ErrNotExist) {
			continue // it is being removed
		}
		if err != nil {
			r = &Record{ID: e.Name(), State: Incomplete}
		}
		if s.Invoker != 0 && r.UID != s.Invoker {
			continue
		}
		out = append(out, r)
	}
	slices.SortStableFunc(out, func(a, b *Record) int { return time.Unix(0, a.Since).Compare(time.Unix(0, b.Since)) })
	return out, nil
}

// read reads the record of a view by its id.
func (s Store) read(id string) (*Record, error) {
	data, err := atomicfile.Read(s.path(id, recordFile), maxRecord)
	if err != nil {
		return nil, err
	}
	r := new(Record)
	if err := json.Unmarshal(data, r); err != nil {
		return nil, fmt.Errorf("reading %s: %w", s.path(id, recordFile), err)
	}
	if r.ID != id {
		return nil, fmt.Errorf("%s is the record of view %q", s.path(id, recordFile), r.ID)
	}
	r.Path = pathname.FromJSON(r.Path)
	if r.State == Open && r.Boot != s.Boot {
		r.State = Incomplete
	}
	return r, nil
}

// understood refuses a view of another release that this one would misunderstand. Such a view can
// be listed and discarded.
func (r *Record) understood() error {
	if err := form.Check(r.Form, "agentjail workspace discard "+r.ID); err != nil {
		return fmt.Errorf("view %s: %w", r.ID, err)
	}
	return nil
}

// Open returns the view of an id, a name or the beginning of an id (reference.Find).
func (s Store) Open(ref string) (*Record, error) {
	all, err := s.List()
	if err != nil {
		return nil, err
	}
	named := make([]reference.Named, len(all))
	for i, r := range all {
		named[i] = reference.Named{ID: r.ID, Show: r.ID, Runs: r.State == Open, Names: func() []string { return []string{r.Name} }}
	}
	at, err := reference.Find(ref, named, false)
	switch {
	case err != nil:
		return nil, fmt.Errorf("view %w", err)
	case at < 0:
		return nil, fmt.Errorf("view %q: %w (remedy: `agentjail workspace list` shows those that exist)", ref, ErrNotFound)
	}
	return all[at], nil
}

// save writes a record.
func (s Store) save(r *Record) error {
	text := *r
	text.Form, text.Path = max(r.Form, form.Number), pathname.ToJSON(r.Path)
	data, err := json.Marshal(text)
	if err != nil {
		return err
	}
	return atomicfile.Write(s.path(r.ID, recordFile), data, 0o600)
}

// Applied returns the times of change (ctime, in nanoseconds since 1970) that apply has left, by
// path below the directory: "." is the directory itself. A file with this time is not a conflict.
func (s Store) Applied(r *Record) (map[string]int64, error) {
	out, err := readPaths[int64](s.path(r.ID, appliedFile))
	if errors.Is(err, os.ErrNotExist) {
		return map[string]int64{}, nil
	}
	return out, err
}

// SaveApplied replaces what Applied returns.
func (s Store) SaveApplied(r *Record, applied map[string]int64) error {
	return writePaths(s.path(r.ID, appliedFile), applied)
}

// Bases returns what the files of a view's layer were based on as its last jail ended; an error of
// os.ErrNotExist where none has.
func (s Store) Bases(r *Record) (map[string]review.Base, error) {
	out, err := readPaths[review.Base](s.path(r.ID, basesFile))
	for at, b := range out {
		b.Path = pathname.FromJSON(b.Path)
		out[at] = b
	}
	return out, err
}

// SaveBases replaces what Bases returns.
func (s Store) SaveBases(r *Record, bases map[string]review.Base) error {
	text := make(map[string]review.Base, len(bases))
	for at, b := range bases {
		b.Path = pathname.ToJSON(b.Path)
		text[at] = b
	}
	return writePaths(s.path(r.ID, basesFile), text)
}

// readPaths reads a file with a value for each of some paths.
func readPaths[T any](file string) (map[string]T, error) {
	data, err := atomicfile.Read(file, maxPaths)
	if err != nil {
		return nil, err
	}
	var text map[string]T
	if err := json.Unmarshal(data, &text); err != nil {
		return nil, fmt.Errorf("reading %s: %w", file, err)
	}
	out := make(map[string]T, len(text))
	for at, value := range text {
		out[pathname.FromJSON(at)] = value
	}
	return out, nil
}

func writePaths[T any](file string, paths map[string]T) error {
	text := make(map[string]T, len(paths))
	for at, value := range paths {
		text[pathname.ToJSON(at)] = value
	}
	data, err := json.Marshal(text)
	if err != nil {
		return err
	}
	return atomicfile.Write(file, data, 0o600)
}

// Discard removes a view. A view that a jail has is not removed, nor one whose apply was cut off,
// as long as its directory is there.
func (s Store) Discard(r *Record) error {
	dir, err := openDirectory(r)
	if err == nil {
		dir.Close()
	}
	lock, err := s.exclusive(r, errors.Is(err, os.ErrNotExist))
	if err != nil {
		return err
	}
	defer lock.Close()
	return s.remove(r.ID)
}

// remove removes a view's directory, the record last: until then the view is listed.
func (s Store) remove(id string) error {
	for _, name := range []string{imageFile, appliedFile, basesFile} {
		if err := os.Remove(s.path(id, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("removing view %s: %w", id, err)
		}
	}
	if err := os.RemoveAll(filepath.Join(s.Dir, id)); err != nil {
		return fmt.Errorf("removing view %s: %w", id, err)
	}
	return nil
}

// newID returns an id that no view has.
func newID() string {
	var b [6]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// Held returns the number of bytes that the views' images take up on the disk.
func (s Store) Held(all []*Record) int64 {
	var sum int64
	for _, r := range all {
		sum += s.Room(r)
	}
	return sum
}

// used returns when a jail had a view last: it began or ended then.
func (s Store) used(r *Record) time.Time {
	fi, err := os.Lstat(s.path(r.ID, recordFile))
	if err != nil {
		return time.Unix(0, r.Since)
	}
	return fi.ModTime()
}

// Expired returns views that no jail has: each that was not used for a time, and as many others,
// those that were used longest ago first, as leave the rest with no more than a size. 0 sets no
// bound.
func (s Store) Expired(all []*Record, age time.Duration, size int64) (out []*Record) {
	held, used := s.Held(all), map[*Record]time.Time{}
	for _, r := range all {
		used[r] = s.used(r)
	}
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b *Record) int { return used[a].Compare(used[b]) })
	for _, r := range all {
		old := age > 0 && time.Since(used[r]) > age
		if r.State != Open && (old || size > 0 && held > size) {
			out = append(out, r)
			held -= s.Room(r)
		}
	}
	return out
}

// Room returns the number of bytes that a view takes up on the disk.
func (s Store) Room(r *Record) int64 {
	var st unix.Stat_t
	if unix.Lstat(s.path(r.ID, imageFile), &st) != nil {
		return 0
	}
	return st.Blocks * 512
}
