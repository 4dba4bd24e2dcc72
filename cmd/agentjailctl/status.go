package main

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"agentjail.dev/runtime/lifecycle"
	"agentjail.dev/runtime/spec/policy"
)

// Exit statuses of agentjail's own commands, beside 0 and lifecycle.ExitOwn (docs/commands.md).
const (
	// answerStatus is a negative answer's: differences, problems, what is not allowed.
	answerStatus = 1
	// usageStatus is for a command line that cannot be followed.
	usageStatus = 2
)

// A usageError is the error of a command line that cannot be followed.
type usageError struct{ error }

// Unwrap returns the error itself.
func (e *usageError) Unwrap() error { return e.error }

// usage is the error of a command line that cannot be followed.
func usage(format string, args ...any) error { return &usageError{fmt.Errorf(format, args...)} }

// asUsage marks an error as the command line's; nil stays.
func asUsage(err error) error {
	if err == nil {
		return nil
	}
	return &usageError{err}
}

// asAnswer marks an error as the answer that was requested; nil stays.
func asAnswer(err error) error {
	if err == nil {
		return nil
	}
	return &lifecycle.StatusError{Code: answerStatus, Err: err}
}

// no is the error of a negative answer that is printed already.
func no() error { return &lifecycle.ExitError{Code: answerStatus} }

// answered returns err, or the error of a negative answer.
func answered(err error, yes bool) error {
	if err == nil && !yes {
		return no()
	}
	return err
}

// statused sets the status of an error that has none. A command that runs a program has only one
// for all errors of agentjail's: others can be the program's.
func statused(err error, runsProgram bool) error {
	_, ended := errors.AsType[*lifecycle.ExitError](err)
	_, status := errors.AsType[*lifecycle.StatusError](err)
	_, wrong := errors.AsType[*usageError](err)
	switch {
	case err == nil, ended, status:
		return err
	case wrong && !runsProgram:
		return &lifecycle.StatusError{Code: usageStatus, Err: err}
	}
	return lifecycle.OwnFailure(err)
}

// runsProgram reports whether a command's arguments are a program's command line.
func runsProgram(c *cli.Command) bool { return strings.HasSuffix(c.ArgsUsage, "COMMAND [ARG...]") }

// withStatuses has a command, and those below it, end by the rules of this file.
func withStatuses(c *cli.Command) {
	runs, action := runsProgram(c), c.Action
	// `help` and `h` as arguments are a container's name, or a program.
	c.HideHelpCommand = len(c.Subcommands) == 0
	c.OnUsageError = func(c *cli.Context, err error, _ bool) error {
		return statused(usage("%w: see `%s --help`", unknownOption(c.Command, err), c.Command.HelpName), runs)
	}
	c.Action = func(c *cli.Context) error {
		if len(c.Command.Subcommands) > 0 {
			return statused(unknownVerb(c), runs)
		}
		err := cmp.Or(noEmptyValue(c, runs), countArguments(c))
		if err == nil {
			err = hinted(c, action(c))
		}
		return statused(err, runs)
	}
	for _, sub := range c.Subcommands {
		withStatuses(sub)
	}
}

// noEmptyValue refuses an empty value of an option, and an empty argument of what runs no program:
// those of a shell's variable that is not set. They would count as left out.
func noEmptyValue(c *cli.Context, runsProgram bool) error {
	if !runsProgram && slices.Contains(c.Args().Slice(), "") {
		return usage("%s: an argument is empty (remedy: name one, or leave it out)", c.Command.Name)
	}
	for _, f := range c.Command.Flags {
		name := f.Names()[0]
		if !c.IsSet(name) {
			continue
		}
		_, isText := f.(*cli.StringFlag)
		_, isList := f.(*cli.StringSliceFlag)
		if isText && c.String(name) == "" || isList && slices.Contains(c.StringSlice(name), "") {
			return usage("%s has an empty value (remedy: name one, or leave the option out)", dashed(name))
		}
	}
	return nil
}

// hinted adds the command's help to the error of a command line that has no hint of its own.
func hinted(c *cli.Context, err error) error {
	if _, wrong := errors.AsType[*usageError](err); !wrong || hint.MatchString(err.Error()) {
		return err
	}
	return usage("%w: see `%s --help`", err, c.Command.HelpName)
}

var hint = regexp.MustCompile("remedy: |did you mean|see `")

// unknownOption names the option that is most like an unknown one. Other errors stay.
func unknownOption(c *cli.Command, err error) error {
	// The texts are those of package flag.
	if value, name, wrong := strings.Cut(err.Error(), " for flag -"); wrong && strings.HasSuffix(name, ": parse error") {
		name = strings.TrimSuffix(name, ": parse error")
		if slices.ContainsFunc(c.Flags, func(f cli.Flag) bool {
			_, is := f.(*cli.DurationFlag)
			return is && slices.Contains(f.Names(), name)
		}) {
			return fmt.Errorf("%s: %s (remedy: a time with its unit, such as 90s, 10m or 2h)", dashed(name), value)
		}
	}
	name, unknown := strings.CutPrefix(err.Error(), "flag provided but not defined: -")
	if !unknown {
		return err
	}
	var names []string
	for _, o := range offered(c.Flags) {
		names = append(names, o.Names...)
	}
	name = dashed(name)
	return fmt.Errorf("unknown option %s%s", name, policy.Suggestion(name, names))
}

// unknownVerb is the error of a group of commands that was called without one of them.
func unknownVerb(c *cli.Context) error {
	var names []string
	for _, sub := range c.Command.VisibleCommands() {
		if sub.Name != "help" {
			names = append(names, sub.Name)
		}
	}
	what := "a command is missing"
	if c.NArg() > 0 {
		what = fmt.Sprintf("unknown command %q%s", c.Args().First(), policy.Suggestion(c.Args().First(), names))
	}
	return usage("%s: %s (remedy: one of %s; see `%s --help`)", c.Command.Name, what, strings.Join(names, ", "), c.Command.HelpName)
}

// countArguments refuses more or fewer arguments than ArgsUsage has.
func countArguments(c *cli.Context) error {
	least, most := arguments(c.Command)
	switch n := c.NArg(); {
	case n < least:
		return usage("%s needs %s: see `%s --help`", c.Command.Name, c.Command.ArgsUsage, c.Command.HelpName)
	case n > most && most == 0:
		return usage("%q takes no argument, and %q is one: see `%s --help`", c.Command.Name, c.Args().First(), c.Command.HelpName)
	case n > most:
		return usage("%s takes at most %s, and %q is one more: see `%s --help`", c.Command.Name, c.Command.ArgsUsage,
			c.Args().Get(most), c.Command.HelpName)
	}
	return nil
}

// arguments returns how many arguments a command takes, as its ArgsUsage has it: those in brackets
// are optional, dots stand for any number.
func arguments(c *cli.Command) (least, most int) {
	if runsProgram(c) {
		return 0, math.MaxInt
	}
	for word := range strings.FieldsSeq(c.ArgsUsage) {
		if !strings.HasPrefix(word, "[") {
			least++
		}
		if strings.Contains(word, "...") {
			most = math.MaxInt
		} else if most < math.MaxInt {
			most++
		}
	}
	return least, most
}

// run runs a command line, which begins with the program's name, and returns an error that has its
// status.
func run(app *cli.App, args []string) error {
	err := app.Run(flagsFirst(app, args))
	if _, noTopic := errors.AsType[cli.ExitCoder](err); noTopic {
		err = usage("%w: see `agentjail --help`", err) // help of what does not exist
	}
	return statused(err, false)
}
