package learn

import (
	"fmt"
	"io"
	"path"
	"strings"

	"agentjail.dev/runtime/kernel/printable"
	"agentjail.dev/runtime/spec/policy"
)

// profileDir is where lists of calls are kept by convention (seccomp.only).
const profileDir = "/etc/agentjail/seccomp"

// File is where a profile's list of calls goes by convention.
func (r *Result) File() string { return path.Join(profileDir, r.Name+".json") }

// PolicyText is what to write into the policy.
func (r *Result) PolicyText(file string) string {
	var b strings.Builder
	line := func(text, why string) { fmt.Fprintf(&b, "%-56s # %s\n", text, why) }
	fmt.Fprintf(&b, "# learned from %s of %s\n", printable.Count(r.Runs, "run"), printable.Line(r.Work, 120))
	fmt.Fprintf(&b, "[policies.%s]\n", r.Name)
	line(fmt.Sprintf("seccomp.profile = %q", r.Profile), "the profile of the runs")
	line(fmt.Sprintf("seccomp.only = %q", file), fmt.Sprintf("%d of its calls; %d were never made", len(r.Used), len(r.Unused)))
	if r.Limits.Memory > 0 {
		line(fmt.Sprintf("limits.memory = %q", policy.Size(r.Limits.Memory)),
			fmt.Sprintf("at most %s was used", policy.Size(r.Peaks.Memory>>10<<10)))
	}
	if r.Limits.Pids > 0 {
		line(fmt.Sprintf("limits.pids = %d", r.Limits.Pids), fmt.Sprintf("at most %d at once", r.Peaks.Pids))
	}
	if r.ByName {
		var names []string
		for _, n := range r.Names {
			names = append(names, fmt.Sprintf("%q", printable.Line(n, 300)))
		}
		line(`network.mode = "names"`, "the runs' network")
		line(fmt.Sprintf("network.allow = [%s]", strings.Join(names, ", ")), fmt.Sprintf("%d names were connected to", len(names)))
	}
	return b.String()
}

// Text prints what was learned for people.
func (r *Result) Text(w io.Writer, file string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "learned from %s of %s, under profile %s\n\n", printable.Count(r.Runs, "run"),
		printable.Line(r.Work, 200), r.Profile)
	line := func(what, text string) {
		if text != "" {
			fmt.Fprintf(&b, "%-10s %s\n", what, printable.Line(text, 0))
		}
	}
	line("calls", fmt.Sprintf("%d of the profile's are kept; %d were never made and go", len(r.Used), len(r.Unused)))
	line("go", words(r.Unused, 40))
	for _, c := range r.Used {
		if len(c.When) > 0 {
			line("arguments", fmt.Sprintf("%s only for %s", c.Name, strings.Join(c.When, ", or ")))
		}
	}
	for _, c := range r.Refused {
		line("refused", fmt.Sprintf("%s, %s, %s (agentjail why --seccomp-profile %s %s)", c.Name, printable.Count(int(c.Count), "time"),
			c.Errno, r.Profile, c.Name))
	}
	line("names", words(r.Names, 20))
	line("refused", words(r.NotNames, 20))
	line("files", words(r.Files, 20))
	for _, warning := range r.Warnings {
		line("warning", warning)
	}
	fmt.Fprintf(&b, "\n%s:\n\n", file)
	list, err := r.List.Text()
	if err != nil {
		return err
	}
	b.Write(list)
	fmt.Fprintf(&b, "\nthe policy:\n\n%s", r.PolicyText(file))
	_, err = io.WriteString(w, b.String())
	return err
}
