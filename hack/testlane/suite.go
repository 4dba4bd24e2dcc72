package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"agentjail.dev/hack/testlane/outcome"
)

// most is how many failed tests of a lane run once more: more of them are no accident.
const most = 10

// goFails is the highest exit status of go test. A higher one is of a program that called it.
const goFails = 2

// A suite is go test with some packages, or the compiled tests of one.
type suite struct {
	lane, part string
	command    []string // it ends with go test's flags, or with those of a compiled test program
	packages   []string
	program    bool // the command is the compiled tests of the only package
	args       []string
	skipped    bool   // list what was skipped
	out        string // the directory for outputs
	show       io.Writer
	log        io.Writer
	costs      []outcome.PackageCost
}

// oneByOne reports whether packages run one after another, so that each has a cost of its own.
func (s *suite) oneByOne() bool {
	return len(s.packages) == 1 || slices.Contains(s.command, "-p=1") || strings.Contains(strings.Join(s.command, " ")+" ", " -p 1 ")
}

// run runs the tests, and what failed once more.
func (s *suite) run(ctx context.Context) (outcome.Lane, error) {
	lane := outcome.Lane{Name: s.lane, Part: s.part}
	meter := outcome.NewMeter()
	first, err := s.try(ctx, s.packages)
	if err != nil {
		lane.Trouble = err.Error()
	}
	var failed []*outcome.Package
	tests := 0
	for _, p := range first {
		for _, t := range p.With(outcome.Pass) {
			lane.Passed = append(lane.Passed, outcome.Entry{Package: p.Name, Test: t.Name})
		}
		if p.Failed {
			failed = append(failed, p)
			if p.Ended { // one that died may have cut short many
				tests += len(p.With(outcome.Fail))
			}
		}
	}
	var exit *exec.ExitError
	if len(failed) > 0 && (!errors.As(err, &exit) || exit.ExitCode() <= goFails) {
		lane.Trouble = "" // which the packages account for
	}
	switch {
	case ctx.Err() != nil:
		return lane, context.Cause(ctx)
	case tests > most:
		s.giveUp(&lane, failed, fmt.Sprintf("not once more: %d tests failed", tests))
	case len(failed) > 0 && budgetFromEnv().over(time.Now()):
		s.giveUp(&lane, failed, "not once more: the time for all tests is nearly over")
	default:
		for _, p := range failed {
			s.again(ctx, &lane, p)
		}
	}
	lane.Cost, lane.Packages = meter.Next(), s.costs
	s.summary(lane, first)
	return lane, nil
}

// giveUp takes all that failed for failed.
func (s *suite) giveUp(lane *outcome.Lane, failed []*outcome.Package, why string) {
	for _, p := range failed {
		for _, t := range s.culprits(p) {
			lane.Failed = append(lane.Failed, outcome.Entry{Package: p.Name, Test: t.Name, Note: why})
		}
	}
}

// culprits are the tests by which a package failed. One without a name stands for a package that
// failed outside of its tests.
func (s *suite) culprits(p *outcome.Package) []*outcome.Test {
	if tests := p.With(outcome.Fail, ""); len(tests) > 0 {
		return tests
	}
	return []*outcome.Test{{Output: p.Other}}
}

// again runs what failed in a package once more. Each test does so by itself; where the test
// program died, all that had not passed run together, since some had not begun.
func (s *suite) again(ctx context.Context, lane *outcome.Lane, p *outcome.Package) {
	culprits := s.culprits(p)
	outside := culprits[0].Name == ""
	switch {
	case !p.Built:
		lane.Failed = append(lane.Failed, outcome.Entry{Package: p.Name, Note: "its tests do not build"})
		return
	case p.Ended && outside:
		lane.Failed = append(lane.Failed, s.keep(p, culprits[0], nil, "it failed outside of its tests"))
		return
	case p.Ended:
		for _, t := range culprits {
			s.alone(ctx, lane, p, t)
		}
		return
	}
	var flags []string
	if passed := names(p.With(outcome.Pass, outcome.Skip)); len(passed) > 0 {
		flags = s.flag("skip", "^("+strings.Join(passed, "|")+")$")
	}
	second := s.once(ctx, p.Name, "what had not passed", flags)
	for _, t := range culprits {
		s.enter(lane, passedIn(second, t.Name), s.keep(p, t, second, ""))
	}
	if second == nil {
		return
	}
	for _, t := range second.With(outcome.Fail, "") {
		switch {
		case containsTest(culprits, t.Name):
		case second.Ended: // this was its first time
			s.alone(ctx, lane, second, t)
		default:
			lane.Failed = append(lane.Failed, s.keep(second, t, nil, ""))
		}
	}
}

