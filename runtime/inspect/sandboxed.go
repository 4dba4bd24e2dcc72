package inspect

import (
	"fmt"
	"slices"
	"strings"

	"agentjail.dev/runtime/kernel/printable"
	"agentjail.dev/runtime/spec/traits"
)

// The processes that are seen of a jail in a sandbox are the sandbox's own: the sentry, what runs
// the jail's programs for it, and the helper that opens files.

// sandboxLacks are the namespaces that a sandbox has none of its own of: its guest has no way to
// the host's clocks and control groups.
var sandboxLacks = []string{"cgroup", "time"}

// sandboxFilter: the processes that answer the jail's system calls are under a filter of their own.
func sandboxFilter(_ *demands, s *seen) outcome {
	const want = "a filter on every process of the sandbox"
	var bad []string
	for _, p := range s.processes {
		if p.seccomp != 2 {
			bad = append(bad, fmt.Sprintf("%s has mode %d", p.who(), p.seccomp))
		}
	}
	return holdsUnless(want, bad, "on %s of the sandbox, beneath the jail's filters", printable.Count(len(s.processes), "process"))
}

// nobodyMap reports whether a map is that of a sandbox that opens no files itself.
func (d *demands) nobodyMap(text string) bool {
	return d.sandbox != "" && slices.Equal(strings.Fields(text), strings.Fields(traits.NobodyMap))
}
