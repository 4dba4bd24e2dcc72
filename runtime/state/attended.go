package state

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/flock"
)

// Attend marks that a process decides on names of jails as they come, until it closes the mark or
// ends.
func (s Store) Attend() (io.Closer, error) { return s.attend(unix.LOCK_SH) }

// Attended reports whether a process has called Attend and goes on. A mark that cannot be read is
// none.
func (s Store) Attended() bool {
	f, err := s.attend(unix.LOCK_EX | unix.LOCK_NB)
	if err == nil {
		f.Close()
	}
	return errors.Is(err, unix.EWOULDBLOCK)
}

func (s Store) attend(how int) (*os.File, error) {
	dir, err := s.Private("attended")
	if err != nil {
		return nil, err
	}
	f, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("marking that names are decided on: %w", err)
	}
	if err := flock.Wait(int(f.Fd()), how); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
