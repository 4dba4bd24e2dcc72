package main

import (
	"fmt"
	"io"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"agentjail.dev/runtime/install"
)

// shimName is the file name of agentjail's containerd shim.
const shimName = "containerd-shim-agentjail-v2"

func containerdCommand(usage string, register bool) *cli.Command {
	flags := []cli.Flag{
		&cli.BoolFlag{Name: "dry-run", Usage: "print what would change, and change nothing"},
		&cli.StringSliceFlag{Name: "name", Usage: "name of the handler; agentjail-NAME uses [profiles.NAME] of the policy", Value: cli.NewStringSlice(install.DefaultName, install.DefaultName+"-net")},
		&cli.StringFlag{Name: "path", Usage: "the agentjail `PROGRAM` (default: this one); agentjail-NAME and the shim are looked for beside it"},
		&cli.StringFlag{Name: "daemon-config", Usage: "containerd's configuration `FILE`", Value: install.DefaultContainerdConfig},
		&cli.StringFlag{Name: "drop-in", Usage: "the `FILE` to write where containerd reads its directory by itself (2.2)", Value: install.DefaultContainerdDropIn},
		&cli.StringFlag{Name: "program", Usage: "containerd's `PROGRAM`, asked what it makes of its configuration"},
		&cli.BoolFlag{Name: "force", Usage: "also change a handler of that name that leads elsewhere"},
	}
	return &cli.Command{
		Name: "containerd", Usage: usage, Flags: flags,
		Description: `Edits the configuration of containerd's CRI plugin, for Kubernetes' RuntimeClass:
agentjail has an empty network, agentjail-net the pod's. Everything else in the
file stays, and a backup beside it; a second run changes nothing. containerd reads
its configuration when it starts: restart it, pods go on meanwhile.`,
		Action: func(c *cli.Context) error {
			o, err := containerdOptions(c, register)
			if err != nil {
				return err
			}
			var plans []*install.ContainerdPlan
			if register {
				p, err := install.Containerd(o)
				if err != nil {
					return err
				}
				plans = append(plans, p)
			} else if plans, err = install.UndoContainerd(o); err != nil {
				return err
			}
			if register && !c.Bool("dry-run") {
				if err := loadProfile(c); err != nil {
					return err
				}
			}
			for _, p := range plans {
				if err := applyContainerd(c, p); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

func containerdOptions(c *cli.Context, register bool) (install.ContainerdOptions, error) {
	o := install.ContainerdOptions{Config: c.String("daemon-config"), DropIn: c.String("drop-in"), Program: c.String("program"), Force: c.Bool("force")}
	var err error
	if o.Runtimes, _, err = namedRuntimes(c, register); err == nil && len(o.Runtimes) > 0 {
		o.Shim = filepath.Join(filepath.Dir(o.Runtimes[0].Path), shimName)
	}
	return o, err
}

func applyContainerd(c *cli.Context, p *install.ContainerdPlan) error {
	out := c.App.Writer
	if p.Note != "" {
		fmt.Fprintln(c.App.ErrWriter, p.Note)
	}
	if !p.Changed() {
		fmt.Fprintf(out, "%s: nothing to change\n", p.File)
		return nil
	}
	if c.Bool("dry-run") {
		_, err := io.WriteString(out, p.Diff)
		return err
	}
	backup, err := p.Apply()
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s: changed", p.File)
	if backup != "" {
		fmt.Fprintf(out, " (before: %s)", backup)
	}
	fmt.Fprintln(out, "\ncontainerd reads it when it starts: systemctl restart containerd")
	return nil
}
