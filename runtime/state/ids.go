package state

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/atomicfile"
	"agentjail.dev/runtime/kernel/flock"
	"agentjail.dev/runtime/kernel/idmap"
	"agentjail.dev/runtime/spec/policy"
)

// errPoolFull means that every block of the pool is in use.
var errPoolFull = errors.New("no free range of host ids")

// Allocate takes a free block of the pool for the jail. A block is a directory
// whose members are the jails that use it. It appears with its first member in
// one rename that fails if another was quicker, so there is neither a lock to
// hold nor a moment in which a crash would leave it without a member.
//
// The block is picked by chance: a range that a jail has just left is then
// rarely the next one's.
func (s Store) Allocate(p policy.Userns, key string) (idmap.Map, error) {
	n := p.Pool.Blocks()
	tmp := filepath.Join(s.Dir(key), "ids.new")
	if err := os.Mkdir(tmp, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return idmap.Map{}, fmt.Errorf("allocating host ids: %w", err)
	}
	taken := false
	defer func() {
		if !taken {
			os.RemoveAll(tmp)
		}
	}()
	if err := atomicfile.WriteNew(filepath.Join(tmp, key), nil, 0o600); err != nil {
		return idmap.Map{}, fmt.Errorf("allocating host ids: %w", err)
	}
	start := rand.IntN(n)
	for i := range n {
		block := (start + i) % n
		err := unix.Renameat2(unix.AT_FDCWD, tmp, unix.AT_FDCWD, s.blockDir(p.Pool, block), unix.RENAME_NOREPLACE)
		switch err {
		case nil:
			taken = true
			return p.Block(block), nil
		case unix.EEXIST, unix.ENOTEMPTY:
		default:
			return idmap.Map{}, fmt.Errorf("allocating host ids: %w", err)
		}
	}
	return idmap.Map{}, fmt.Errorf("%w: all %d blocks of userns.pool are taken (remedy: `agentjail gc`, or a larger pool)", errPoolFull, n)
}

// Share adds the jail to the users of another's block. It fails when the other
// has just left it.
func (s Store) Share(p policy.Userns, m idmap.Map, key string) error {
	f, err := os.OpenFile(filepath.Join(s.blockDir(p.Pool, m.Block), key), os.O_CREATE|os.O_WRONLY|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return fmt.Errorf("sharing host ids: %w", err)
	}
	return f.Close()
}

// Release releases the jail's block; the last user's release frees it. The block of a jail that
// ended before it could be recorded is looked for.
func (s Store) Release(p policy.Userns, m idmap.Map, key string) error {
	if m.Given {
		return nil
	}
	if m.Block >= 0 {
		return s.leave(s.blockDir(p.Pool, m.Block), key)
	}
	blocks, err := readNames(filepath.Join(s.Root, "ids"))
	if err != nil {
		return fmt.Errorf("releasing host ids: %w", err)
	}
	for _, b := range blocks {
		if dir := filepath.Join(s.Root, "ids", b); unix.Access(filepath.Join(dir, key), unix.F_OK) == nil {
			return s.leave(dir, key)
		}
	}
	return nil
}

// Making is held by every process that makes namespaces in the user namespace of these ids, and
// ends with its file. key is the jail whose user namespace it is, for ids that are no block of the
// pool. ErrNotFound is returned when that jail is gone.
func (s Store) Making(p policy.Userns, m idmap.Map, key string) (*os.File, error) {
	path, flags := filepath.Join(s.Dir(key), "making"), unix.O_CREAT|unix.O_RDWR
	if !m.Given {
		path, flags = s.blockDir(p.Pool, m.Block), unix.O_RDONLY|unix.O_DIRECTORY
	}
	fd, err := unix.Open(path, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err == unix.ENOENT {
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	if err := flock.Wait(fd, unix.LOCK_SH); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("locking %s: %w", path, err)
	}
	return os.NewFile(uintptr(fd), path), nil
}

func (s Store) leave(dir, key string) error {
	if err := os.Remove(filepath.Join(dir, key)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("releasing host ids: %w", err)
	}
	err := unix.Rmdir(dir)
	if err != nil && err != unix.ENOENT && err != unix.ENOTEMPTY && err != unix.EEXIST {
		return fmt.Errorf("releasing host ids: %w", err)
	}
	return nil
}

// Member returns the file that holds a jail's block: it exists until Release.
func (s Store) Member(p policy.Userns, m idmap.Map, key string) string {
	return filepath.Join(s.blockDir(p.Pool, m.Block), key)
}

// blockDir returns the directory of a block. Its name is the first host id, so that two policies
// with different pools cannot assign the same ids.
func (s Store) blockDir(p idmap.Pool, block int) string {
	return filepath.Join(s.Root, "ids", strconv.FormatUint(uint64(p.First)+uint64(block)*idmap.RangeSize, 10))
}
