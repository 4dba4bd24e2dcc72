package namespace

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/thread"
)

// InMount runs f in the mount namespace of pid, on a thread that ends with it.
func InMount(pid int, f func() error) error {
	return in(pid, "mnt", func(ns int) error {
		if err := unix.Unshare(unix.CLONE_FS); err != nil {
			return fmt.Errorf("leaving the shared file system attributes: %w", err)
		}
		return unix.Setns(ns, unix.CLONE_NEWNS)
	}, f)
}

// InRoot is InMount with the root directory of pid, which can be another than the namespace's.
func InRoot(pid int, f func() error) error {
	root, err := os.Open(fmt.Sprintf("/proc/%d/root", pid))
	if err != nil {
		return err
	}
	defer root.Close()
	return InMount(pid, func() error {
		if err := errors.Join(unix.Fchdir(int(root.Fd())), unix.Chroot(".")); err != nil {
			return fmt.Errorf("entering the root directory of process %d: %w", pid, err)
		}
		return f()
	})
}

// InUTS runs f in the UTS namespace of pid, on a thread that ends with it.
func InUTS(pid int, f func() error) error {
	return in(pid, "uts", func(ns int) error { return unix.Setns(ns, unix.CLONE_NEWUTS) }, f)
}

// InNet runs f in the network namespace of pid, on a thread that ends with it.
func InNet(pid int, f func() error) error {
	return in(pid, "net", func(ns int) error { return unix.Setns(ns, unix.CLONE_NEWNET) }, f)
}

// in runs f after join, on a thread that ends with it. kind is the
// namespace's name in /proc/PID/ns.
func in(pid int, kind string, join func(ns int) error, f func() error) error {
	ns, err := os.Open(fmt.Sprintf("/proc/%d/ns/%s", pid, kind))
	if err != nil {
		return fmt.Errorf("opening the %s namespace of process %d: %w", kind, pid, err)
	}
	defer ns.Close()
	return thread.Own(func() error {
		if err := join(int(ns.Fd())); err != nil {
			return fmt.Errorf("entering the %s namespace of process %d: %w", kind, pid, err)
		}
		return f()
	})
}
