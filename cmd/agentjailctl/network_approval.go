package main

import (
	"fmt"
	"os"
	"os/user"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"agentjail.dev/runtime/kernel/atomicfile"
	"agentjail.dev/runtime/lifecycle/jailnet"
	"agentjail.dev/runtime/spec/network"
)

// decideCommands are the commands that decide on a name that no rule has.
func decideCommands() []*cli.Command {
	flags := []cli.Flag{
		&cli.BoolFlag{Name: "once", Usage: "for one connection, within five minutes"},
		&cli.DurationFlag{Name: "for", Usage: "for a `TIME`, such as 30m or 8h; default: until the jail's end"},
	}
	const about = "For a jail whose policy has network.approval = \"prompt\", and for a name that no entry of\n" +
		"network.allow or network.deny has. The default port is 443. A connection that waits gets\n" +
		"the answer at once. The jail's journal and its receipt have each decision.\n"
	return []*cli.Command{
		{
			Name: "allow", Usage: "allow a name that no rule has, for one jail", ArgsUsage: "CONTAINER NAME[:PORT]", Flags: flags,
			Description: about + "Private addresses and those of the host stay refused, and no credential is set.",
			Action:      func(c *cli.Context) error { return decide(c, true) },
		},
		{
			Name: "deny", Usage: "deny a name that no rule has, for one jail", ArgsUsage: "CONTAINER NAME[:PORT]", Flags: flags,
			Description: about + "Connections that were allowed before end.",
			Action:      func(c *cli.Context) error { return decide(c, false) },
		},
		{
			Name: "pending", Usage: "list the connections of a jail that wait for an answer", ArgsUsage: "CONTAINER",
			Description: "With the command that answers each, and how long it goes on to wait.",
			Flags:       []cli.Flag{jsonFlag},
			Action:      pending,
		},
	}
}

func decide(c *cli.Context, allow bool) error {
	name, port, err := target(c.Args().Get(1))
	if err != nil {
		return asUsage(err)
	}
	v := network.Approval{Name: name, Port: port, Allow: allow, Once: c.Bool("once"), For: c.Duration("for")}
	switch {
	case v.Once && c.IsSet("for"):
		return usage("--once and --for exclude each other")
	case c.IsSet("for") && (v.For <= 0 || v.For > network.MaxFor):
		return usage("--for must be more than 0 and at most %s", network.MaxFor)
	}
	r, j, err := namedRuntime(c)
	if err != nil {
		return err
	}
	ended, err := r.Networks().Approve(j.Key, v, decider())
	if err != nil {
		return fmt.Errorf("%s: %w", j.ID, err)
	}
	_, err = fmt.Fprintln(c.App.Writer, decided(j.ID, v, ended))
	return err
}

// decided describes a decision that is in force.
func decided(id string, v network.Approval, ended int) string {
	verb := "denied"
	if v.Allow {
		verb = "allowed"
	}
	text := fmt.Sprintf("%s: %s %s %s", id, v.Target(), verb, v.Span())
	if ended > 0 {
		text += fmt.Sprintf("; %d connections ended", ended)
	}
	return text
}

// waitingJSON is what `network pending --json` prints.
type waitingJSON struct {
	Jail    string            `json:"jail"`
	Waiting []network.Waiting `json:"waiting"`
}

func pending(c *cli.Context) error {
	r, j, err := namedRuntime(c)
	if err != nil {
		return err
	}
	waiting, err := r.Networks().Waiting(j.Key)
	if err != nil {
		return fmt.Errorf("%s: %w", j.ID, err)
	}
	if c.Bool("json") {
		return printJSON(c, waitingJSON{j.ID, append([]network.Waiting{}, waiting...)})
	}
	for _, w := range waiting {
		fmt.Fprintf(c.App.Writer, "%s:%d waits %d s more: agentjail network allow %s %s:%d\n", w.Name, w.Port, w.Left, j.ID,
			w.Name, w.Port)
	}
	return nil
}

// maxLoginID bounds the text of a login's id, in bytes.
const maxLoginID = 32

// decider is the person who called this command: of the audit's login where the kernel knows it,
// which sudo(8) and su(1) keep, else the process's user.
func decider() jailnet.Decider {
	uid := uint32(os.Getuid())
	if text, err := atomicfile.Read("/proc/self/loginuid", maxLoginID); err == nil {
		if n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 32); err == nil && uint32(n) != ^uint32(0) {
			uid = uint32(n)
		}
	}
	name := "user " + strconv.Itoa(int(uid))
	if u, err := user.LookupId(strconv.Itoa(int(uid))); err == nil {
		name = fmt.Sprintf("%s (user %d)", u.Username, uid)
	}
	return jailnet.Decider{Text: name, UID: &uid}
}
