package main

import (
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"

	"agentjail.dev/runtime/inspect"
	"agentjail.dev/runtime/observe/journal"
	"agentjail.dev/runtime/spec/policy"
	"agentjail.dev/runtime/spec/traits"
	"agentjail.dev/runtime/state"
)

// lookInside has the guest's kernel of a jail in a sandbox checked from inside.
func lookInside(r *inspect.Result, store state.Store, j *state.Jail) {
	if traits.Of(j.Delegate).Sandbox == "" {
		return
	}
	rt, err := caller.Runtime()
	report := ""
	if err == nil {
		report, err = rt.Inside(&j.Brief, inspect.GuestPaths(store, j))
	}
	r.Inside(store, j, report, err)
}

func inspectCommand() *cli.Command {
	return &cli.Command{
		Name: "inspect", Usage: "check a running jail, as the kernel sees it, against its policy", ArgsUsage: "CONTAINER",
		Description: "CONTAINER is a name, an id or the unique beginning of one. Each protection holds, is BROKEN, or\nis missing where this host lacks it and policy does not require it. Exit status\n1 when anything is BROKEN, or when the jail is not running.",
		Flags:       []cli.Flag{jsonFlag},
		Action: func(c *cli.Context) error {
			// The jail's policy is in its record, and a broken policy file must not prevent an
			// inspection.
			store, j, err := theJail(c)
			if errors.Is(err, errEnded) {
				return asAnswer(err)
			} else if err != nil {
				if p, perr := policy.Load(c.String("config"), caller.PolicyName); perr == nil && p.Passthrough {
					return fmt.Errorf("passthrough: this policy hardens nothing, and its containers are no jails: %w", err)
				}
				return err
			}
			r, err := inspect.Jail(store, j)
			if errors.Is(err, inspect.ErrNotRunning) {
				return asAnswer(err)
			} else if err != nil {
				return err
			}
			lookInside(r, store, j)
			if j.Journal != "" {
				if err := journal.Of(&j.Brief).Log().Append(r.Events()...); err != nil {
					fmt.Fprintf(c.App.ErrWriter, "agentjail: the findings are not in the journal: %v\n", err)
				}
			}
			return answered(printResult(c, r, r.Text), r.Holds)
		},
	}
}
