package engine

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// A spawner starts long-lived processes from one operating-system thread that never ends and that lives in a network
// namespace of its own.
//
// The thread matters twice. PR_SET_PDEATHSIG fires when the thread that forked ends, not when the process does
// (prctl(2)), and Go ends threads when it likes. And a network namespace belongs to a thread (network_namespaces(7)):
// what is forked here sees bridges and packet filter rules of its own, so that neither a Docker that already runs on
// this machine nor its firewall is touched.
type spawner struct {
	jobs chan func()
	once sync.Once
}

// newSpawner starts the thread. A network namespace that cannot be had is an error: the tests would otherwise change
// the host's firewall.
func newSpawner() (*spawner, error) {
	s := &spawner{jobs: make(chan func())}
	ready := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			ready <- fmt.Errorf("make a network namespace for the engine: %w", err)
			return
		}
		ready <- loopbackUp()
		for job := range s.jobs {
			job()
		}
	}()
	if err := <-ready; err != nil {
		return nil, err
	}
	return s, nil
}

// start starts cmd on the spawner's thread; it is killed when this process dies, whatever way that happens.
func (s *spawner) start(cmd *exec.Cmd) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	// A process group of its own: an interrupt typed at a terminal must reach the tests, which then stop the daemons
	// in the right order.
	cmd.SysProcAttr.Setpgid = true
	return s.do(cmd.Start)
}

// do runs f on the spawner's thread, that is in the engine's network namespace.
func (s *spawner) do(f func() error) error {
	done := make(chan error, 1)
	s.jobs <- func() { done <- f() }
	return <-done
}

// stop ends the thread; everything started on it that still runs is killed by that.
func (s *spawner) stop() { s.once.Do(func() { close(s.jobs) }) }

// loopbackUp brings the calling thread's loopback interface up.
func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open a socket to set lo up: %w", err)
	}
	defer unix.Close(fd)
	ifr, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	ifr.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, ifr); err != nil {
		return fmt.Errorf("set lo up: %w", err)
	}
	return nil
}

// devNull opens /dev/null for reading and writing.
func devNull() (*os.File, error) { return os.OpenFile(os.DevNull, os.O_RDWR, 0) }
