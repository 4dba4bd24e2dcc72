package main

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"agentjail.dev/runtime/inspect"
	"agentjail.dev/runtime/kernel/invoker"
	"agentjail.dev/runtime/kernel/printable"
	"agentjail.dev/runtime/observe/journal"
	"agentjail.dev/runtime/observe/journal/sources"
	"agentjail.dev/runtime/observe/why"
	"agentjail.dev/runtime/spec/network"
	"agentjail.dev/runtime/spec/policy"
)

func whyCommand() *cli.Command {
	return &cli.Command{
		Name: "why", Usage: "explain why something does not work in a jail, and which setting would allow it", ArgsUsage: "[CONTAINER] QUESTION",
		Description: `QUESTION is a system call (a name, a number, or with arguments), a path, a name of
the network, or the text of an error. The answer names the protection and the rule
that refuse it, the change that allows it, and what else that change allows.

   agentjail why ID 'socket(AF_VSOCK)'
   agentjail why ID /work/.git/hooks
   agentjail why ID pypi.org:443
   agentjail why ID "fork: Resource temporarily unavailable"

CONTAINER is a name, an id or the beginning of one, or ID@TIME, also of a jail that
has ended. With --policy, --seccomp-profile or --config, and no CONTAINER, the answer is for
a jail that a policy would make: --policy NAME is one of [policies.NAME],
--seccomp-profile NAME a profile of system calls, --config FILE another file.

Exit status 0 if it passes, 1 if it is refused or depends, and where nothing is
known of it; --json has which, as "verdict".`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "policy", Usage: "`NAME` of a policy, in place of a jail"},
			&cli.StringFlag{Name: "seccomp-profile", Usage: "`NAME` of a profile of system calls, in place of a jail"},
			&cli.StringFlag{Name: "config", Usage: "policy `FILE`, in place of a jail"},
			&cli.StringFlag{Name: "profile", Hidden: true},
			&cli.StringFlag{
				Name: "arch", Value: runtime.GOARCH, Usage: "`ARCH`, amd64 or arm64, of a policy's system calls",
				Action: knownArch,
			},
			jsonFlag,
		},
		Action: printWhy,
	}
}

// printWhy prints the answer; the exit status is the verdict.
func printWhy(c *cli.Context) error {
	a, err := answer(c)
	if err != nil {
		return err
	}
	return answered(printResult(c, a, a.Text), a.Verdict == why.Passes)
}

// answer returns the answer to a command line's question.
func answer(c *cli.Context) (*why.Answer, error) {
	args := c.Args().Slice()
	if err := renamedOptions(c); err != nil {
		return nil, err
	}
	if c.IsSet("config") {
		if err := invoker.MayRead(c.String("config")); err != nil {
			return nil, fmt.Errorf("--config: %w", err)
		}
	}
	noJail := c.IsSet("policy") || c.IsSet("seccomp-profile") || c.IsSet("config")
	switch {
	case noJail && len(args) != 1:
		return nil, usage("why needs one question with --policy, --seccomp-profile or --config (see `agentjail why --help`)")
	case !noJail && len(args) != 2:
		return nil, usage("why needs a container and one question, or --policy NAME and a question (see `agentjail why --help`)")
	}
	arch := runtime.GOARCH
	if noJail {
		arch = c.String("arch")
	}
	q, err := why.ParseQuestion(args[len(args)-1], arch)
	if err != nil {
		return nil, asUsage(err)
	}
	if noJail {
		f, err := factsOfPolicy(c, arch)
		if err != nil {
			return nil, err
		}
		return f.Answer(q)
	}
	p, j, record, err := openJail(c, args[0])
	if err != nil {
		return nil, err
	}
	// Without a journal, the answer is the rest.
	events := sources.Once(sources.Events(p.Store, j))
	var f *why.Facts
	if record != nil {
		f, err = inspect.Why(p.Store, record, q, arch)
	} else {
		f, err = factsOfEnded(c, j, events, arch)
	}
	if err != nil {
		return nil, err
	}
	a, err := f.Answer(q)
	if err == nil {
		a.Past(q, events)
	}
	return a, err
}

// factsOfEnded returns what is known of a jail that has ended: its journal, and the policy of its
// name as it is now, in place of the jail's own.
func factsOfEnded(c *cli.Context, j *journal.Jail, events []journal.Event, arch string) (*why.Facts, error) {
	s, err := j.Summary()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", j.ID, err)
	}
	p, err := policy.Load(configFile(c), s.PolicyName)
	if err != nil {
		return nil, fmt.Errorf("%s has ended, and its policy cannot be read: %w", j.ID, err)
	}
	if s.Seccomp != "" {
		p.Seccomp.Profile = s.Seccomp
	}
	if len(s.Allow) > 0 {
		if err := p.OwnersNames(s.Allow); err != nil {
			return nil, fmt.Errorf("%s: the names that its call listed: %w", j.ID, err)
		}
	}
	f, err := inspect.PolicyWhy(&p, network.Decision{Mode: s.Network, Namespace: network.Own}, arch)
	if err != nil {
		return nil, err
	}
	f.ID, f.Ended, f.Signs = j.ID, true, slices.Concat(why.PastSigns(events), inspect.SentrySigns(s.Delegate), f.Signs)
	return f, nil
}

// renamedOptions refuses the options that earlier texts have, and a file in the place of a name.
func renamedOptions(c *cli.Context) error {
	if c.IsSet("profile") {
		return usage("--profile is --policy NAME for a policy, and --seccomp-profile NAME for a profile of system calls")
	}
	if name := c.String("policy"); strings.ContainsAny(name, "/.") {
		return usage("--policy takes the name of a policy, and %s is a file: --config %s", printable.Line(name, 256), printable.Line(name, 256))
	}
	return nil
}

// factsOfPolicy returns the facts of a named policy, or of a profile of system calls.
func factsOfPolicy(c *cli.Context, arch string) (*why.Facts, error) {
	p, err := policy.Load(configFile(c), cmp.Or(c.String("policy"), caller.PolicyName))
	if err != nil {
		return nil, err
	}
	if profile := c.String("seccomp-profile"); profile != "" {
		p.Seccomp.Profile = profile
		if err := p.Validate(); err != nil {
			return nil, usage("--seccomp-profile: %w", err)
		}
	}
	return inspect.PolicyWhy(&p, network.Decision{}, arch)
}
