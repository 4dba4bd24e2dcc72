package main

import (
	"github.com/urfave/cli/v2"

	"agentjail.dev/runtime/delegate"
)

// specCommand writes the delegate's example of a bundle's configuration. No container is made.
func specCommand() *cli.Command {
	return &cli.Command{
		Name: "spec", Category: verbsOfEngines, Usage: "write a new config.json, the delegate's", ArgsUsage: "[the delegate's options]",
		SkipFlagParsing: true,
		Action: func(c *cli.Context) error {
			r, err := caller.Runtime()
			if err != nil {
				return err
			}
			d, err := delegate.Choose(r.Policy.Delegate, r.Store.Root)
			if err != nil {
				return err
			}
			return d.Exec(append([]string{"spec"}, c.Args().Slice()...))
		},
	}
}
