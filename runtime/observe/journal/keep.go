package journal

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/atomicfile"
	"agentjail.dev/runtime/state"
)

// KeptFiles are files of a jail's directory that are kept beside its journal when it is deleted, by
// their names: what other sources read.
var KeptFiles = [...]string{"network.log", "network.log.1"}

// maxKept bounds each of them.
const maxKept = 8 << 20

// KeptDir is the directory beside a journal where such files are kept.
func KeptDir(path string) string { return strings.TrimSuffix(path, suffix) + ".d" }

// Keep keeps what is to be kept of a jail's directory that is about to be removed. The returned
// events report what, with its hash.
func Keep(path, dir string) ([]Event, error) {
	var out []Event
	var errs []error
	for _, name := range KeptFiles {
		data, err := readKept(filepath.Join(dir, name))
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
		sum := sha256.Sum256(data)
		out = append(out, Event{Kind: JournalKept, Target: name, Hash: "sha256:" + hex.EncodeToString(sum[:])})
	}
	return out, errors.Join(errs...)
}

func keepFile(dir, name string, data []byte) error {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return atomicfile.Write(filepath.Join(dir, name), data, 0o600)
}

// readKept reads a file's last maxKept bytes.
func readKept(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
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
	return io.ReadAll(io.NewSectionReader(f, max(0, fi.Size()-maxKept), maxKept))
}

// Prune removes the journals of the jails that ended longest ago, beyond keep, and what a crash
// left of writing one. It returns the names of the jails.
func Prune(s state.Store, dir string, keep int) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("the journals: %w", err)
	}
	// A journal's files begin alike, up to the time's last digits.
	files := map[string][]string{}
	for _, e := range entries {
		if base, ok := baseOf(e.Name()); ok {
			files[base] = append(files[base], e.Name())
		}
	}
	var ended []string
	for base := range files {
		key, _, _ := strings.Cut(base, "@")
		if b, err := s.Brief(key); err == nil && b.Journal == filepath.Join(dir, base+suffix) || err != nil && !errors.Is(err, state.ErrNotFound) {
			continue
		}
		ended = append(ended, base)
	}
	if len(ended) <= keep {
		return nil, nil
	}
	// By what was written last, not by when the jail was made: a long run is not the first to go
	// once it has ended.
	last := map[string]int64{}
	for _, base := range ended {
		var st unix.Stat_t
		if unix.Lstat(filepath.Join(dir, base+suffix), &st) == nil {
			last[base] = st.Mtim.Nano()
		}
	}
	slices.SortFunc(ended, func(a, b string) int {
		return cmp.Or(cmp.Compare(last[a], last[b]), strings.Compare(timeOf(a), timeOf(b)))
	})
	ended = ended[:len(ended)-keep]
	var errs []error
	for i, base := range ended {
		for _, name := range files[base] {
			if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
				errs = append(errs, err)
			}
		}
		_, ended[i], _ = strings.Cut(base, "-")
	}
	return ended, errors.Join(errs...)
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
		data, err := readKept(filepath.Join(KeptDir(j.Path), name))
		sum := sha256.Sum256(data)
		if err != nil || e.Hash != "sha256:"+hex.EncodeToString(sum[:]) {
			r.Problems = append(r.Problems, fmt.Sprintf("the kept file %s is not as it was", name))
		}
	}
	return nil
}
