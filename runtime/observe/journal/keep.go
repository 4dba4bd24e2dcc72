package journal

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/atomicfile"
	"agentjail.dev/runtime/spec/policy"
	"agentjail.dev/runtime/state"
)

// KeptFiles are files of a jail's directory that are kept beside its journal when it is deleted, by
// their names: what other sources read.
var KeptFiles = [...]string{"network.log", "network.log.1"}

// maxKept bounds each of them.
const maxKept = 8 << 20

// KeptDir is the directory beside a journal where such files are kept.
func KeptDir(path string) string { return strings.TrimSuffix(path, suffix) + keptSuffix }

const keptSuffix = ".d"

// Keep keeps what is to be kept of a jail's directory that is about to be removed. The returned
// events report what, with its hash.
func Keep(path, dir string) ([]Event, error) {
	var out []Event
	var errs []error
	for _, name := range KeptFiles {
		data, err := ReadLast(filepath.Join(dir, name), maxKept)
		if errors.Is(err, os.ErrNotExist) || err == nil && len(data) == 0 {
			continue
		}
		if err == nil {
			err = keepFile(KeptDir(path), name, data)
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		out = append(out, Event{Kind: JournalKept, Target: name, Hash: HashOf(data)})
	}
	return out, errors.Join(errs...)
}

func keepFile(dir, name string, data []byte) error {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return atomicfile.Write(filepath.Join(dir, name), data, 0o600)
}

// ReadLast reads the last most bytes of a file, or all. It follows no link, and an error is also
// that there is no regular file.
func ReadLast(path string, most int64) ([]byte, error) {
	f, err := openFile(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !fi.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a file", path)
	}
	return io.ReadAll(io.NewSectionReader(f, max(0, fi.Size()-most), most))
}

// Prune removes the journals of the jails that ended longest ago, as far as policy bounds them, and
// what a crash left of writing one. It returns the names of the jails.
func Prune(s state.Store, dir string, p policy.Journal) ([]string, error) {
	ended, err := endedIn(s, dir)
	if err != nil {
		return nil, err
	}
	var out []string
	var errs []error
	oldest, total := time.Now().Add(-time.Duration(p.KeepFor)).UnixNano(), int64(0)
	for i, e := range ended { // the newest first
		total += e.size
		if i < p.Keep && (p.KeepSize == 0 || total <= int64(p.KeepSize)) && (p.KeepFor == 0 || e.last >= oldest) {
			continue
		}
		for _, name := range e.files {
			errs = append(errs, os.RemoveAll(filepath.Join(dir, name)))
		}
		_, name, _ := strings.Cut(e.base, "-")
		out = append(out, name)
	}
	slices.Reverse(out)
	return out, errors.Join(errs...)
}

// old is the journal of a jail that was deleted.
type old struct {
	base  string
	files []string
	last  int64 // when its newest file was written
	size  int64
}

// endedIn lists the journals in dir of jails that were deleted, the newest first: by what was
// written last, so that a long run is not the first to go once it has ended.
func endedIn(s state.Store, dir string) ([]*old, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("the journals: %w", err)
	}
	// A journal's files begin alike, up to the time's last digits.
	all := map[string]*old{}
	for _, e := range entries {
		base, ok := baseOf(e.Name())
		if !ok {
			continue
		}
		if all[base] == nil {
			all[base] = &old{base: base}
		}
		all[base].files = append(all[base].files, e.Name())
	}
	var out []*old
	for base, o := range all {
		key, _, _ := strings.Cut(base, "@")
		if b, err := s.Brief(key); err == nil && b.Journal == filepath.Join(dir, base+suffix) ||
			err != nil && !errors.Is(err, state.ErrNotFound) {
			continue
		}
		o.measure(dir)
		out = append(out, o)
	}
	slices.SortFunc(out, func(a, b *old) int {
		return cmp.Or(cmp.Compare(b.last, a.last), strings.Compare(timeOf(b.base), timeOf(a.base)))
	})
	return out, nil
}

// measure sets the size and the time of the last line.
func (o *old) measure(dir string) {
	for _, name := range o.files {
		paths := []string{filepath.Join(dir, name)}
		if name == o.base+keptSuffix {
			for _, kept := range KeptFiles {
				paths = append(paths, filepath.Join(dir, name, kept))
			}
		}
		for _, path := range paths {
			var st unix.Stat_t
			if unix.Lstat(path, &st) != nil {
				continue
			}
			o.size += st.Size
			if name == o.base+suffix {
				o.last = st.Mtim.Nano()
			}
		}
	}
}

// baseOf is what the names of a journal's files begin with: KEY@TIME.
func baseOf(name string) (string, bool) {
	key, rest, ok := strings.Cut(name, "@")
	if !ok || len(rest) <= len(born) || rest[len(born)] != '.' {
		return "", false
	}
	_, _, ok = parseName(key + "@" + rest[:len(born)] + suffix)
	return key + "@" + rest[:len(born)], ok
}

func timeOf(base string) string {
	_, t, _ := strings.Cut(base, "@")
	return t
}

// VerifyKept adds to a result what is wrong with the files that are kept beside a journal.
func (j *Jail) VerifyKept(r *Result) error {
	events, err := Read(j.Path)
	if err != nil {
		return err
	}
	for _, e := range events {
		if e.Kind != JournalKept {
			continue
		}
		name := filepath.Base(e.Target)
		data, err := ReadLast(filepath.Join(KeptDir(j.Path), name), maxKept)
		if err != nil || e.Hash != HashOf(data) {
			r.Problems = append(r.Problems, fmt.Sprintf("the kept file %s is not as it was", name))
		}
	}
	return nil
}
