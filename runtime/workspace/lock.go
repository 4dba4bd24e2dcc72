package workspace

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/refusal"
)

// The kernel mounts a second overlay with the same upper directory, with undefined results: with
// index=off it only logs that (overlayfs.rst, "Sharing and copying layers"). So a view has a lock
// for the whole life of its jail's mount, which no crash leaves behind: the image's loop device.
// While a mount exists, wherever it is, the device is bound to the image (LO_FLAGS_AUTOCLEAR,
// loop(4)).
//
// A reader mounts the image, too. It holds the directory's shared lock meanwhile (flock(2)): under
// the exclusive lock, a bound device is a jail's.

// patience is how long a view's reader may take, or the kernel to end the mount of a jail that has
// ended; a variable for tests.
var patience = 5 * time.Second

// makersPatience is how long a maker of a view waits for others that are being made.
const makersPatience = time.Minute

// lockPath opens and locks a file or directory, and waits for the lock up to a time.
func lockPath(path string, how int, most time.Duration) (*os.File, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	f := os.NewFile(uintptr(fd), path)
	err = poll(most, func() (bool, error) {
		switch err := unix.Flock(fd, how|unix.LOCK_NB); err {
		case nil:
			return true, nil
		case unix.EWOULDBLOCK, unix.EINTR:
			return false, nil
		default:
			return false, err
		}
	})
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("locking %s: %w", path, err)
	}
	return f, nil
}

// errBusy is poll's error.
var errBusy = errors.New("it is in use")

// poll calls done until it returns true, with errBusy after a time.
func poll(most time.Duration, done func() (bool, error)) error {
	for wait, end := time.Millisecond, time.Now().Add(most); ; wait = min(2*wait, 50*time.Millisecond) {
		if ok, err := done(); ok || err != nil {
			return err
		}
		if time.Now().After(end) {
			return errBusy
		}
		time.Sleep(wait)
	}
}

// shared takes a view's lock for a reader.
func (s Store) shared(r *Record) (*os.File, error) {
	lock, err := lockPath(filepath.Join(s.Dir, r.ID), unix.LOCK_SH, patience)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("view %s: %w", r.ID, ErrNotFound)
	}
	return lock, err
}

// exclusive takes a view's lock, if no jail has the view, no reader reads it, and no apply of it
// was cut off. With lost, the directory of the view is gone, and no such apply can be finished.
func (s Store) exclusive(r *Record, lost bool) (*os.File, error) {
	lock, err := lockPath(filepath.Join(s.Dir, r.ID), unix.LOCK_EX, patience)
	switch {
	case errors.Is(err, errBusy):
		return nil, refusal.New(refusal.Workspace, "another command reads or applies it").About("view %s",
			r.ID).WithRemedy("try again when that has ended")
	case errors.Is(err, os.ErrNotExist):
		return nil, fmt.Errorf("view %s: %w", r.ID, ErrNotFound)
	case err != nil:
		return nil, err
	}
	if _, err := os.Lstat(s.Journal(r)); err == nil && !lost {
		lock.Close()
		return nil, refusal.New(refusal.Workspace, "an apply of it was cut off").About("view %s", r.ID).
			WithRemedy("agentjail gc, which finishes or undoes it")
	}
	if err := s.unmounted(r); err != nil {
		lock.Close()
		return nil, err
	}
	return lock, nil
}

// unmounted waits until no mount of a view's image is left.
func (s Store) unmounted(r *Record) error {
	err := poll(patience, func() (bool, error) {
		image, err := os.Open(s.path(r.ID, imageFile))
		if errors.Is(err, os.ErrNotExist) {
			return true, nil
		}
		if err != nil {
			return false, err
		}
		defer image.Close()
		device, err := boundTo(image)
		if device != nil {
			device.Close()
		}
		return device == nil, err
	})
	if errors.Is(err, errBusy) {
		jail := r.Jail
		if now, err := s.read(r.ID); err == nil {
			jail = now.Jail
		}
		return refusal.New(refusal.Workspace, "jail %s has it", jail).About("view %s", r.ID).
			WithRemedy("end that jail, or start without --view: each jail can have a view of its own")
	}
	return err
}
