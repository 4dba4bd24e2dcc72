package firstproc

import (
	"fmt"
	"os"
	"slices"

	"agentjail.dev/runtime/kernel/mountinfo"
	"agentjail.dev/runtime/kernel/namespace"
	"agentjail.dev/runtime/kernel/pathname"
	"agentjail.dev/runtime/rootfs"
)

// missingMounts returns the nested mounts that are not in the jail.
func missingMounts(nested []rootfs.Nested, mounts []mountinfo.Mount) []rootfs.Nested {
	if len(nested) == 0 {
		return nil
	}
	points := mountPoints(mounts)
	return slices.DeleteFunc(slices.Clone(nested), func(n rootfs.Nested) bool { return slices.Contains(points, n.Place) })
}

// attachMissing attaches them, and reads the jail's mounts again. The first process has its working
// directory already: that must not be in a tree that a mount would cover.
func attachMissing(pid int, missing []rootfs.Nested) ([]mountinfo.Mount, error) {
	cwd, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid))
	if err != nil {
		return nil, fmt.Errorf("the first process's working directory: %w", err)
	}
	for _, n := range missing {
		if pathname.Within(cwd, n.Place) {
			return nil, fmt.Errorf("the delegate has left out the mount at %s, and the working directory is in it (remedy: runc, or a newer crun)", n.Place)
		}
	}
	if err := rootfs.AttachNested(missing, func(f func() error) error { return namespace.InMount(pid, f) }); err != nil {
		return nil, err
	}
	return Mounts(pid)
}
