package check

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"agentjail.dev/runtime/kernel/mountinfo"
)

// namedHierarchies looks for hierarchies of control groups version 1 that have a
// name in the place of controllers, other than systemd's: runc (tried with 1.1
// and 1.5) mounts every hierarchy that it sees into a container with a control
// group namespace, takes the directory's name for a controller, and fails.
func namedHierarchies(e *env) answer {
	mounts, err := mountinfo.Read(mountinfo.Own)
	if errors.Is(err, mountinfo.ErrNotMount) {
		return fail("report this line", "%v", err)
	} else if err != nil {
		return fail("mount /proc", "%v", err)
	}
	found := named(mounts)
	if len(found) == 0 {
		return ok("none but systemd's")
	}
	what := strings.Join(found, ", ")
	if d, err := e.delegate(); err == nil && d.Traits().MountsNamedCgroupV1 {
		return ok("%s, which %s can mount", what, d.Name)
	}
	return fail("unmount it where engines run, or use crun", "%s: runc cannot mount it into a jail", what)
}

// named lists the named hierarchies of a table of mounts, each with the first
// place where it is mounted.
func named(mounts []mountinfo.Mount) (out []string) {
	seen := []string{"name=systemd"}
	for _, m := range mounts {
		if m.FS != "cgroup" {
			continue
		}
		for o := range strings.SplitSeq(m.Super, ",") {
			if strings.HasPrefix(o, "name=") && !slices.Contains(seen, o) {
				seen = append(seen, o)
				out = append(out, fmt.Sprintf("%s at %s", o, m.Point))
			}
		}
	}
	return out
}
