package firstproc

import (
	"path"
	"slices"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/kernel/cgroups"
	"agentjail.dev/runtime/kernel/mountinfo"
	"agentjail.dev/runtime/kernel/pathname"
	"agentjail.dev/runtime/refusal"
	"agentjail.dev/runtime/spec/plan"
)

// checkPlaces refuses a first process whose mounts are not where they were to be. Staging follows
// every mount point's links, and the delegate follows them again. In a directory that others can
// write, a link can be swapped in between. A mount then lands in /proc, for example, where it
// covers the file to which the delegate writes the process's own attributes (CVE-2025-52881). The
// process waits for `start`: nothing of the image has run.
//
// places is where staging saw each mount lead; mounts are the process's.
func checkPlaces(spec *specs.Spec, places []string, mounts []mountinfo.Mount) error {
	points := mountPoints(mounts)
	for _, p := range places {
		if !slices.Contains(points, p) {
			return refusal.New(refusal.MountMoved, "the mount at %s ended elsewhere: a link on its way was changed meanwhile", p)
		}
	}
	l := spec.Linux
	for _, p := range points {
		switch {
		case plan.Reserved(p) == "", slices.Contains(places, p):
		case slices.Contains(l.MaskedPaths, p), slices.Contains(l.ReadonlyPaths, p):
		case path.Dir(p) == "/dev": // nodes, which the delegate binds from the host's
		case pathname.Below(p, cgroups.Root): // the hierarchies of version 1
		default:
			return refusal.New(refusal.MountMoved, "something is mounted at %s that does not belong there", p)
		}
	}
	return nil
}
