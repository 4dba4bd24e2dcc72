package lifecycle

import (
	"fmt"

	"agentjail.dev/runtime/kernel/mountinfo"
)

// mountsOf returns the mounts of a process.
func mountsOf(pid int) ([]mountinfo.Mount, error) {
	mounts, err := mountinfo.Of(pid)
	if err != nil {
		return nil, fmt.Errorf("the jail's mounts: %w", err)
	}
	return mounts, nil
}

// mountPoints returns the paths of mounts.
func mountPoints(mounts []mountinfo.Mount) []string {
	out := make([]string, len(mounts))
	for i := range mounts {
		out[i] = mounts[i].Point
	}
	return out
}