// alone runs a test that failed once more, by itself.
func (s *suite) alone(ctx context.Context, lane *outcome.Lane, p *outcome.Package, t *outcome.Test) {
	second := s.once(ctx, p.Name, t.Name, s.flag("run", "^"+regexp.QuoteMeta(t.Name)+"$"+s.below()))
	s.enter(lane, passedIn(second, t.Name), s.keep(p, t, second, ""))
}

func (s *suite) enter(lane *outcome.Lane, ok bool, e outcome.Entry) {
	if ok {
		lane.Unsteady = append(lane.Unsteady, e)
	} else {
		lane.Failed = append(lane.Failed, e)
	}
}

// once runs a package's tests with some more flags, and returns what became of them; nil when
// nothing did.
func (s *suite) once(ctx context.Context, pkg, what string, flags []string) *outcome.Package {
	line := fmt.Sprintf("testlane: once more: %s %s", pkg, what)
	fmt.Fprintln(s.show, line)
	if s.log != nil {
		fmt.Fprintln(s.log, line)
	}
	packages, err := s.try(ctx, []string{pkg}, flags...)
	if len(packages) != 1 || ctx.Err() != nil {
		return nil
	}
	packages[0].Failed = packages[0].Failed || err != nil
	return packages[0]
}

// flag is a flag as go test takes it, or a test program.
func (s *suite) flag(name, value string) []string {
	if s.program {
		name = "test." + name
	}
	return []string{"-" + name + "=" + value}
}

var runFlag = regexp.MustCompile(`^--?(?:test\.)?run=[^/]*(/.*)$`)

// below is what the command's own -run has for subtests, "" for nothing.
func (s *suite) below() string {
	part := ""
	for _, word := range s.command {
		if m := runFlag.FindStringSubmatch(word); m != nil {
			part = m[1]
		}
	}
	return part
}

// try runs the tests, shows what matters of their output, and returns what became of them. An error
// is that of the command.
func (s *suite) try(ctx context.Context, packages []string, flags ...string) ([]*outcome.Package, error) {
	words := append(append([]string{}, s.command...), flags...)
	if !s.program {
		words = append(words, packages...)
		if len(s.args) > 0 {
			words = append(append(words, "-args"), s.args...)
		}
	}
	cmd := command(ctx, words)
	from, to, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer from.Close()
	cmd.Stdout, cmd.Stderr = to, to
	err = cmd.Start()
	to.Close()
	if err != nil {
		return nil, err
	}
	var all []*outcome.Package
	var reader outcome.Reader
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		all = s.read(from, &reader)
	}()
	werr := cmd.Wait()
	// What the command left behind may hold the pipe.
	select {
	case <-ended:
	case <-time.After(5 * time.Second):
		_ = from.SetReadDeadline(time.Now())
		<-ended
	}
	rest := reader.Rest
	if s.program {
		rest.Name, rest.Failed, rest.Built = packages[0], werr != nil, true
		return []*outcome.Package{&rest}, werr
	}
	if werr != nil {
		s.showLines(rest.Other)
	}
	return all, werr
}

func names(tests []*outcome.Test) []string {
	var all []string
	for _, t := range tests {
		all = append(all, regexp.QuoteMeta(t.Name))
	}
	return all
}

// passedIn reports whether a test passed in a second run, or, without a name, the package did.
func passedIn(second *outcome.Package, name string) bool {
	switch {
	case second == nil || !second.Ended || second.Failed && len(second.With(outcome.Fail, "")) == 0:
		return false
	case name == "":
		return !second.Failed && len(second.With(outcome.Pass)) > 0
	}
	return containsTest(second.With(outcome.Pass), name)
}

func containsTest(tests []*outcome.Test, name string) bool {
	for _, t := range tests {
		if t.Name == name {
			return true
		}
	}
	return false
}

// command is a command that gets the signal which ends this program, and the time to clean up.
func command(ctx context.Context, words []string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.Cancel = func() error {
		err := cmd.Process.Signal(syscall.SIGTERM)
		if errors.Is(err, syscall.EPERM) { // root's: sudo passes on what the terminal sends
			return nil
		}
		return err
	}
	return cmd
}
