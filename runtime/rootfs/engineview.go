package rootfs

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/spec/policy"
)

// limitEngineView restricts the engine's view of a jail's root. The engine executes nothing in
// it: dockerd before 29.5.1 unpacks the input of `docker cp` with the container's xz and unpigz,
// as host root (CVE-2026-41567). Unless policy allows it, the engine follows no link there. The
// jail has a mount of its own.
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
