package main

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// runSteps boots the machine and returns what became of the steps. A machine that goes down by its
// own kernel is started once more, from the step that it had reached: emulated kernels fail now and
// then, which does not void the steps before. A machine that goes down without a message of its
// kernel is not: something inside switched it off, which no test may do. One in a step that resets
// it goes on with the same root disk.
//
// boot runs the machine, and makeDisks makes its disks anew.
func (m machine) runSteps(o options, steps []step, boot, makeDisks func() error) ([]result, error) {
	if err := errors.Join(os.RemoveAll(o.out), os.MkdirAll(o.out, 0o755)); err != nil {
		return nil, err
	}
	booted := boot()
	results, err := m.results(o.out, steps)
	var down *downError
	if err != nil || !errors.As(booted, &down) {
		return results, errors.Join(booted, err)
	}
	at := reached(results)
	resets := at < len(steps) && steps[at].resets && down.sign == ""
	if at == len(steps) || down.sign == "" && !resets {
		return results, booted
	}
	if resets {
		logf("%s: step %s reset the machine, which goes on", o.kind, steps[at].name)
	} else {
		logf("%s: its own kernel went down in step %s (%s): once more from there", o.kind, steps[at].name, strings.TrimSpace(down.sign))
		if err := os.RemoveAll(m.path(rootDisk)); err != nil {
			return results, err
		}
	}
	if err := writeOrder(m.path("work"), steps[at:]); err != nil {
		return results, err
	}
	if err := makeDisks(); err != nil {
		return results, err
	}
	booted = boot()
	again, err := m.results(o.out, steps[at:])
	for i := range again {
		again[i].repeated = i == 0 && !resets
	}
	return append(results[:at:at], again...), errors.Join(booted, err)
}

// reached is the index of the first step that did not end.
func reached(results []result) int {
	for i, r := range results {
		if r.status == -1 {
			return i
		}
	}
	return len(results)
}

// saveConsole keeps a console in out, beside those of earlier boots of this run.
func saveConsole(out string, text []byte) error {
	path := filepath.Join(out, "console")
	if old, err := os.ReadFile(path); err == nil {
		text = append(append(old, "\n=== once more\n"...), text...)
	}
	return os.WriteFile(path, text, 0o644)
}

// The lines that the guest's init prints around a step.
var (
	stepBegins = regexp.MustCompile(`^vm: step (\S+) begins`)
	stepEnds   = regexp.MustCompile(`^vm: step (\S+) ends with status (\d+) after (\d+) ms`)
)

// saveEnded writes, from a console, what the results disk would hold of the steps that ended.
func saveEnded(out, console string) error {
	name := ""
	var said strings.Builder
	for line := range strings.SplitSeq(console, "\n") {
		if m := stepBegins.FindStringSubmatch(line); m != nil {
			name = filepath.Base(m[1])
			said.Reset()
			continue
		}
		m := stepEnds.FindStringSubmatch(line)
		if m == nil || name == "" || filepath.Base(m[1]) != name {
			said.WriteString(line + "\n")
			continue
		}
		for ending, text := range map[string]string{".out": said.String(), ".status": m[2], ".ms": m[3]} {
			if err := os.WriteFile(filepath.Join(out, name+ending), []byte(text), 0o644); err != nil {
				return err
			}
		}
		name = ""
	}
	if name == "" {
		return nil
	}
	// The step in which the machine went down: its output so far.
	return os.WriteFile(filepath.Join(out, name+".out"), []byte(said.String()), 0o644)
}
