package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"

	"github.com/urfave/cli/v2"

	"agentjail.dev/runtime/inspect"
	"agentjail.dev/runtime/jail"
	"agentjail.dev/runtime/journal/sources"
	"agentjail.dev/runtime/network"
	"agentjail.dev/runtime/policy"
	"agentjail.dev/runtime/rootless"
	"agentjail.dev/runtime/state"
	"agentjail.dev/runtime/verbs"
	"agentjail.dev/runtime/why"
)

func whyCommand() *cli.Command {
	return &cli.Command{
		Name: "why", Usage: "say why something does not work in a jail, and what to write so that it does", ArgsUsage: "[CONTAINER] QUESTION",
		Description: `QUESTION is a system call (a name, a number, or with arguments), a path, a name of
the network, or the text of an error. The answer says what refuses it, by which
rule, the change that lets it through, and what that opens beside it.

   agentjail why ID 'socket(AF_VSOCK)'
   agentjail why ID /work/.git/hooks
   agentjail why ID pypi.org:443
   agentjail why ID "fork: Resource temporarily unavailable"

With --profile or --policy, and no CONTAINER, the answer is for a jail that the
policy would make: --profile NAME is one of [profiles.NAME] or a system call
profile, --policy FILE another policy file.

Exit status 0 where it passes, 1 where it is refused or depends, 2 where nothing is known of it.`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "profile", Usage: "a `NAME` of a profile, in place of a jail"},
			&cli.StringFlag{Name: "policy", Usage: "a policy `FILE`, in place of a jail"},
			&cli.StringFlag{Name: "arch", Value: runtime.GOARCH, Usage: "amd64 or arm64, of a policy's system calls"},
			jsonFlag,
		},
		Action: askWhy,
	}
}

func askWhy(c *cli.Context) error {
	args := c.Args().Slice()
	noJail := c.IsSet("profile") || c.IsSet("policy")
	switch {
	case noJail && len(args) != 1:
		return errors.New("why needs one question with --profile or --policy (see `agentjail why --help`)")
	case !noJail && len(args) != 2:
		return errors.New("why needs a container and one question, or --profile NAME and a question (see `agentjail why --help`)")
	}
	arch := runtime.GOARCH
	if noJail {
		arch = c.String("arch")
	}
	q, err := why.Ask(args[len(args)-1], arch)
	if err != nil {
		return err
	}
	var f *why.Facts
	if noJail {
		f, err = factsOfPolicy(c, arch)
	} else {
		f, err = factsOfJail(args[0], q, arch)
	}
	if err != nil {
		return err
	}
	a, err := f.Answer(q)
	if err != nil {
		return err
	}
	if !noJail {
		past(c, args[0], q, a)
	}
	if c.Bool("json") {
		err = printJSON(c, a)
	} else {
		err = a.Text(c.App.Writer)
	}
	switch {
	case err != nil || a.Verdict == why.Passes:
		return err
	case a.Verdict == why.Unknown:
		return &jail.ExitError{Code: 2}
	}
	return &jail.ExitError{Code: 1}
}

// past adds what the jail's journal has of the question. Without a journal, the answer is the rest.
func past(c *cli.Context, id string, q why.Question, a *why.Answer) {
	p, err := place(c)
	if err != nil {
		return
	}
	if j, err := p.Open(id); err == nil {
		a.Past(q, sources.Once(sources.Events(p.Store, j)))
	}
}

func factsOfJail(id string, q why.Question, arch string) (*why.Facts, error) {
	if err := rootless.MustJoin(); err != nil {
		return nil, err
	}
	store, err := state.Default()
	if err != nil {
		return nil, err
	}
	j, err := inspect.Find(store, id)
	if err != nil {
		return nil, err
	}
	return inspect.Why(store, j, q, arch)
}

// factsOfPolicy is a policy's, for a profile of the file or of the system call filter.
func factsOfPolicy(c *cli.Context, arch string) (*why.Facts, error) {
	path, name := c.String("policy"), c.String("profile")
	if path == "" {
		path = c.String("config")
	}
	if name == "" {
		name = verbs.Profile(os.Args[0])
	}
	p, err := policy.Load(path, name)
	if err != nil && name != "" {
		// Not one of the file's: one of the filter's.
		plain, perr := policy.Load(path, "")
		if perr != nil || !strings.Contains(err.Error(), "profile") {
			return nil, err
		}
		plain.Seccomp.Profile = name
		if verr := plain.Validate(); verr != nil {
			return nil, fmt.Errorf("--profile %s: neither a profile of %s nor one of the system call filter: %w", name, path, verr)
		}
		p = plain
	} else if err != nil {
		return nil, err
	}
	return inspect.PolicyWhy(&p, network.Decision{}, arch)
}
