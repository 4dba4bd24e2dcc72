package homes

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/openat"
	"agentjail.dev/runtime/kernel/printable"
	"agentjail.dev/runtime/spec/policy"
	"agentjail.dev/runtime/state/reference"
)

// suffix ends the names of the files of homes.
const suffix = ".ext4"

// A Kept is a home that exists.
type Kept struct {
	Home
	// Path is the path of its file, and ID the file's name without suffix.
	Path, ID string
	// Used is when a jail had it last, and Held the number of bytes that it takes up on the disk.
	Used time.Time
	Held int64
	// Busy reports that a jail has it now.
	Busy bool
}

// List returns the homes below a directory, those that were used last first.
func List(dir string) ([]Kept, error) {
	owners, err := filepath.Glob(filepath.Join(dir, "*"))
	var out []Kept
	for _, dir := range owners {
		err = errors.Join(err, eachIn(dir, func(k Kept) { out = append(out, k) }))
	}
	slices.SortFunc(out, func(a, b Kept) int { return b.Used.Compare(a.Used) })
	return out, err
}

// eachIn calls f with each home in a directory, which is one owner's.
func eachIn(dir string, f func(Kept)) error {
	lock, err := lockDir(dir)
	if err != nil {
		return err
	}
	defer lock.Close()
	files, err := filepath.Glob(filepath.Join(dir, "*"+suffix))
	for _, path := range files {
		k, lerr := lookAt(path)
		if err = errors.Join(err, lerr); lerr == nil {
			f(k)
		}
	}
	return err
}

// lookAt returns what there is of a home.
func lookAt(path string) (Kept, error) {
	k := Kept{Home: described(path), Path: path, ID: strings.TrimSuffix(filepath.Base(path), suffix)}
	f, err := openat.File(unix.AT_FDCWD, path, openat.NoLinks, unix.O_RDONLY)
	if err != nil {
		return k, err
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return k, err
	}
	k.Held, k.Used = st.Blocks*512, time.Unix(st.Mtim.Unix())
	k.Busy = unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB) == unix.EWOULDBLOCK
	return k, nil
}

// Find returns the home that ref names (reference.Find): by its ID, its project, or the beginning
// of its ID.
func Find(ref string, all []Kept) (Kept, error) {
	named := make([]reference.Named, len(all))
	for i, k := range all {
		names := func() []string { return []string{k.Project} }
		named[i] = reference.Named{ID: k.ID, Show: k.ID + " of " + k.Project, Runs: k.Busy, Names: names}
	}
	at, err := reference.Find(ref, named, false)
	switch {
	case err != nil:
		return Kept{}, fmt.Errorf("home %w", err)
	case at < 0:
		return Kept{}, fmt.Errorf("home %q: %w (remedy: `agentjail home list` shows those that exist)", ref, os.ErrNotExist)
	}
	return all[at], nil
}

// Expired returns the homes that no jail has, and had for a time. 0 sets no bound.
func Expired(all []Kept, age time.Duration) []Kept {
	return slices.DeleteFunc(slices.Clone(all), func(k Kept) bool { return k.Busy || age == 0 || time.Since(k.Used) <= age })
}

// Summarize returns a line about homes: their number, and what they take up on the disk.
func Summarize(all []Kept) string {
	var held int64
	for _, k := range all {
		held += k.Held
	}
	return fmt.Sprintf("%s of agents take up %s (agentjail home list)", printable.Count(len(all), "home"), policy.Size(held))
}

// Remove removes the home. The error is about the jail that has it, if one has.
func (k Kept) Remove() error {
	lock, err := lockDir(filepath.Dir(k.Path))
	if err != nil {
		return err
	}
	defer lock.Close()
	f, err := k.open(k.Path, false)
	if err != nil {
		return err
	}
	defer f.Close()
	return errors.Join(os.Remove(k.Path), os.Remove(about(k.Path)))
}
