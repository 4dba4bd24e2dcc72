package lifecycle

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/thread"
)

// inMountNS runs f in the mount namespace of pid, on a thread that ends with it.
func inMountNS(pid int, f func() error) error {
	return inNamespace(pid, "mnt", func(ns int) error {
		if err := unix.Unshare(unix.CLONE_FS); err != nil {
			return fmt.Errorf("leaving the shared file system attributes: %w", err)
		}
		return unix.Setns(ns, unix.CLONE_NEWNS)
	}, f)
}

// inUTSNS runs f in the UTS namespace of pid, on a thread that ends with it.
func inUTSNS(pid int, f func() error) error {
	return inNamespace(pid, "uts", func(ns int) error { return unix.Setns(ns, unix.CLONE_NEWUTS) }, f)
}

// inNamespace runs f after join, on a thread that ends with it. kind is the
// namespace's name in /proc/PID/ns.
func inNamespace(pid int, kind string, join func(ns int) error, f func() error) error {
	ns, err := os.Open(fmt.Sprintf("/proc/%d/ns/%s", pid, kind))
	if err != nil {
		return fmt.Errorf("opening the jail's %s namespace: %w", kind, err)
	}
	defer ns.Close()
	return thread.Own(func() error {
		if err := join(int(ns.Fd())); err != nil {
			return fmt.Errorf("entering the jail's %s namespace: %w", kind, err)
		}
		return f()
	})
}

// onHostThread runs f on a thread in the host's mount namespace, which the thread of Create has
// left.
func onHostThread(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		done <- thread.Caught(f)
	}()
	return <-done
}
