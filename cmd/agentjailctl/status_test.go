package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/urfave/cli/v2"

	"agentjail.dev/runtime/lifecycle"
)

// status runs a command line in this process, and returns its status with what it printed.
func status(t *testing.T, args ...string) (int, string) {
	t.Helper()
	app := newApp()
	var out bytes.Buffer
	app.Writer, app.ErrWriter = &out, &out
	err := run(app, append([]string{"agentjail", "--config", noPolicy}, args...))
	if err != nil {
		out.WriteString(err.Error())
	}
	return lifecycle.Status(err), out.String()
}

// each calls f for every command of agentjail's own, with its words.
func each(t *testing.T, f func(words []string, c *cli.Command)) {
	t.Helper()
	var below func(words []string, all []*cli.Command)
	below = func(words []string, all []*cli.Command) {
		for _, c := range all {
			if c.Name == "help" {
				continue
			}
			at := append(slices.Clone(words), c.Name)
			f(at, c)
			below(at, c.Subcommands)
		}
	}
	below(nil, ownCommands())
}

// TestUsageStatus: a command line that cannot be followed has the status 2 with every command, or
// 125 where the other statuses are a program's; the error names the command's help.
func TestUsageStatus(t *testing.T) {
	tried := 0
	each(t, func(words []string, c *cli.Command) {
		want := usageStatus
		if runsProgram(c) {
			want = lifecycle.ExitOwn
		}
		fails := func(more ...string) {
			t.Helper()
			tried++
			args := append(slices.Clone(words), more...)
			got, out := status(t, args...)
			if got != want || !strings.Contains(out, "agentjail "+strings.Join(words, " ")+" --help") || strings.Contains(out, "\n") {
				t.Errorf("%s: status %d, want %d: %.200s", strings.Join(args, " "), got, want, out)
			}
		}
		fails("--no-such-option")
		fails("--no-such-option=1")
		if len(c.Subcommands) > 0 {
			fails()
			fails("no-such-command")
			return
		}
		if runsProgram(c) {
			return
		}
		least, most := arguments(c)
		for n := range least {
			fails(slices.Repeat([]string{"word"}, n)...)
		}
		fails(append(slices.Repeat([]string{"word"}, least), "--no-such-option")...)
		if most < 10 {
			fails(slices.Repeat([]string{"word"}, most+1)...)
		}
		for _, f := range c.Flags {
			if _, is := f.(*cli.BoolFlag); !is && most > 0 {
				fails(append(slices.Repeat([]string{"word"}, least), "--"+f.Names()[0])...)
			}
		}
	})
	if tried < 150 {
		t.Errorf("only %d command lines were tried", tried)
	}
}

// TestHelpWidth: the help of every command, runc's too, fits a terminal of 80 columns, and each option
// names its value.
func TestHelpWidth(t *testing.T) {
	_, out := status(t, "--help")
	pages := map[string]string{"": out}
	for _, c := range runtimeCommands() {
		_, pages[c.Name] = status(t, c.Name, "--help")
	}
	each(t, func(words []string, c *cli.Command) {
		for _, f := range c.Flags {
			// Help would print the quoted words as the switch's value.
			if b, isSwitch := f.(*cli.BoolFlag); isSwitch && strings.Contains(b.Usage, "`") {
				t.Errorf("%s --%s: a switch has no value, and its usage no backquotes", words, b.Name)
			}
		}
		code, out := status(t, append(slices.Clone(words), "--help")...)
		if code != 0 {
			t.Errorf("%s --help: status %d", words, code)
		}
		pages[strings.Join(words, " ")] = out
	})
	for name, out := range pages {
		if !strings.HasPrefix(out, "NAME:\n   agentjail "+name) {
			t.Errorf("%s: no help: %.100s", name, out)
		}
		for line := range strings.Lines(out) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
				t.Errorf("%s: %d columns: %s", name, n, line)
			}
			if option := strings.TrimSpace(line); strings.HasPrefix(option, "-") && strings.Contains(option, " value") {
				t.Errorf("%s: the value has no name: %s", name, line)
			}
		}
	}
}
