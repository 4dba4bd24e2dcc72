package main

import (
	"fmt"
	"io"

	"github.com/urfave/cli/v2"

	"agentjail.dev/runtime/install"
)

func podmanCommand(name, usage string, plan func(install.PodmanOptions) (*install.PodmanPlan, error), register bool) *cli.Command {
	flags := append(runtimeFlags(),
		&cli.StringFlag{Name: "drop-in", Usage: "the `FILE` of Podman's configuration that is agentjail's", Value: install.DefaultPodmanConfig},
	)
	if register {
		flags = append(flags,
			&cli.BoolFlag{Name: "default", Usage: "make it Podman's default runtime, also of users: every container becomes a jail"},
			&cli.BoolFlag{Name: "force", Usage: "replace a runtime of that name that leads elsewhere, and another default runtime"})
	}
	return &cli.Command{
		Name: name, Usage: usage, Flags: flags,
		Description: `Writes or removes a file of its own among the drop-ins of containers.conf(5),
which each call of Podman reads, by root and by users. A second run changes
nothing.`,
		Action: func(c *cli.Context) error {
			o := install.PodmanOptions{Config: c.String("drop-in"), Force: c.Bool("force")}
			var err error
			if o.Runtimes, o.Default, err = namedRuntimes(c, register); err != nil {
				return err
			}
			p, err := plan(o)
			if err != nil {
				return err
			}
			out := c.App.Writer
			if !p.Changed() {
				fmt.Fprintf(out, "%s: nothing to change\n", p.File)
			}
			if c.Bool("dry-run") {
				_, err := io.WriteString(out, p.Diff)
				return err
			}
			if register {
				if err := loadProfile(c); err != nil {
					return err
				}
			}
			if err := p.Apply(); err != nil {
				return err
			}
			switch {
			case p.Remove:
				fmt.Fprintf(out, "%s: removed\n", p.File)
			case p.Changed():
				fmt.Fprintf(out, "%s: written\n", p.File)
			}
			return nil
		},
	}
}
