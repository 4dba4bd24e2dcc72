package main

import (
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// flagsFirst puts a command's flags in front of its other arguments, where the library reads them:
// users type `agentjail receipt ID --json`. The arguments after "--", and those of a command that
// is to be run, stay as they are. args begins with the program's name.
func flagsFirst(app *cli.App, args []string) []string {
	commands, own := app.Commands, app.Flags
	var c *cli.Command
	i := min(1, len(args))
	for i < len(args) {
		if n := flagWords(own, args[i:]); n > 0 {
			i = min(i+n, len(args))
			continue
		}
		at := slices.IndexFunc(commands, func(c *cli.Command) bool { return c.HasName(args[i]) })
		if at < 0 {
			break
		}
		c = commands[at]
		commands, own = c.Subcommands, c.Flags
		i++
	}
	if c == nil || c.SkipFlagParsing || runsProgram(c) {
		return args
	}
	flags, rest := slices.Clone(args[:i]), []string(nil)
	for i < len(args) {
		if args[i] == "--" {
			rest = append(rest, args[i:]...)
			break
		}
		if n := flagWords(c.Flags, args[i:]); i+n > len(args) {
			return append(flags, args[i]) // the library reports that its value is missing
		} else if n > 0 {
			flags = append(flags, args[i:i+n]...)
			i += n
			continue
		}
		if optionLike(args[i]) { // the library reports that it is unknown
			flags = append(flags, args[i])
		} else {
			rest = append(rest, args[i])
		}
		i++
	}
	return append(flags, rest...)
}

// optionLike reports whether a word can be meant as an option alone: a message can begin with "-"
// too.
func optionLike(word string) bool {
	name, _, _ := strings.Cut(strings.TrimLeft(word, "-"), "=")
	return strings.HasPrefix(word, "-") && name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return r != '-' && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9')
	})
}

// flagWords returns how many words of args a flag at their beginning takes with its value; 0 if the
// first word is no flag of these.
func flagWords(flags []cli.Flag, args []string) int {
	word, isFlag := strings.CutPrefix(args[0], "-")
	name, _, valued := strings.Cut(strings.TrimPrefix(word, "-"), "=")
	if !isFlag || name == "" {
		return 0
	}
	if name == "help" || name == "h" {
		return 1
	}
	for _, f := range flags {
		if !slices.Contains(f.Names(), name) {
			continue
		}
		if _, is := f.(*cli.BoolFlag); is || valued {
			return 1
		}
		return 2
	}
	return 0
}
