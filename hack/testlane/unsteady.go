package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"agentjail.dev/hack/testlane/outcome"
)

// steady is in how many whole runs a test passes at once before it is no longer remembered as
// unsteady.
const steady = 10

// A memory is what a machine knows of unsteady tests: those of earlier runs of make test. It is a
// file outside of any clone.
type memory struct {
	Tests []remembered
}

// remembered is a test that was unsteady, and has not passed often enough since.
type remembered struct {
	outcome.Entry
	Runs   []run
	Passed int // in how many whole runs since
}

// A run is one of make test.
type run struct {
	Began  string // in seconds since 1970, which names it
	Commit string
	Lane   string
}

// learn adds what became of the tests in a run, and returns those that were unsteady in an earlier
// run too. before reports whether the code of a commit came before what was tested: only its runs
// count.
func (m *memory) learn(lanes []outcome.Lane, now run, before func(commit string) bool) (again []remembered) {
	bad := map[outcome.Entry]bool{}
	for _, l := range lanes {
		for _, e := range slices.Concat(l.Failed, l.Unsteady) {
			bad[outcome.Entry{Package: e.Package, Test: e.Test}] = true
		}
	}
	for _, l := range lanes {
		for _, e := range l.Unsteady {
			i := slices.IndexFunc(m.Tests, func(r remembered) bool { return r.Same(e) })
			if i < 0 {
				m.Tests = append(m.Tests, remembered{Entry: outcome.Entry{Package: e.Package, Test: e.Test}})
				i = len(m.Tests) - 1
			}
			r := &m.Tests[i]
			if slices.ContainsFunc(r.Runs, func(old run) bool { return old.Began != now.Began && before(old.Commit) }) {
				again = append(again, *r)
			}
			if !slices.ContainsFunc(r.Runs, func(old run) bool { return old.Began == now.Began }) {
				at := now
				at.Lane = l.Name
				r.Runs, r.Passed = append(r.Runs, at), 0
			}
		}
	}
	for i := range m.Tests {
		r := &m.Tests[i]
		if !bad[outcome.Entry{Package: r.Package, Test: r.Test}] && slices.ContainsFunc(lanes, func(l outcome.Lane) bool { return slices.ContainsFunc(l.Passed, r.Same) }) {
			r.Passed++
		}
	}
	m.Tests = slices.DeleteFunc(m.Tests, func(r remembered) bool { return r.Passed >= steady })
	return again
}

// update reads a machine's memory, has it changed, and writes it, while no other run does.
func update(file string, change func(*memory)) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		return fmt.Errorf("lock %s: %w", file, err)
	}
	var m memory
	if err := json.NewDecoder(f).Decode(&m); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("%s: %w (remedy: remove it; what was unsteady is then forgotten)", file, err)
	}
	change(&m)
	text, err := json.MarshalIndent(m, "", "\t")
	if err != nil {
		return err
	}
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err = f.WriteAt(append(text, '\n'), 0)
	return err
}
