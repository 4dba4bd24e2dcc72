// Command testlane runs the tests, so that one failure hides no other and the end reports by name
// what failed.
//
//	testlane lane NAME COMMAND...      one part of make test: keeps what becomes of it, and succeeds whatever that is
//	testlane tests [flags] COMMAND...  go test, whose flags end the command, or a compiled test program: shows failures, runs them once more
//	testlane report                    what failed in all lanes, what is unsteady, what was left out; fails if something failed
//
// A test that fails runs once more by itself. If it passes then, it is unsteady: that is reported,
// and its lane passes. One that was unsteady in an earlier run, too, has failed (unsteady.go).
//
// It works in the module's directory and keeps what it found in dist/lanes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"agentjail.dev/hack/testlane/outcome"
)

// out is the directory for all that make writes.
const out = "dist"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	err := errors.New("usage: testlane lane NAME COMMAND..., testlane tests [flags] COMMAND..., or testlane report")
	if len(os.Args) > 1 {
		switch args := os.Args[2:]; os.Args[1] {
		case "lane":
			err = runLane(ctx, args)
		case "tests":
			err = runTests(ctx, args)
		case "report":
			err = runReport(os.Stdout, args)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "testlane:", err)
		os.Exit(1)
	}
}

// runLane runs a lane of make test. Only a signal is an error.
func runLane(ctx context.Context, args []string) error {
	if len(args) < 2 {
		return errors.New("lane: name it, and give a command")
	}
	name := args[0]
	if b := budgetFromEnv(); b.over(time.Now()) {
		return leaveOut(os.Stdout, fmt.Sprintf("LEFT OUT, since nine tenths of %d minutes are over: %s (run it by itself: make %[2]s)", b.minutes, name))
	}
	fmt.Printf("\ntestlane: %s\n", name)
	cmd := command(ctx, args[1:])
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	meter := outcome.NewMeter()
	err := cmd.Run()
	whole := outcome.Lane{Name: name, Part: outcome.Whole, Cost: meter.Next()}
	if ctx.Err() != nil {
		return fmt.Errorf("%s: ended by a signal", name)
	}
	dir := filepath.Join(out, "lanes")
	lanes, rerr := outcome.ReadAll(dir)
	// A part that failed accounts for the command's failure.
	if err != nil && !slices.ContainsFunc(lanes, func(l outcome.Lane) bool { return l.Name == name && l.Red() }) {
		whole.Trouble = err.Error()
	}
	return errors.Join(rerr, whole.Write(dir))
}

// leaveOut reports that something does not run, and keeps that for the end.
func leaveOut(w io.Writer, line string) error {
	fmt.Fprintln(w, line)
	f, err := os.OpenFile(filepath.Join(out, "left-out"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, line)
	return errors.Join(err, f.Close())
}

// runTests runs go test, or a compiled test program.
func runTests(ctx context.Context, args []string) error {
	s := suite{out: out, show: os.Stdout}
	flags := flag.NewFlagSet("tests", flag.ExitOnError)
	flags.StringVar(&s.lane, "lane", "", "the task of make whose `name` is reported")
	flags.StringVar(&s.part, "part", "", "which `part` of it this is")
	log := flags.String("log", "", "keep the whole output in this `file`")
	packages := flags.String("packages", "", "the `packages` that go test gets")
	testArgs := flags.String("args", "", "`arguments` for the test programs")
	flags.BoolVar(&s.program, "program", false, "the command is the compiled tests of the only package")
	flags.BoolVar(&s.skipped, "skipped", false, "list what is skipped")
	if err := flags.Parse(args); err != nil {
		return err
	}
	s.command, s.packages, s.args = flags.Args(), strings.Fields(*packages), strings.Fields(*testArgs)
	if len(s.command) == 0 || len(s.packages) == 0 || s.program && len(s.packages) != 1 {
		return errors.New("tests: name packages, and give a command")
	}
	if *log != "" {
		if err := os.MkdirAll(filepath.Dir(*log), 0o755); err != nil {
			return err
		}
		f, err := os.Create(*log)
		if err != nil {
			return err
		}
		defer f.Close()
		s.log = f
		fmt.Printf("testlane: the whole output is in %s\n", *log)
	}
	lane, err := s.run(ctx)
	if err != nil {
		return err
	}
	if s.lane != "" {
		if err := lane.Write(filepath.Join(out, "lanes")); err != nil {
			return err
		}
	}
	if lane.Red() {
		return errors.New("tests failed")
	}
	return nil
}
