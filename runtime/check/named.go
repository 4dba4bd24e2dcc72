package check

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// namedHierarchies looks for hierarchies of control groups version 1 that have a
// name in the place of controllers, other than systemd's: runc (tried with 1.1
// and 1.5) mounts every hierarchy that it sees into a container with a control
// group namespace, takes the folder's name for a controller, and fails.
func namedHierarchies(e *env) answer {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return fail("mount /proc", "%v", err)
	}
	found := named(string(text))
	if len(found) == 0 {
		return ok("none but systemd's")
	}
	what := strings.Join(found, ", ")
	if d, err := e.delegate(); err == nil && d.Name == "crun" {
		return ok("%s, which crun can mount", what)
	}
	return fail("unmount it where engines run, or use crun", "%s: runc cannot mount it into a jail", what)
}

// named lists the named hierarchies of a mountinfo (proc_pid_mountinfo(5)), each
// with the first place where it is mounted.
func named(mountinfo string) []string {
	var out []string
	seen := []string{"name=systemd"}
	for line := range strings.Lines(mountinfo) {
		before, after, ok := strings.Cut(line, " - cgroup ")
		f, s := strings.Fields(before), strings.Fields(after)
		if !ok || len(f) < 5 || len(s) < 2 {
			continue
		}
		for _, o := range strings.Split(s[1], ",") {
			if strings.HasPrefix(o, "name=") && !slices.Contains(seen, o) {
				seen = append(seen, o)
				out = append(out, fmt.Sprintf("%s at %s", o, f[4]))
			}
		}
	}
	return out
}
