package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"agentjail.dev/hack/testlane/outcome"
)

// runReport reports what became of all lanes of a run. What was left out comes first, and last.
func runReport(w io.Writer, args []string) error {
	flags := flag.NewFlagSet("report", flag.ExitOnError)
	file := flags.String("memory", "/var/cache/agentjail-tests/unsteady.json", "`file` that remembers what was unsteady in earlier runs")
	commits := flags.String("commits", "", "`file` with the commit that was tested, and all before it")
	if err := flags.Parse(args); err != nil {
		return err
	}
	commit, before, err := past(*commits)
	if err != nil {
		return err
	}
	lanes, err := outcome.ReadAll(filepath.Join(out, "lanes"))
	leftOut, lerr := os.ReadFile(filepath.Join(out, "left-out"))
	if lerr != nil && !errors.Is(lerr, os.ErrNotExist) {
		err = errors.Join(err, lerr)
	}
	var again []remembered
	err = errors.Join(err, update(*file, func(m *memory) {
		again = m.learn(lanes, run{Began: os.Getenv("BEGAN"), Commit: commit}, before)
	}))
	fmt.Fprintf(w, "\n%s", leftOut)
	slow, serr := slowest(out, slowestTests)
	err = errors.Join(err, serr)
	listSlowest(w, slow)
	listCosts(w, lanes)
	red := report(w, lanes, again)
	fmt.Fprintf(w, "%s", leftOut)
	if err == nil && red {
		err = errors.New("not all tests passed")
	}
	return err
}

// report lists what failed and what is unsteady, and returns whether something failed.
func report(w io.Writer, lanes []outcome.Lane, again []remembered) (red bool) {
	var failed, unsteady []string
	for _, l := range lanes {
		name := strings.TrimSuffix(l.Name+" "+l.Part, " ")
		for _, e := range l.Failed {
			failed = append(failed, fmt.Sprintf("%s: %s", name, e))
		}
		for _, e := range l.Unsteady {
			line := fmt.Sprintf("%s: %s", name, e)
			unsteady = append(unsteady, line)
			if i := slices.IndexFunc(again, func(r remembered) bool { return r.Same(e) }); i >= 0 {
				failed = append(failed, line+": unsteady in an earlier run, too: "+describe(again[i].Runs))
			}
		}
		if l.Trouble != "" {
			failed = append(failed, fmt.Sprintf("%s: %s", name, l.Trouble))
		}
	}
	for _, l := range lanes {
		for _, e := range slices.Concat(l.Unsteady, l.Failed) {
			if lines := outcome.Failures(e); len(lines) > 0 {
				list(w, e.String()+":", lines)
			}
		}
	}
	list(w, "unsteady, which failed and then passed by itself:", unsteady)
	list(w, "failed:", failed)
	if len(failed) == 0 {
		fmt.Fprintln(w, "all lanes that ran passed")
	}
	return len(failed) > 0
}

func list(w io.Writer, title string, lines []string) {
	if len(lines) > 0 {
		fmt.Fprintf(w, "%s\n  %s\n", title, strings.Join(lines, "\n  "))
	}
}

func describe(runs []run) string {
	var all []string
	for _, r := range runs {
		all = append(all, fmt.Sprintf("%s at %.12s", r.Lane, r.Commit))
	}
	return strings.Join(all, ", ")
}

// past reads the commit that was tested, and with it those that it came from, as git rev-list lists
// them. Where there is no git, both are empty.
func past(file string) (commit string, before func(string) bool, err error) {
	text, err := os.ReadFile(file)
	commits := strings.Fields(string(text))
	if len(commits) == 0 {
		return "", func(string) bool { return false }, err
	}
	return commits[0], func(commit string) bool { return slices.Contains(commits, commit) }, err
}
