package delegate

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/spec/traits"
)

// fifoName is what known delegates call the pipe that the process of a
// created container waits at.
const fifoName = "exec.fifo"

// errDead is runc's message.
var errDead = errors.New("container process is already dead")

// ErrRuns means that a container was started before. It is runc's message.
var ErrRuns = errors.New("cannot start an already running container")

// Start does what the delegate's start does to a created container: it has the
// process that pidfd refers to execute its program. Starting the delegate for it takes longer than
// all else that a start does. dir is the directory that the delegate keeps for
// the container. It returns false, having done nothing, where that is not
// the directory of a created container as a known delegate keeps it (runc 1.0 to
// 1.5, crun); then the delegate is to be queried, which also knows what is wrong.
// stopped is called now and then while the process does not answer; its error ends
// the waiting. ErrRuns is for a process that is seen to have been started.
func Start(dir string, pidfd int, stopped func() error) (bool, error) {
	fifo := filepath.Join(dir, fifoName)
	var st unix.Stat_t
	if unix.Lstat(fifo, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFIFO {
		return false, nil
	}
	for _, r := range traits.Releases() {
		switch {
		case unix.Access(filepath.Join(dir, r.Record), unix.F_OK) != nil:
		case r.Writes:
			return true, writeTo(fifo)
		default:
			return true, readFrom(fifo, pidfd, stopped)
		}
	}
	return false, nil
}

// answer is how long a process may take before stopped is called.
const answer = 100 // ms

// readFrom reads what the process writes when it finds a reader; one byte, so that
// of two starts at once one comes too late (libcontainer/container_linux.go, exec).
func readFrom(fifo string, pidfd int, stopped func() error) error {
	fd, err := unix.Open(fifo, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: fifo, Err: err}
	}
	defer unix.Close(fd)
	// Either may have been seen after the process wrote to this very reader: it is looked at once
	// more.
	for dead, runs := false, false; ; {
		patience := answer
		if runs {
			patience = 0
		}
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}, {Fd: int32(pidfd), Events: unix.POLLIN}}
		if dead {
			fds[1].Fd = -1
		}
		n, err := unix.Poll(fds, patience)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return fmt.Errorf("waiting for the container's process: %w", err)
		case fds[0].Revents != 0:
			var one [1]byte
			switch n, err := unix.Read(fd, one[:]); {
			case err == unix.EINTR, err == unix.EAGAIN:
				continue
			case err != nil:
				return &os.PathError{Op: "read", Path: fifo, Err: err}
			case n == 0:
				return ErrRuns
			}
			// Its absence means that the container runs.
			if err := unix.Unlink(fifo); err != nil && err != unix.ENOENT {
				return &os.PathError{Op: "remove", Path: fifo, Err: err}
			}
			return nil
		case dead:
			return errDead
		case n > 0:
			dead = true
		case runs:
			// A start that was killed had started it, and left the FIFO.
			if err := unix.Unlink(fifo); err != nil && err != unix.ENOENT {
				return &os.PathError{Op: "remove", Path: fifo, Err: err}
			}
			return ErrRuns
		default:
			err := stopped()
			if runs = errors.Is(err, ErrRuns); err != nil && !runs {
				return err
			}
		}
	}
}

// writeTo writes what the process waits for (src/libcrun/status.c,
// libcrun_status_write_exec_fifo).
func writeTo(fifo string) error {
	// Without O_NONBLOCK this would wait for ever for a process that has died.
	fd, err := unix.Open(fifo, unix.O_WRONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err == unix.ENXIO {
		return errDead
	}
	if err != nil {
		return &os.PathError{Op: "open", Path: fifo, Err: err}
	}
	defer unix.Close(fd)
	if err := unix.Unlink(fifo); err != nil {
		return &os.PathError{Op: "remove", Path: fifo, Err: err}
	}
	if _, err := unix.Write(fd, []byte{0}); err != nil {
		return &os.PathError{Op: "write", Path: fifo, Err: err}
	}
	return nil
}
