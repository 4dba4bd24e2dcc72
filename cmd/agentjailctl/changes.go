package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"agentjail.dev/runtime/kernel/printable"
	"agentjail.dev/runtime/rootfs/changes"
	"agentjail.dev/runtime/spec/exported"
	"agentjail.dev/runtime/state"
)

func diffCommand() *cli.Command {
	return &cli.Command{
		Name: "diff", Usage: "list what a running jail has changed of its image", ArgsUsage: "CONTAINER",
		Description: "CONTAINER is an id or the unique beginning of one. A is added, C changed, D deleted,\nas `docker diff` has it, which itself lists every file of a jail's image.",
		Flags:       []cli.Flag{jsonFlag},
		Action: func(c *cli.Context) error {
			store, j, err := theJail(c)
			if err == nil {
				err = checkInvoker(&j.Brief)
			}
			if err != nil {
				return err
			}
			list, err := changes.OfJail(c.Context, store, j)
			if err != nil {
				return err
			}
			if c.Bool("json") {
				return printJSON(c, map[string]any{"changes": append([]changes.Change{}, list...)})
			}
			for _, change := range list {
				if _, err := fmt.Fprintln(c.App.Writer, change); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

func exportCommand() *cli.Command {
	return &cli.Command{
		Name: "export", Usage: "write a running jail's file tree to standard output, as a tar archive with its own owners", ArgsUsage: "CONTAINER [DIR]",
		Description: "CONTAINER is an id or the unique beginning of one. Mounts are not in the archive.\n\n   agentjail export CONTAINER | docker import - IMAGE\n\nWith --bundle the hardened configuration is written to the new directory DIR instead, for another runtime or to be\nread. Protections that a container of it lacks are listed on standard error.",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "bundle", Usage: "write the hardened bundle to the new directory DIR"},
			&cli.StringFlag{Name: "for", Usage: "adapt the bundle to `PROGRAM`: " +
				strings.Join(slices.Sorted(maps.Keys(exported.Targets)), ", ")},
		},
		Action: func(c *cli.Context) error {
			if c.Bool("bundle") {
				return exportBundle(c)
			}
			if c.IsSet("for") {
				return usage("--for goes with --bundle")
			}
			_, j, err := theJail(c)
			if err == nil {
				err = checkInvoker(&j.Brief)
			}
			if err != nil {
				return err
			}
			w, err := caller.Runtime()
			if err != nil {
				return err
			}
			if out, ok := c.App.Writer.(*os.File); ok && j.EngineRoot != "" && isTerminal(out) {
				return errors.New("the archive is not written to a terminal (remedy: `agentjail export ID > FILE`)")
			}
			return changes.ExportJail(c.Context, c.App.Writer, j, func(path, why string) {
				w.Log.Warnf("agentjail: left out: /%s: %s", printable.Line(path, 0), why)
			})
		},
	}
}

// theJail returns the jail that the call names.
func theJail(c *cli.Context) (state.Store, *state.Jail, error) {
	id, err := oneID(c)
	if err != nil {
		return state.Store{}, nil, err
	}
	return existingJail(c, id)
}
