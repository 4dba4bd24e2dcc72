package inspect

import (
	"fmt"
	"path"
)

// protectedPaths: what the host runs of a mounted directory is a read-only mount
// of its own. A host's program that replaces such a file while the jail runs, as
// `git config` does, takes the mount away with it (rename(2) on a mount point of
// another mount namespace): then this breaks.
func protectedPaths(d *demands, s *seen) outcome {
	const want = "each a read-only mount"
	top := map[string]*mount{}
	for i := range s.mounts {
		top[path.Clean(s.mounts[i].Point)] = &s.mounts[i] // the last one shows
	}
	var bad []string
	for _, p := range d.jail.Protected {
		switch m := top[path.Clean(p)]; {
		case m == nil:
			bad = append(bad, fmt.Sprintf("%s is not mounted any more", p))
		case !m.ReadOnly():
			bad = append(bad, fmt.Sprintf("%s can be written to", p))
		}
	}
	switch {
	case len(bad) > 0:
		return brokenList(want, bad)
	case !d.jail.Policy.Binds.Protect && len(d.jail.Protected) == 0:
		return holds("none: binds.protect = false")
	}
	return holds("%d, read-only", len(d.jail.Protected))
}
