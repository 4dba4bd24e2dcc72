package state

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/flock"
)

// errBusy reports that another process has the lock.
var errBusy = errors.New("it is being removed")

// Lock takes the lock for removing a jail, and waits for any other process that has it. A record
// that was read without the lock can be of an earlier jail with the same id: then all of its names
// are another jail's by now. ErrNotFound is returned when there is no jail. The lock ends with the
// process, and goes with the jail's directory.
func (s Store) Lock(key string) (unlock func(), err error) { return s.lock(key, unix.LOCK_EX) }

func (s Store) lock(key string, how int) (unlock func(), err error) {
	dir := s.Dir(key)
	for {
		fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if errors.Is(err, unix.ENOENT) {
			return nil, ErrNotFound
		}
		if err != nil {
			return nil, &os.PathError{Op: "open", Path: dir, Err: err}
		}
		var locked, there unix.Stat_t
		if err = flock.Wait(fd, how); err == nil {
			err = errors.Join(unix.Fstat(fd, &locked), unix.Lstat(dir, &there))
		}
		switch {
		case err == nil && locked.Dev == there.Dev && locked.Ino == there.Ino:
			return func() { unix.Close(fd) }, nil
		case errors.Is(err, unix.EWOULDBLOCK):
			unix.Close(fd)
			return nil, errBusy
		case err != nil && !errors.Is(err, unix.ENOENT):
			unix.Close(fd)
			return nil, fmt.Errorf("locking %s: %w", dir, err)
		}
		unix.Close(fd) // it was removed meanwhile, and may have been made again
	}
}
