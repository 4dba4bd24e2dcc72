package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"agentjail.dev/runtime/kernel/printable"
	"agentjail.dev/runtime/network/modes"
	"agentjail.dev/runtime/network/names/decisions"
	"agentjail.dev/runtime/observe/journal"
	"agentjail.dev/runtime/spec/netrules"
	"agentjail.dev/runtime/spec/netrules/publicsuffix"
	"agentjail.dev/runtime/state"
)

func networkCommand() *cli.Command {
	return &cli.Command{
		Name: "network", Usage: "check a jail's network by name, and change its rules",
		Subcommands: append([]*cli.Command{
			{
				Name: "check", Usage: "check whether a jail may connect to a name, and by which rule", ArgsUsage: "CONTAINER NAME[:PORT]",
				Description: "The default port is 443. Exit status 1 if the jail may not connect. No name server is\nqueried: the addresses of the name are checked when the jail connects.",
				Action:      networkCheck,
			},
			{
				Name: "log", Usage: "print what a jail's network has decided, also of one that ended", ArgsUsage: "CONTAINER",
				Flags: []cli.Flag{
					&cli.BoolFlag{Name: "follow", Aliases: []string{"f"}, Usage: "go on until the jail is deleted"},
					&cli.BoolFlag{Name: "json", Usage: "print JSON, one event a line"},
				},
				Action: networkLog,
			},
			networkReloadCommand(), networkRestartCommand(),
		}, decideCommands()...),
	}
}

// namedJail returns the jail that a call's CONTAINER names, whose network is by name.
func namedJail(c *cli.Context) (state.Store, *state.Jail, error) {
	store, j, err := existingJail(c, c.Args().First())
	if err != nil {
		return store, nil, err
	}
	mode, err := modes.Named(j.Network.Mode)
	if err != nil {
		return store, nil, err
	}
	switch t := mode.Terms(j.Network); {
	case t.Resolver == "":
		return store, nil, fmt.Errorf("%s: its network is not by name, but %q (policy: network.mode)", j.ID, j.Network.Mode)
	case !t.ByRules:
		return store, nil, fmt.Errorf("%s: it is in the network of another jail, whose rules hold (remedy: name that jail)", j.ID)
	}
	return store, j, nil
}

func networkCheck(c *cli.Context) error {
	name, port, err := target(c.Args().Get(1))
	if err != nil {
		return asUsage(err)
	}
	_, j, err := namedJail(c)
	if err != nil {
		return err
	}
	set, err := j.Policy.Network.Rules()
	if err != nil {
		return err
	}
	v := set.Match(name, port)
	if v.OK {
		_, err := fmt.Fprintf(c.App.Writer, "allowed: %s port %d, by %q\n", name, port, v.Rule.Source())
		if w := publicsuffix.Warning(v.Rule); err == nil && w != "" {
			_, err = fmt.Fprintln(c.App.Writer, "warning:", w)
		}
		return err
	}
	fmt.Fprintf(c.App.Writer, "refused: %s port %d: %s", name, port, v.Reason)
	if v.Remedy != "" {
		fmt.Fprintf(c.App.Writer, " (remedy: in the policy, %s)", v.Remedy)
	}
	fmt.Fprintln(c.App.Writer)
	return no()
}

// target reads NAME[:PORT].
func target(text string) (string, uint16, error) {
	name, port := text, uint64(443)
	if n, p, err := net.SplitHostPort(text); err == nil {
		name = n
		if port, err = strconv.ParseUint(p, 10, 16); err != nil || port == 0 {
			return "", 0, fmt.Errorf("%q is not NAME[:PORT]", text)
		}
	}
	name, err := netrules.Canonical(name)
	return name, uint16(port), err
}

// followEvery is how often a followed log is read.
const followEvery = 200 * time.Millisecond

// networkLogOf opens the log of the jail that a call names; exists reports whether the jail exists.
// Of a jail that has ended, the journal keeps the log.
func networkLogOf(c *cli.Context) (r *decisions.Reader, exists func() bool, err error) {
	_, ended, record, err := openJail(c, c.Args().First())
	if err != nil {
		return nil, nil, err
	}
	if record == nil {
		r, err := decisions.NewReader(journal.KeptDir(ended.Path))
		if errors.Is(err, os.ErrNotExist) {
			s, _ := ended.Summary()
			err = fmt.Errorf("%s has ended, and its network decided nothing (network.mode = %q)", ended.ID, printable.Line(s.Network, 64))
		}
		return r, func() bool { return false }, err
	}
	store, j, err := namedJail(c)
	if err != nil {
		return nil, nil, err
	}
	r, err = decisions.NewReader(store.Dir(j.Key))
	if errors.Is(err, os.ErrNotExist) {
		err = fmt.Errorf("%s: no helper has been started for it yet", j.ID)
	}
	return r, func() bool { return store.Exists(j.Key) }, err
}

func networkLog(c *cli.Context) error {
	r, exists, err := networkLogOf(c)
	if err != nil {
		return err
	}
	defer r.Close()
	for {
		going := c.Bool("follow") && exists() // before the last look
		events, err := r.Next()
		if err != nil {
			return fmt.Errorf("the log of %s: %w", c.Args().First(), err)
		}
		for _, e := range events {
			if err := printEvent(c, e); err != nil {
				return err
			}
		}
		if !going {
			return nil
		}
		select {
		case <-c.Context.Done():
			return nil
		case <-time.After(followEvery):
		}
	}
}

// printEvent prints one event. The jail can influence the names in it.
func printEvent(c *cli.Context, e decisions.Event) error {
	if c.Bool("json") {
		out, err := encoded(networkEventForm, e)
		if err == nil {
			_, err = fmt.Fprintf(c.App.Writer, "%s\n", out)
		}
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s %-7s %-7s %s", e.Time, e.Verdict, e.What, e.Name)
	if e.Port != 0 {
		fmt.Fprintf(&b, ":%d", e.Port)
	}
	to := "to"
	if e.What == decisions.Publish {
		to = "from"
	}
	b.WriteString(printable.Labelled("by", e.Rule, to, e.Address, "with", e.Credential, "because", e.Reason, "remedy:", e.Remedy))
	if e.What == decisions.End {
		fmt.Fprintf(&b, " sent %d got %d bytes in %d ms", e.Sent, e.Got, e.Millis)
	}
	if e.Dropped > 0 {
		fmt.Fprintf(&b, " (%d before it were too many)", e.Dropped)
	}
	_, err := fmt.Fprintln(c.App.Writer, printable.Line(b.String(), 0))
	return err
}
