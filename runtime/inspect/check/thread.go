package check

import (
	"fmt"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/thread"
)

// inMounts runs f in a mount namespace of its own, invisible to the host, with an empty tmpfs at
// dir. The callers use /run, since no image lies there.
func inMounts(f func(dir string) error) error {
	return thread.Own(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
			return fmt.Errorf("making a mount namespace: %w", err)
		}
		if err := unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""); err != nil {
			return fmt.Errorf("ending mount propagation: %w", err)
		}
		const dir = "/run"
		if err := unix.Mount("agentjail-check", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC,
			"mode=0700,size=262144,nr_inodes=64"); err != nil {
			return fmt.Errorf("mounting a tmpfs: %w", err)
		}
		return f(dir)
	})
}
