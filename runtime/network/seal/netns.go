package seal

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/thread"
)

// inNamespace calls f on a thread of its own that has joined the network namespace. The thread is
// never reused: the goroutine ends with the thread locked, which makes the Go runtime destroy it
// (runtime.LockOSThread), so no other goroutine ever runs in the jail's namespace.
func inNamespace(netns *os.File, f func() error) error {
	if err := checkForeign(netns); err != nil {
		return err
	}
	return Join(netns, f)
}

// Join is inNamespace for any network namespace.
func Join(netns *os.File, f func() error) error {
	defer runtime.KeepAlive(netns)
	return thread.Own(func() error {
		if err := unix.Setns(int(netns.Fd()), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("joining network namespace %s: %w", netns.Name(), err)
		}
		return f()
	})
}

// Make makes a network namespace, which exists as long as the file or a process in it.
func Make() (netns *os.File, err error) {
	err = thread.Own(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("making a network namespace: %w", err)
		}
		netns, err = os.Open("/proc/thread-self/ns/net")
		return err
	})
	return netns, err
}

// errOwnNamespace prevents sealing the host.
var errOwnNamespace = errors.New("refused: this is the network namespace of the host or of the caller, not a jail's")

const initNamespace = "/proc/1/ns/net"

// IsHosts reports whether a network namespace is that of process 1 (if it may be read) or that of
// the caller, which runtimes share with the engine that starts them.
func IsHosts(netns *os.File) (bool, error) {
	err := checkForeign(netns)
	if errors.Is(err, errOwnNamespace) {
		return true, nil
	}
	return false, err
}

// checkForeign refuses the namespace of the calling thread and the one of process 1.
func checkForeign(netns *os.File) error {
	var jail unix.Stat_t
	if err := unix.Fstat(int(netns.Fd()), &jail); err != nil {
		return fmt.Errorf("stat network namespace %s: %w", netns.Name(), err)
	}
	for _, path := range []string{"/proc/thread-self/ns/net", "/proc/self/ns/net", initNamespace} {
		var own unix.Stat_t
		err := unix.Stat(path, &own)
		if path == initNamespace && (errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM)) {
			continue // process 1 has capabilities that we lack (ptrace(2), access mode checking)
		}
		if err != nil {
			return fmt.Errorf("stat %s: %w", path, err)
		}
		if own.Dev == jail.Dev && own.Ino == jail.Ino {
			return fmt.Errorf("%w (%s)", errOwnNamespace, path)
		}
	}
	return nil
}
