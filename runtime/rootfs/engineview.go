package rootfs

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/spec/policy"
)

// limitEngineView takes from the engine's view of a jail's root what an engine
// must not do there. It executes nothing of it: dockerd before 29.5.1 unpacks
// what `docker cp` is given by the xz and unpigz of the container, as host root
// (CVE-2026-41567). Where policy reports it, it follows no link. The jail has a mount
// of its own.
func limitEngineView(root *os.File, p policy.Root) error {
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOEXEC}
	if !p.EngineLinks {
		attr.Attr_set |= unix.MOUNT_ATTR_NOSYMFOLLOW
	}
	if err := unix.MountSetattr(int(root.Fd()), "", unix.AT_EMPTY_PATH, &attr); err != nil {
		if !p.EngineLinks {
			return fmt.Errorf("limiting the engine's view of the root (remedy: root.engine_links = false needs Linux 5.14): %w", err)
		}
		return fmt.Errorf("limiting the engine's view of the root: %w", err)
	}
	return nil
}
