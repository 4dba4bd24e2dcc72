// Package homes keeps home directories for sandboxes: a file system of a fixed size for each
// program, project and owner, in a file of root's. While a jail has the home, the file is allocated
// as a whole, so that a full disk of the host does not damage it.
package homes

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/atomicfile"
	"agentjail.dev/runtime/kernel/flock"
	"agentjail.dev/runtime/kernel/openat"
	"agentjail.dev/runtime/workspace"
)

// DefaultDir holds the homes.
const DefaultDir = "/var/lib/agentjail/homes"

// A Home names one home and describes a new one.
type Home struct {
	Dir     string `json:"-"` // DefaultDir
	Program string `json:"program"`
	Project string `json:"project"` // absolute
	UID     uint32 `json:"uid"`
	GID     uint32 `json:"gid"`
	Jail    string `json:"jail"` // the id of the last jail that had it
	Size    int64  `json:"size"` // of a new one, in bytes
	// Bounds are those of layers on disk, for a new one.
	Bounds workspace.Bounds `json:"-"`
	// Files are in a new one, with their content, by path.
	Files map[string]string `json:"-"`
}

// Path returns the path of the home's file.
func (h Home) Path() string {
	sum := sha256.Sum256([]byte(h.Project))
	return filepath.Join(h.Dir, strconv.FormatUint(uint64(h.UID), 10), h.Program+"-"+hex.EncodeToString(sum[:8])+".ext4")
}

// Open returns the file, which it makes if there is none, locked (flock(2)). With reset it is
// made anew. The error is about the jail that has the home, if one has.
func (h Home) Open(reset bool) (*os.File, error) {
	path := h.Path()
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	lock, err := lockDir(dir)
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	if err := sweep(dir); err != nil {
		return nil, err
	}
	f, err := h.open(path, true)
	if errors.Is(err, os.ErrNotExist) || err == nil && reset {
		if f != nil {
			defer f.Close()
		}
		f, err = h.make(path)
	}
	if err != nil {
		return nil, err
	}
	if err := h.describe(path); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// lockDir locks a directory of homes: one call at a time opens, makes, looks at or removes them. A
// home's own lock, which a look takes for a moment, would else be taken for a jail's.
func lockDir(dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := flock.Wait(int(f.Fd()), unix.LOCK_EX); err != nil {
		f.Close()
		return nil, fmt.Errorf("locking %s: %w", dir, err)
	}
	return f, nil
}

// unfinished begins the names of homes that a call is making.
const unfinished = ".new-"

// sweep removes what a killed call left.
func sweep(dir string) error {
	left, err := filepath.Glob(filepath.Join(dir, unfinished+"*"))
	for _, path := range left {
		err = errors.Join(err, os.RemoveAll(path))
	}
	return err
}

// open opens and locks the file. With whole it allocates what Rest has freed.
func (h Home) open(path string, whole bool) (*os.File, error) {
	f, err := openat.File(unix.AT_FDCWD, path, openat.NoLinks, unix.O_RDWR)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil && whole {
		err = h.Bounds.AllocateHome(f)
	}
	if err == nil {
		return f, nil
	}
	f.Close()
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, h.busy(path)
	}
	return nil, fmt.Errorf("opening %s: %w", path, err)
}

// busy is the error for a home that a jail has.
func (h Home) busy(path string) error {
	by := cmp.Or(described(path).Jail, "another jail")
	return fmt.Errorf("%s has the home of %s for %s (remedy: wait for its end, or --home empty)", by, h.Program, h.Project)
}

const maxAbout = 16 << 10

func about(path string) string { return path + ".json" }

// described returns what describe recorded of the home at a path, a zero Home where that cannot be
// read.
func described(path string) Home {
	var h Home
	if text, err := atomicfile.Read(about(path), maxAbout); err != nil || json.Unmarshal(text, &h) != nil {
		return Home{}
	}
	return h
}

// describe records what the home is, for people and for busy.
func (h Home) describe(path string) error {
	text, err := json.MarshalIndent(h, "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.Write(about(path), append(text, '\n'), 0o600)
}

// make makes the file, locks it and moves it to its path.
func (h Home) make(path string) (_ *os.File, err error) {
	if err := workspace.CheckHost(); err != nil {
		return nil, err
	}
	if err := h.Bounds.Home(filepath.Dir(path), h.Size); err != nil {
		return nil, err
	}
	f, err := os.CreateTemp(filepath.Dir(path), unfinished+"*")
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(f.Name())
		}
	}()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, fmt.Errorf("locking %s: %w", f.Name(), err)
	}
	if err := h.fill(f); err != nil {
		return nil, fmt.Errorf("making a home of %d MiB in %s: %w (remedy: --home empty, or a smaller home.size in a preset of your own)",
			h.Size>>20, filepath.Dir(path), err)
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return nil, err
	}
	return f, nil
}

// fill makes the file system, with Files.
func (h Home) fill(image *os.File) error {
	dir, err := os.MkdirTemp(filepath.Dir(image.Name()), unfinished+"files-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := h.write(dir); err != nil {
		return err
	}
	return workspace.Fill(image, h.Size, dir, h.UID, h.GID)
}

// write writes Files below dir, as the owner's. No other user can change dir.
func (h Home) write(dir string) error {
	made := []string{dir}
	for name, text := range h.Files {
		if !filepath.IsLocal(name) {
			return fmt.Errorf("%q is not below the home", name)
		}
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return err
		}
		for p := path; p != dir; p = filepath.Dir(p) {
			made = append(made, p)
		}
	}
	for _, p := range made {
		if err := os.Lchown(p, int(h.UID), int(h.GID)); err != nil {
			return err
		}
	}
	return nil
}
