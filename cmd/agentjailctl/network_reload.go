package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"agentjail.dev/runtime/kernel/rootless"
	"agentjail.dev/runtime/lifecycle"
	"agentjail.dev/runtime/network/modes"
	"agentjail.dev/runtime/state"
)

func networkReloadCommand() *cli.Command {
	return &cli.Command{
		Name: "reload", Usage: "read the policy again, and put its rules for the network in force in running jails", ArgsUsage: "[CONTAINER]",
		Description: `Reads the policy's network.allow and network.deny again, as for a new jail like this
one: of the same file and policy, with the container's annotation, or with the
list of sandbox --allow. Names that are no longer allowed are not resolved any
more, and connections whose rule was removed are closed; others continue. Other settings
that have changed in the policy are listed, and apply to new jails alone.`,
		Flags:  []cli.Flag{&cli.BoolFlag{Name: "all", Usage: "of every running jail with a network by name"}},
		Action: networkReload,
	}
}

func networkRestartCommand() *cli.Command {
	return &cli.Command{
		Name: "restart", Usage: "restart the helper of a jail's network if it has exited", ArgsUsage: "CONTAINER",
		Description: "`agentjail inspect` reports the helper of such a jail as BROKEN: the jail reaches nothing.\nExact names of its rules keep their addresses. Without --force a running\nhelper is left alone.",
		Flags:       []cli.Flag{&cli.BoolFlag{Name: "force", Usage: "end a helper that runs, and with it the jail's connections"}},
		Action: func(c *cli.Context) error {
			r, j, err := namedRuntime(c)
			if err != nil {
				return err
			}
			if err := r.Networks().Restart(j.Key, c.Bool("force")); err != nil {
				return fmt.Errorf("%s: %w", j.ID, err)
			}
			return nil
		},
	}
}

// existingRuntime returns a runtime for existing jails, without a policy: a jail's is in its
// record.
func existingRuntime() (*lifecycle.Runtime, error) {
	store, err := state.Default()
	return &lifecycle.Runtime{Store: store, Log: caller.Log}, err
}

// namedRuntime is namedJail with the runtime for that jail.
func namedRuntime(c *cli.Context) (*lifecycle.Runtime, *state.Jail, error) {
	_, j, err := namedJail(c)
	if err == nil {
		err = checkInvoker(&j.Brief)
	}
	if err != nil {
		return nil, nil, err
	}
	r, err := existingRuntime()
	return r, j, err
}

func networkReload(c *cli.Context) error {
	if c.Bool("all") == (c.NArg() > 0) {
		return usage("reload takes a CONTAINER or --all")
	}
	if !c.Bool("all") {
		r, j, err := namedRuntime(c)
		if err != nil {
			return err
		}
		return reloadOne(c, r, &j.Brief)
	}
	if err := rootless.MustJoin(); err != nil {
		return err
	}
	r, err := existingRuntime()
	if err != nil {
		return err
	}
	keys, err := r.Store.Keys()
	if err != nil {
		return err
	}
	var errs []error
	for _, key := range keys {
		j, err := r.Store.Brief(key)
		if err != nil || !j.InitAlive() {
			continue // being made or removed, or it has ended
		}
		if m, err := modes.Named(j.Network.Mode); err != nil || !m.Terms(j.Network).ByRules {
			continue
		}
		if err = checkInvoker(j); err == nil {
			err = reloadOne(c, r, j)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// reloadOne reads one jail's rules again, and prints the result.
func reloadOne(c *cli.Context, rt *lifecycle.Runtime, j *state.Brief) error {
	r, err := rt.Networks().Reload(j.Key)
	if err != nil {
		return fmt.Errorf("%s: %w", j.ID, err)
	}
	fmt.Fprintf(c.App.Writer, "%s: %d entries in force, %d connections ended\n", j.ID, r.Entries, r.Ended)
	if len(r.Unserved) > 0 {
		fmt.Fprintf(c.App.Writer, "%s: the helper does not listen at ports %v: the jail has to be started anew for them\n", j.ID, r.Unserved)
	}
	if len(r.Others) > 0 {
		fmt.Fprintf(c.App.Writer, "%s: changed in the policy as well, for new jails alone: %s\n", j.ID, strings.Join(r.Others, ", "))
	}
	return nil
}
