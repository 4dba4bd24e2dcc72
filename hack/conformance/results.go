package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A suite is one project's tests.
type suite struct {
	name string
	// prepare gets the suite ready for a delegate of that version and returns its parts.
	prepare func(ctx context.Context, o *options, version string) ([]unit, error)
	// pattern is what options.tests is for the tests of rows; nil for a suite without.
	pattern func(names []string) string
}

// A unit is a part of a suite that can be run by itself.
type unit struct {
	name string
	// run runs it on the runtime at path, with all output going to the file log.
	run func(ctx context.Context, path, log string) error
	// read is what came out, by that file.
	read func(log string) (results, error)
	// wait bounds what it may take; 0 is unitWait.
	wait time.Duration
}

// A verdict is what came out of a test.
type verdict string

// The verdicts. A test that was not heard of has none.
const (
	pass    verdict = "ok"
	fail    verdict = "not ok"
	skipped verdict = "skip"
	nothing verdict = ""
)

// A test is named by its unit and its own name.
type test struct{ unit, name string }

func (t test) String() string { return t.unit + ": " + t.name }

func byName(a, b test) int { return strings.Compare(a.String(), b.String()) }

// results is what came out of each test.
type results map[test]verdict

// add counts tests of the same name apart.
func (r results) add(unit, name string, v verdict) {
	t := test{unit, name}
	for n := 2; ; n++ {
		if _, there := r[t]; !there {
			r[t] = v
			return
		}
		t.name = fmt.Sprintf("%s (%d)", name, n)
	}
}

func (r results) String() string {
	n := map[verdict]int{}
	for _, v := range r {
		n[v]++
	}
	return fmt.Sprintf("%d tests, %d ok, %d skipped, %d not ok", len(r), n[pass], n[skipped], n[fail])
}

// A difference is a test that came out otherwise than on the delegate.
type difference struct {
	test
	was, is verdict
}

func (d difference) String() string { return fmt.Sprintf("%s: %q, alone %q", d.test, d.is, d.was) }

// differences compares what came out, in the order of names.
func differences(base, got results) []difference {
	all := maps.Clone(base)
	maps.Copy(all, got)
	var out []difference
	for _, t := range slices.SortedFunc(maps.Keys(all), byName) {
		if base[t] != got[t] {
			out = append(out, difference{t, base[t], got[t]})
		}
	}
	return out
}

// A runner runs units and keeps their output.
type runner struct {
	ctx   context.Context
	out   string
	paths map[string]string
	// reuse takes what an earlier call has left, in the place of running a unit.
	reuse bool
}

// all runs all units on one subject. mark is added to the names of the files with their output.
func (r *runner) all(subject string, units []unit, mark string) (results, error) {
	dir := filepath.Join(r.out, subject)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	sum := results{}
	for _, u := range units {
		log := filepath.Join(dir, strings.ReplaceAll(u.name, "/", "-")+mark+".log")
		start := time.Now()
		if _, err := os.Stat(log); err != nil || !r.reuse {
			if err := r.one(subject, u, log); err != nil {
				return nil, fmt.Errorf("%s: %w", u.name, err)
			}
		}
		got, err := u.read(log)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", u.name, err)
		}
		fmt.Fprintf(os.Stderr, "%s%s %s: %s, %v\n", subject, mark, u.name, got, time.Since(start).Round(time.Second))
		maps.Copy(sum, got)
	}
	return sum, nil
}

// one runs a unit. The file with its output is there when it has ended, not before.
func (r *runner) one(subject string, u unit, log string) error {
	wait := cmp.Or(u.wait, unitWait)
	ctx, cancel := context.WithTimeout(r.ctx, wait)
	defer cancel()
	part := log + ".partial"
	err := u.run(ctx, r.paths[subject], part)
	switch {
	case r.ctx.Err() != nil:
		return r.ctx.Err()
	case ctx.Err() != nil:
		fmt.Fprintf(os.Stderr, "%s, %s: stopped after %v\n", subject, u.name, wait)
	case err != nil:
		return err
	}
	return os.Rename(part, log)
}

// again runs the units of differences once more on both sides and returns those that still differ:
// some tests of these suites do not come out the same each time.
func (r *runner) again(subject string, units []unit, diff []difference, round int) ([]difference, error) {
	some := slices.Clone(units)
	some = slices.DeleteFunc(some, func(u unit) bool {
		return !slices.ContainsFunc(diff, func(d difference) bool { return d.unit == u.name })
	})
	mark := fmt.Sprintf(".%d", round)
	base, err := r.all(alone, some, mark+"-"+subject)
	if err != nil {
		return nil, err
	}
	got, err := r.all(subject, some, mark)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(diff, func(d difference) bool { return base[d.test] == got[d.test] }), nil
}
