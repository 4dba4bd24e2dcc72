package main

import (
	"bytes"
	"encoding/json"
	"os"

	"github.com/urfave/cli/v2"

	"agentjail.dev/runtime/inspect/check"
	"agentjail.dev/runtime/kernel/printable"
	"agentjail.dev/runtime/kernel/rootless"
	"agentjail.dev/runtime/lifecycle"
	"agentjail.dev/runtime/runccli"
)

func checkCommand() *cli.Command {
	return &cli.Command{
		Name: "check", Usage: "check whether this host supports each ring",
		Description: "One line for each feature, found by trying it: ok, warning (jails start, with\nless than there could be) or missing (no jail starts), the ring, what was found,\nand what can be done. Exit status 0 when a jail can start. Leaves nothing behind.",
		Flags:       []cli.Flag{jsonFlag},
		Action: func(c *cli.Context) error {
			if err := noArguments(c); err != nil {
				return err
			}
			// Without Podman the result is that of the calling user.
			if _, err := rootless.Join(); err != nil {
				return err
			}
			r := check.Run(check.Options{PolicyPath: c.String("config"), PolicyName: runccli.PolicyName(os.Args[0])})
			var err error
			if c.Bool("json") {
				err = printJSON(c, r)
			} else {
				err = r.Text(c.App.Writer)
			}
			if err == nil && !r.CanStart {
				err = &lifecycle.ExitError{Code: 1}
			}
			return err
		},
	}
}

// jsonFlag is the flag of every command with output for programs.
var jsonFlag = &cli.BoolFlag{Name: "json", Usage: "print JSON"}

// printJSON prints a value as JSON. A jail may have chosen names in it.
func printJSON(c *cli.Context, v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	_, err := c.App.Writer.Write(printable.JSON(b.Bytes()))
	return err
}

func noArguments(c *cli.Context) error {
	if c.NArg() > 0 {
		return usage("%q takes no argument (see `agentjail %s --help`)", c.Command.Name, c.Command.Name)
	}
	return nil
}
