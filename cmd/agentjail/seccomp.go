package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"agentjail.dev/seccomp"
)

func seccompCommand() *cli.Command {
	return &cli.Command{
		Name: "seccomp", Usage: "look at the system call filter",
		Subcommands: []*cli.Command{{
			Name: "show", Usage: "list a profile's system calls, each with its reason", ArgsUsage: "[PROFILE]",
			Description: "Profiles: " + strings.Join(seccomp.Profiles(), ", ") + ". What is not listed answers ENOSYS.",
			Flags: []cli.Flag{
				&cli.StringFlag{Name: "arch", Value: runtime.GOARCH, Usage: "amd64 or arm64"},
				&cli.BoolFlag{Name: "json", Usage: "as JSON"},
			},
			Action: showSeccomp,
		}},
	}
}

func showSeccomp(c *cli.Context) error {
	name := "default"
	if c.NArg() > 0 {
		name = c.Args().First()
	}
	entries, err := seccomp.Entries(name, c.String("arch"))
	if err != nil {
		return fmt.Errorf("%w (profiles: %s)", err, strings.Join(seccomp.Profiles(), ", "))
	}
	if c.Bool("json") {
		enc := json.NewEncoder(c.App.Writer)
		enc.SetIndent("", "  ")
		return enc.Encode(entries)
	}
	w := tabwriter.NewWriter(c.App.Writer, 0, 0, 2, ' ', 0)
	allowed := 0
	for _, e := range entries {
		how := "allowed"
		switch {
		case e.Errno != "":
			how = "refused, " + e.Errno
		case e.Rule != "":
			how = "if " + e.Rule
			allowed++
		default:
			allowed++
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", e.Name, e.Why, how)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.App.Writer, "%d system calls allowed; all others answer ENOSYS, other ABIs are killed\n", allowed)
	return err
}
