package inspect

import (
	"fmt"
	"slices"
	"strings"

	"agentjail.dev/runtime/kernel/printable"
)

// seccompFilter: every process is under two filters (mode 2, proc_pid_status(5)),
// the delegate's and that of the init step, which loads it.
func seccompFilter(d *demands, s *seen) outcome {
	want := fmt.Sprintf("a filter (profile %s) on every process", d.jail.Policy.Seccomp.Profile)
	var bad []string
	fewest := -1
	for _, p := range s.processes {
		switch {
		case p.seccomp != 2:
			bad = append(bad, fmt.Sprintf("%s has mode %d", p.who(), p.seccomp))
		case p.filters == 0:
			bad = append(bad, p.who()+" has no filter")
		case p.filters == 1 && !p.entering:
			bad = append(bad, p.who()+" lacks the inner filter")
		}
		if fewest < 0 || p.filters < fewest {
			fewest = p.filters
		}
	}
	if len(bad) > 0 {
		return brokenList(want, bad)
	}
	filters := "a filter"
	if fewest > 0 {
		filters = printable.Count(fewest, "filter")
	}
	text := ""
	if c := d.calls; c != nil {
		text = fmt.Sprintf(": %d of %d system calls pass, %d of them not with all arguments; %d are refused, whatever their errno", c.Pass,
			c.Pass+c.Refused, c.Checked, c.Refused)
	}
	return holds("%s on %s, profile %s%s", filters, printable.Count(len(s.processes), "process"),
		d.jail.Policy.Seccomp.Profile, text)
}

// programs: what the filters refuse in every profile is refused by eBPF programs too, where a
// collector has loaded them. They know the jails whose ids are the pool's, and those that are
// registered.
func programs(d *demands, s *seen) outcome {
	const want = "programs that refuse what the filters refuse"
	unblocked := slices.DeleteFunc(slices.Clone(d.jail.Policy.EBPF.Block), func(name string) bool {
		return s.ebpf.Acting && s.registered && slices.Contains(s.ebpf.Hooks, name)
	})
	switch {
	case s.ebpf.Pinned && !s.ebpf.Acting:
		return broken(want, "agentjail-journal has loaded and pinned them, and none act (remedy: systemctl restart agentjail-journal)")
	case len(unblocked) > 0:
		return broken(want, "none act on what policy blocks here, %s (remedy: systemctl restart agentjail-journal, for connect and bind with --connections)", strings.Join(unblocked, ", "))
	case !s.ebpf.Acting:
		return lacking(want, "none act (`agentjail check` reports what this kernel can do; agentjail-journal loads them)")
	case d.host.Rootless:
		return lacking(want, "they act, and do not know this jail: they are root's, and it is a user's")
	case !s.registered && !d.jail.IDs.Readable():
		return lacking(want, "they act, and do not know this jail, whose host ids are the engine's choice, or many ranges (remedy: systemctl restart agentjail-journal)")
	case len(s.ebpf.Refused) == 0:
		return holds("they act; what they refuse is not known")
	}
	return holds("behind the filters they refuse %s", strings.Join(slices.Concat(s.ebpf.Refused, d.jail.Policy.EBPF.Block), ", "))
}
