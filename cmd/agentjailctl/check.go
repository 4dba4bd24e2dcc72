package main

import (
	"fmt"
	"os"

	"github.com/urfave/cli/v2"

	"agentjail.dev/runtime/inspect/check"
	"agentjail.dev/runtime/kernel/rootless"
)

func checkCommand() *cli.Command {
	return &cli.Command{
		Name: "check", Usage: "check whether this host supports each ring",
		Description: `Tries each feature. Prints whether jails can start, what is missing (no jail starts)
with the remedy, a line for each warning (jails start, with less than there could
be), and counts what is fine. Mistakes of the policy file are listed, also those
of other named policies. Leaves nothing behind.

Exit status 0 if a jail can start, 1 if not, 2 for a wrong command line, 125 for a
failure of agentjail's.`,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "verbose", Aliases: []string{"v"}, Usage: "print one line for each feature, also for what is fine, with the ring"}, jsonFlag,
		},
		Action: func(c *cli.Context) error {
			if os.Geteuid() != 0 && !rootless.Inside() {
				fmt.Fprintf(c.App.ErrWriter, "agentjail: no sandbox without root: %v\n", rootless.Enter())
				// Without Podman the result is that of the calling user.
				if _, err := rootless.Join(); err != nil {
					return err
				}
			}
			r := check.Run(check.Options{PolicyPath: c.String("config"), PolicyName: caller.PolicyName})
			text := r.Text
			if c.Bool("verbose") {
				text = r.Lines
			}
			return answered(printResult(c, r, text), r.CanStart)
		},
	}
}
