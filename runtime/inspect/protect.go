package inspect

import (
	"agentjail.dev/runtime/kernel/mountinfo"
	"agentjail.dev/runtime/observe/lostpaths"
)

// protectedPaths: what the host runs of a mounted directory is a read-only mount
// of its own. A host's program that replaces such a file while the jail runs, as
// `git config` does, takes the mount away with it (rename(2) on a mount point of
// another mount namespace): then this breaks.
func protectedPaths(d *demands, s *seen) outcome {
	const want = "each a read-only mount"
	mounts := make([]mountinfo.Mount, len(s.mounts))
	for i := range s.mounts {
		mounts[i] = s.mounts[i].Mount
	}
	if d.sandbox != "" { // a helper has them
		losses, err := lostpaths.Now(d.jail)
		if err != nil {
			return broken(want, "%v", err)
		}
		if len(losses) == 0 {
			return holds("%d, read-only, below the mounts of the sandbox's helper", len(d.jail.Protected))
		}
		return brokenList(want, lossTexts(losses))
	}
	bad := lossTexts(lostpaths.In(d.jail.Protected, mounts))
	switch {
	case len(bad) > 0:
		return brokenList(want, bad)
	case !d.jail.Policy.Binds.Protect && len(d.jail.Protected) == 0:
		return holds("none: binds.protect = false")
	}
	return holds("%d, read-only", len(d.jail.Protected))
}

func lossTexts(losses []lostpaths.Loss) (out []string) {
	for _, l := range losses {
		out = append(out, l.String())
	}
	return out
}
