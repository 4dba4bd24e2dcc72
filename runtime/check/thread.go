package check

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// onThread runs f on a thread that ends with it, and with the thread all that f
// changed of it: namespaces, mounts, filters. The process's main thread is
// never used: it cannot end, and /proc/self shows its namespaces.
func onThread(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() != unix.Getpid() {
			done <- f()
			return // locked: the thread ends
		}
		defer runtime.UnlockOSThread()
		inner := make(chan error, 1)
		go func() {
			runtime.LockOSThread() // the main thread is held, so this is another
			inner <- f()
		}()
		done <- <-inner
	}()
	return <-done
}

// inMounts runs f in a mount namespace of its own, whose changes reach nobody,
// with an empty tmpfs at dir. The tmpfs lies over /run, where no image is.
func inMounts(f func(dir string) error) error {
	return onThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
			return fmt.Errorf("making a mount namespace: %w", err)
		}
		if err := unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""); err != nil {
			return fmt.Errorf("ending mount propagation: %w", err)
		}
		const dir = "/run"
		if err := unix.Mount("agentjail-check", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=0700,size=262144,nr_inodes=64"); err != nil {
			return fmt.Errorf("mounting a tmpfs: %w", err)
		}
		return f(dir)
	})
}
