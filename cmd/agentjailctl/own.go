package main

import (
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"

	"agentjail.dev/runtime/kernel/printable"
	"agentjail.dev/runtime/kernel/rootless"
	"agentjail.dev/runtime/workspace"
	"agentjail.dev/runtime/workspace/apply"
)

// ownCommands are agentjail's own, beyond runc's.
func ownCommands() []*cli.Command {
	return []*cli.Command{
		sandboxCommand(), workspaceCommand(), homeCommand(), gitCommand(), lsCommand(), watchCommand(), deniedCommand(),
		journalCommand(), gcCommand(),
		checkCommand(), explainCommand(), inspectCommand(), whyCommand(), learnCommand(), networkCommand(), diffCommand(),
		exportCommand(),
		receiptCommand(), policyCommand(), seccompCommand(), installCommand(), uninstallCommand(), completionCommand(),
	}
}

func gcCommand() *cli.Command {
	return &cli.Command{
		Name: "gc", Usage: "reclaim what a crash left", ArgsUsage: "[CONTAINER...]",
		Description: "Removes the state, host ids, mounts and control groups of jails whose\nprocesses are gone and which no engine will delete. Every create does the same\nfor a few jails. Of the journals of jails that were deleted, the newest stay (policy:\njournal.keep); views beyond policy's bounds are reported. With ids, only those\njails are looked at.",
		Flags:       []cli.Flag{&cli.BoolFlag{Name: "inner", Hidden: true, Usage: "also end what is left in the user namespace of a sandbox without root"}},
		Action: func(c *cli.Context) error {
			if c.Bool("inner") {
				if err := rootless.EndInner(); err != nil {
					return err
				}
			}
			if err := gcAsUser(c.Args().Slice()); err != nil {
				return err
			}
			r, err := caller.Runtime()
			if err != nil {
				return err
			}
			reclaim := func() ([]string, error) { return r.GC(c.Context) }
			if ids := c.Args().Slice(); len(ids) > 0 {
				reclaim = func() ([]string, error) { return r.GCOf(ids) }
			}
			reaped, err := reclaim()
			lines, applyErr := apply.RecoverAll(c.Context, workspace.Of(r.Store))
			for _, line := range lines {
				fmt.Fprintln(c.App.Writer, printable.Line(line, 0))
			}
			err = errors.Join(err, applyErr)
			for _, k := range reaped {
				fmt.Fprintf(c.App.Writer, "reclaimed %s\n", k)
			}
			if c.NArg() > 0 && len(reaped) == 0 && err == nil {
				fmt.Fprintln(c.App.ErrWriter, "agentjail: a crash left nothing of these (agentjail ls --running)")
			}
			err = errors.Join(err, pruneJournals(c))
			if c.NArg() == 0 {
				err = errors.Join(err, reportViews(c, workspace.Of(r.Store)))
				noteHomes(c.App.Writer)
			}
			return err
		},
	}
}
