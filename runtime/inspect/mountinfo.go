package inspect

import (
	"agentjail.dev/runtime/kernel/mountinfo"
	"agentjail.dev/runtime/spec/plan"
)

// mount is a mount of the jail's.
type mount struct {
	mountinfo.Mount
	// device is the node at the mount point ("c 1:3"), or "".
	device string
	// owner is who owns what is at the mount point, in the host's ids; nil where that cannot be
	// known.
	owner *plan.User
	// size is that of the file system of an overlay of agentjail's, in bytes.
	size uint64
}

// parseMounts reads a table of mounts.
func parseMounts(text string) ([]mount, error) {
	ms, err := mountinfo.Parse(text)
	if err != nil {
		return nil, err
	}
	out := make([]mount, len(ms))
	for i := range ms {
		out[i].Mount = ms[i]
	}
	return out, nil
}
