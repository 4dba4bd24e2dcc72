package inspect

import "fmt"

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
			bad = append(bad, p.who()+" lacks the second filter")
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
	text := ""
	if c := d.calls; c != nil {
		text = fmt.Sprintf(": %d of %d system calls pass, %d of them not with all arguments; %d are refused, whatever their errno", c.Pass, c.Pass+c.Refused, c.Checked, c.Refused)
	}
	return holds("%s on %s, profile %s%s", filters, count(len(s.processes), "process"), d.jail.Policy.Seccomp.Profile, text)
}
