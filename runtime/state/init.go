package state

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/pidfd"
)

// PidFile is the delegate's pid file of a jail.
func (s Store) PidFile(key string) string { return filepath.Join(s.Dir(key), "init.pid") }

// Complete adds what a crash kept from being recorded: the first process, read from the delegate's
// pid file.
func (s Store) Complete(j *Brief) *Brief {
	if j.InitPid == 0 && !j.Elsewhere() {
		if pid, err := ReadPid(s.PidFile(j.Key)); err == nil {
			if start, _, err := StartTime(pid); err == nil {
				j.InitPid, j.InitStart = pid, start
			}
		}
	}
	return j
}

// EndInit kills the jail's first process, which takes all others of the jail with it, and waits for
// its end. The first process of another PID namespace is not known: then the jail's control groups
// cannot be removed while any of its processes runs.
func (j *Brief) EndInit(patience time.Duration) error {
	if j.Elsewhere() {
		return nil
	}
	return j.onInit(pidfd.Kill, patience)
}

// AwaitInit waits for the end of the jail's first process.
func (j *Brief) AwaitInit(patience time.Duration) error { return j.onInit(pidfd.Wait, patience) }

func (j *Brief) onInit(do func(fd int, patience time.Duration) error, patience time.Duration) error {
	fd, err := j.Init().Open()
	if err != nil || fd < 0 {
		return err
	}
	defer unix.Close(fd)
	if err := do(fd, patience); err != nil {
		return fmt.Errorf("the jail's first process %d: %w", j.InitPid, err)
	}
	return nil
}

// ReadPid reads a delegate's pid file.
func ReadPid(path string) (int, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	var pid int
	if _, err := fmt.Sscan(string(data), &pid); err != nil || pid <= 1 {
		return 0, fmt.Errorf("%s holds no process id", path)
	}
	return pid, nil
}
