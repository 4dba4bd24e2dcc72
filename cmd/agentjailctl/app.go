package main

import (
	"fmt"
	"os"
	"slices"

	"github.com/urfave/cli/v2"

	"agentjail.dev/runtime/kernel/invoker"
	"agentjail.dev/runtime/runccli"
	"agentjail.dev/runtime/spec/policy"
	"agentjail.dev/runtime/version"
)

const description = `agentjail takes runc's command line, so that engines use it as a runtime:

   docker run --runtime=agentjail IMAGE
   podman --runtime agentjail run IMAGE

It rewrites every bundle into a jail of three rings (resources, access, kernel
surface) and hands it to the host's runc or crun. Nothing in a bundle can widen
the jail; the host's owner can, in ` + policy.DefaultPath + `.

Called by another name, agentjail-NAME, it uses [policies.NAME] of that file.`

// caller is this process's.
var caller = &runccli.Caller{PolicyName: runccli.PolicyName(os.Args[0]), As: invoker.Do}

func newApp() *cli.App {
	cli.VersionPrinter = func(c *cli.Context) { version.Print(c.App.Writer) }
	cli.OsExiter = func(int) {}
	cli.HelpPrinter = printHelp
	own := ownCommands()
	for _, c := range own {
		withStatuses(c)
	}
	return &cli.App{
		Name:        "agentjail",
		Usage:       "run OCI containers as jails for AI agents",
		Description: description,
		Version:     version.Version,
		// A value may hold commas: --env, --allow.
		DisableSliceFlagSeparator: true,
		Flags:                     flags(runccli.Global()),
		Before: func(c *cli.Context) error {
			if file := c.String("config"); file != policy.DefaultPath {
				if err := invoker.MayRead(file); err != nil {
					return fmt.Errorf("--config: %w", err)
				}
			}
			for _, name := range []string{"root", "criu"} { // the delegate writes there, or executes it
				if c.String(name) != "" {
					if err := invoker.RootsOwn("--" + name); err != nil {
						return err
					}
				}
			}
			return caller.Open(c)
		},
		Commands: slices.Concat(own, runtimeCommands(), []*cli.Command{specCommand()}),
		Action: func(c *cli.Context) error {
			if c.NArg() > 0 {
				return asUsage(&runccli.UnknownError{Verb: c.Args().First()})
			}
			return cli.ShowAppHelp(c)
		},
		OnUsageError: func(_ *cli.Context, err error, _ bool) error { return asUsage(err) },
		// main reports errors, once.
		ExitErrHandler: func(*cli.Context, error) {},
	}
}

// verbsOfEngines is the heading of runc's verbs.
const verbsOfEngines = "RUNC'S COMMANDS, which engines call"

// runtimeCommands are runc's verbs, for their help: agentjail runs them.
func runtimeCommands() []*cli.Command {
	var out []*cli.Command
	asIs := func(_ *cli.Context, err error, _ bool) error { return asUsage(err) }
	isHelp := func(arg string) bool { return arg == "--help" || arg == "-h" }
	for _, v := range runccli.Verbs() {
		out = append(out, &cli.Command{
			Name: v.Name, Category: verbsOfEngines, Usage: v.Usage, Description: v.Description, ArgsUsage: v.Args,
			Flags: flags(v.Flags), SkipFlagParsing: v.Raw,
			OnUsageError: asIs,
			Action: func(c *cli.Context) error {
				if v.Raw && slices.ContainsFunc(c.Args().Slice(), isHelp) {
					return cli.ShowSubcommandHelp(c)
				}
				return usage("%s is a command of the runtime: call `%s %s`", v.Name, runccli.Program, v.Name)
			},
		})
	}
	return out
}

// flags converts our flags to the library's.
func flags(from []runccli.Flag) []cli.Flag {
	var out []cli.Flag
	for _, f := range from {
		if f.Name == "version" {
			continue // the library has it
		}
		var short []string
		if f.Short != "" {
			short = []string{f.Short}
		}
		switch f.Kind {
		case runccli.Switch:
			out = append(out, &cli.BoolFlag{Name: f.Name, Aliases: short, Usage: f.Usage, Hidden: f.Hidden})
		case runccli.List:
			out = append(out, &cli.StringSliceFlag{Name: f.Name, Aliases: short, Usage: f.Usage, Hidden: f.Hidden})
		default:
			out = append(out, &cli.StringFlag{Name: f.Name, Aliases: short, Usage: f.Usage, Hidden: f.Hidden, Value: f.Default})
		}
	}
	return out
}

// oneID returns the sole argument of most verbs, an id.
func oneID(c *cli.Context) (string, error) {
	if c.NArg() != 1 {
		return "", usage("%q requires exactly 1 argument, CONTAINER, a container id (see `agentjail %s --help`)", c.Command.Name, c.Command.Name)
	}
	return c.Args().First(), nil
}
