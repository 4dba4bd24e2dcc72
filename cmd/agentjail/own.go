package main

import (
	"fmt"
	"slices"

	"github.com/urfave/cli/v2"
)

// ownCommands are agentjail's own, beyond runc's.
func ownCommands() []*cli.Command {
	return []*cli.Command{sandboxCommand(), gcCommand(), checkCommand(), explainCommand(), inspectCommand(), seccompCommand(), installCommand(), uninstallCommand()}
}

// ownNames are their names. Each engine's call asks for them, which must not take the making of all commands.
var ownNames = []string{"sandbox", "gc", "check", "explain", "inspect", "seccomp", "install", "uninstall"}

// isOwn says whether a verb is agentjail's alone.
func isOwn(verb string) bool { return slices.Contains(ownNames, verb) }

func gcCommand() *cli.Command {
	return &cli.Command{
		Name: "gc", Usage: "reclaim what a crash left",
		Description: "Removes the state, host ids, mounts and control groups of jails whose\nprocesses are gone and which no engine will delete. Every create does the same\nfor a few jails.",
		Action: func(c *cli.Context) error {
			if err := usersJails(); err != nil {
				return err
			}
			w, err := newWay(c)
			if err != nil {
				return err
			}
			reaped, err := w.GC(c.Context, -1)
			for _, k := range reaped {
				fmt.Fprintf(c.App.Writer, "reclaimed %s\n", k)
			}
			return err
		},
	}
}
