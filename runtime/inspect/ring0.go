package inspect

import "fmt"

// seccompFilter: every process is under a filter (mode 2, proc_pid_status(5)).
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
		filters = count(fewest, "filter")
	}
	return holds("%s on %s, profile %s", filters, count(len(s.processes), "process"), d.jail.Policy.Seccomp.Profile)
}
