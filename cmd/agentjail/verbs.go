package main

import (
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"

	"agentjail.dev/runtime/jail"
)

// runtimeCommands are runc's verbs.
func runtimeCommands() []*cli.Command {
	return []*cli.Command{
		createCommand("create", "make a jail from a bundle; its process waits for start", false),
		createCommand("run", "make a jail, start it and wait for its end", true),
		{
			Name: "start", Usage: "seal the jail's network and let its process go", ArgsUsage: "CONTAINER",
			Action: func(c *cli.Context) error {
				id, err := oneID(c)
				if err != nil {
					return err
				}
				w, err := newWay(c)
				if err != nil {
					return err
				}
				return w.Start(id)
			},
		},
		execCommand(),
		updateCommand(),
		{
			Name: "delete", Usage: "remove a jail and all that was made for it", ArgsUsage: "CONTAINER",
			Flags: []cli.Flag{&cli.BoolFlag{Name: "force", Aliases: []string{"f"}, Usage: "kill it first; a missing jail is no error"}},
			Action: func(c *cli.Context) error {
				id, err := oneID(c)
				if err != nil {
					return err
				}
				w, err := newWay(c)
				if err != nil {
					return err
				}
				return w.Delete(id, c.Bool("force"))
			},
		},
		passCommand("kill", "send a signal to the jail's first process", "CONTAINER [SIGNAL]",
			&cli.BoolFlag{Name: "all", Aliases: []string{"a"}, Usage: "to all of its processes"}),
		passCommand("pause", "suspend all processes", "CONTAINER"),
		passCommand("resume", "resume all processes", "CONTAINER"),
		passCommand("state", "print the state as JSON", "CONTAINER"),
		passCommand("ps", "list the processes", "CONTAINER [ps options]",
			&cli.StringFlag{Name: "format", Aliases: []string{"f"}, Usage: "table or json"}),
		passCommand("events", "print events and statistics", "CONTAINER",
			&cli.StringFlag{Name: "interval", Usage: "time between statistics, as 5s"},
			&cli.BoolFlag{Name: "stats", Usage: "print statistics once and exit"}),
		passCommand("list", "list containers", "",
			&cli.StringFlag{Name: "format", Aliases: []string{"f"}, Usage: "table or json"},
			&cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "ids only"}),
		refusedCommand("checkpoint", "a jail's memory must not be written to the host's disk"),
		refusedCommand("restore", "a restored process was never hardened"),
		specCommand(),
		featuresCommand(),
	}
}

func createCommand(name, usage string, run bool) *cli.Command {
	flags := []cli.Flag{
		&cli.StringFlag{Name: "bundle", Aliases: []string{"b"}, Value: ".", Usage: "path of the OCI bundle"},
		&cli.StringFlag{Name: "console-socket", Usage: "unix socket that receives the terminal"},
		&cli.StringFlag{Name: "pidfd-socket", Usage: "unix socket that receives a pidfd of the first process"},
		&cli.StringFlag{Name: "pid-file", Usage: "write the first process's id to `FILE`"},
		&cli.BoolFlag{Name: "no-pivot", Usage: "not granted: leaves the host's root mounted"},
		&cli.BoolFlag{Name: "no-new-keyring", Usage: "not granted: shares the caller's keys"},
		&cli.IntFlag{Name: "preserve-fds", Usage: "not granted: hands the host's files in"},
	}
	if run {
		flags = append(flags,
			&cli.BoolFlag{Name: "detach", Aliases: []string{"d"}, Usage: "do not wait for its end"},
			&cli.BoolFlag{Name: "keep", Usage: "not granted: a jail that ended is deleted"},
			&cli.BoolFlag{Name: "no-subreaper", Usage: "ignored"},
		)
	}
	return &cli.Command{
		Name: name, Usage: usage, ArgsUsage: "CONTAINER", Flags: flags,
		Action: func(c *cli.Context) error {
			id, err := oneID(c)
			if err != nil {
				return err
			}
			w, err := newWay(c)
			if err != nil {
				return err
			}
			for _, f := range []string{"no-pivot", "no-new-keyring", "preserve-fds", "keep"} {
				if c.IsSet(f) && (f != "preserve-fds" || c.Int(f) > 0) {
					log.Warnf("agentjail: not granted: --%s", f)
				}
			}
			return w.Create(c.Context, jail.CreateOptions{
				ID: id, Bundle: c.String("bundle"), Run: run, Detach: c.Bool("detach"),
				PidFile: c.String("pid-file"), ConsoleSocket: c.String("console-socket"), PidfdSocket: c.String("pidfd-socket"),
			})
		},
	}
}

// passCommand is a verb that the delegate answers. Flags are parsed, so that an
// unknown one is refused here, and handed on.
func passCommand(name, usage, args string, flags ...cli.Flag) *cli.Command {
	return &cli.Command{
		Name: name, Usage: usage, ArgsUsage: args, Flags: flags,
		Action: func(c *cli.Context) error {
			if name != "list" && c.NArg() == 0 {
				return fmt.Errorf("%q requires a container id (see `agentjail %s --help`)", name, name)
			}
			w, err := newWay(c)
			if err != nil {
				return err
			}
			out := []string{name}
			for _, f := range flags {
				n := f.Names()[0]
				if !c.IsSet(n) {
					continue
				}
				if _, isBool := f.(*cli.BoolFlag); isBool {
					if c.Bool(n) {
						out = append(out, "--"+n)
					}
					continue
				}
				out = append(out, "--"+n, c.String(n))
			}
			out = append(out, c.Args().Slice()...)
			switch name {
			case "list":
				return w.List(c.String("format"), c.Bool("quiet"))
			case "state":
				return w.State(c.Args().First())
			}
			return w.Pass(c.Args().First(), out)
		},
	}
}

func refusedCommand(name, why string) *cli.Command {
	return &cli.Command{
		Name: name, Usage: "refused: " + why, SkipFlagParsing: true,
		Action: func(c *cli.Context) error {
			for _, a := range c.Args().Slice() {
				if a == "--help" || a == "-h" {
					return cli.ShowSubcommandHelp(c)
				}
			}
			return errors.New(name + " is refused: " + why)
		},
	}
}
