package runccli

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/lifecycle"
)

func exec() Verb {
	return Verb{
		Name: "exec", Foreign: true, Usage: "run a further process in a jail, hardened like the first",
		Args:        "CONTAINER [COMMAND [ARG...]]",
		Description: "The process gets the jail's ids, filters, limits and Landlock domain, and no capability.\nExit status: the command's own; 255 when it could not be started.",
		Flags: []Flag{
			{Name: "process", Short: "p", Usage: "read the process as JSON (OCI runtime-spec, process) from `FILE`, instead of COMMAND"},
			{Name: "detach", Short: "d", Kind: Switch, Usage: "return once it runs, without waiting for its end"},
			{Name: "pid-file", Usage: "write the process's id to `FILE`"},
			{Name: "console-socket", Usage: "`SOCKET` (AF_UNIX) that receives the terminal's descriptor"},
			{Name: "pidfd-socket", Usage: "`SOCKET` (AF_UNIX) that receives a pidfd of the process"},
			{Name: "cwd", Usage: "working `DIRECTORY` in the jail (default: the jail's own)"},
			{Name: "env", Short: "e", Kind: List, Usage: "set an environment variable, as `NAME=VALUE`"},
			{Name: "tty", Short: "t", Kind: Switch, Usage: "allocate a terminal for the process"},
			{Name: "user", Short: "u", Usage: "`UID[:GID]` in the jail, numbers of the jail's (default: the jail's own)"},
			{Name: "additional-gids", Short: "g", Kind: List, Usage: "supplementary group `GID`, a number"},
			{Name: "process-label", Usage: "denied: the label is the jail's"},
			{Name: "apparmor", Usage: "denied: the profile is the jail's"},
			{Name: "no-new-privs", Kind: Switch, Usage: "accepted and ignored: always set"},
			{Name: "cap", Short: "c", Kind: List, Usage: "denied: a jail has no capability"},
			{Name: "preserve-fds", Usage: "denied: passes `N` descriptors of the host into the jail"},
			{Name: "cgroup", Usage: "refused: a jail's processes share its limits"},
			{Name: "ignore-paused", Kind: Switch, Usage: "start it even if the jail is paused; it runs once the jail is resumed"},
		},
		Run: func(c *Call) error {
			err := runExec(c)
			if _, ended := errors.AsType[*lifecycle.ExitError](err); err != nil && !ended {
				// Callers use this status to distinguish a failed exec from a program that failed.
				err = &lifecycle.StatusError{Code: execFailed, Err: err}
			}
			return err
		},
	}
}

// execFailed is runc's exit status for an exec that failed.
const execFailed = 255

func runExec(c *Call) error {
	r, err := c.existing()
	if err != nil {
		return err
	}
	for _, option := range c.denied("process-label", "apparmor", "cap", "preserve-fds") {
		c.Log.Warnf("agentjail: denied: exec %s", option)
	}
	at, err := c.paths("process", "pid-file", "console-socket", "pidfd-socket")
	if err != nil {
		return err
	}
	o := lifecycle.ExecOptions{
		ID: c.Args[0], ProcessFile: at["process"], Detach: c.Bool("detach"), PidFile: at["pid-file"],
		ConsoleSocket: at["console-socket"], PidfdSocket: at["pidfd-socket"], Cgroup: c.String("cgroup"),
		IgnorePaused: c.Bool("ignore-paused"),
	}
	if o.ProcessFile == "" {
		if len(c.Args) < 2 {
			return errors.New("\"exec\" requires a command, or --process FILE")
		}
		if o.Change, err = processFromFlags(c); err != nil {
			return err
		}
	}
	return r.Exec(o)
}

// processFromFlags changes the jail's own process by runc's flags.
func processFromFlags(c *Call) (func(*specs.Process), error) {
	id := func(flag, s string) (uint32, error) {
		n, err := strconv.ParseUint(s, 10, 32)
		if err != nil {
			return 0, fmt.Errorf("--%s %q: parsing the id: %w", flag, s, err)
		}
		return uint32(n), nil
	}
	var uid, gid *uint32
	if u := c.String("user"); u != "" {
		us, gs, both := strings.Cut(u, ":")
		n, err := id("user", us)
		if err != nil {
			return nil, err
		}
		uid = &n
		if both {
			m, err := id("user", gs)
			if err != nil {
				return nil, err
			}
			gid = &m
		}
	}
	var groups []uint32
	for _, g := range c.StringSlice("additional-gids") {
		n, err := id("additional-gids", g)
		if err != nil {
			return nil, err
		}
		groups = append(groups, n)
	}
	return func(p *specs.Process) {
		p.Args = c.Args[1:]
		p.Terminal = c.Bool("tty")
		p.Cwd = cmp.Or(c.String("cwd"), p.Cwd)
		p.Env = slices.Concat(p.Env, c.StringSlice("env"))
		if uid != nil {
			p.User.UID = *uid
		}
		if gid != nil {
			p.User.GID = *gid
		}
		p.User.AdditionalGids = append(p.User.AdditionalGids, groups...)
	}, nil
}
