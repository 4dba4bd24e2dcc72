package state

import (
	"errors"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// A Process is a record of a process, by which another process recognises it later, also from
// another PID namespace or after another boot. A process id alone is not enough: it is used again,
// and it means another process in each PID namespace (pid_namespaces(7)).
type Process struct {
	Pid   int    `json:"pid"`
	Start uint64 `json:"start"` // clock ticks since boot (proc_pid_stat(5), field 22)
	// PIDNS is the inode number of the PID namespace that Pid is of; 0 is that of the reader.
	PIDNS  uint64 `json:"pidNS,omitempty"`
	BootID string `json:"bootID"` // of the boot that Start counts from; "" is this one
}

// earlier reports that the process is of another boot.
func (p Process) earlier() bool { return p.BootID != "" && p.BootID != BootID() }

// ErrElsewhere means that a recorded process is of another PID namespace: nothing is known of it
// here.
var ErrElsewhere = errors.New("it is of another PID namespace than this process (remedy: call agentjail there)")

// Recorded records a process of this PID namespace.
func Recorded(pid int) (Process, error) {
	start, _, err := StartTime(pid)
	return Process{Pid: pid, Start: start, PIDNS: PIDNS(), BootID: BootID()}, err
}

// Elsewhere reports that the process is of this boot and of another PID namespace, so that its
// number in /proc is another process's.
func (p Process) Elsewhere() bool {
	return !p.earlier() && p.PIDNS != 0 && p.PIDNS != PIDNS()
}

// Alive reports that the process runs. For another PID namespace that is unknown, and Alive returns
// false.
func (p Process) Alive() bool {
	if p.Pid <= 0 || p.earlier() || p.Elsewhere() {
		return false
	}
	t, st, err := StartTime(p.Pid)
	return err == nil && t == p.Start && !hasEnded(st)
}

// Gone reports that the process has ended, or never was. For another PID namespace that is unknown,
// and Gone returns false.
func (p Process) Gone() bool { return !p.Elsewhere() && !p.Alive() }

// Open opens the process (pidfd_open(2)). It returns -1 if the process has ended, and ErrElsewhere
// if that is unknown.
func (p Process) Open() (fd int, err error) {
	if p.Elsewhere() {
		return -1, ErrElsewhere
	}
	if p.Pid <= 1 || p.earlier() {
		return -1, nil
	}
	fd, err = unix.PidfdOpen(p.Pid, 0)
	if err == unix.ESRCH || err == unix.EINVAL { // EINVAL: the number is now a thread's
		return -1, nil
	}
	if err != nil {
		return -1, err
	}
	// This check follows the opening: the descriptor stays with the process that is checked, or
	// that process has ended.
	if !p.Alive() {
		unix.Close(fd)
		return -1, nil
	}
	return fd, nil
}

// hasEnded reports whether a process with this state letter has ended (proc_pid_stat(5), field 3).
func hasEnded(letter byte) bool { return letter == 'Z' || letter == 'X' }

// pidNS caches PIDNS.
var pidNS atomic.Uint64

// PIDNS returns the inode number of this process's PID namespace, 0 if it cannot be read.
func PIDNS() uint64 {
	if known := pidNS.Load(); known != 0 {
		return known
	}
	var st unix.Stat_t
	if unix.Stat("/proc/self/ns/pid", &st) != nil {
		return 0
	}
	pidNS.Store(st.Ino)
	return st.Ino
}
