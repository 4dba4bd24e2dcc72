package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"
	"github.com/urfave/cli/v2"

	"agentjail.dev/runtime/jail"
)

func execCommand() *cli.Command {
	return &cli.Command{
		Name: "exec", Usage: "run a further process in a jail, hardened like the first", ArgsUsage: "CONTAINER [COMMAND [ARG...]]",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "process", Aliases: []string{"p"}, Usage: "the process as JSON, from `FILE`"},
			&cli.BoolFlag{Name: "detach", Aliases: []string{"d"}, Usage: "do not wait for its end"},
			&cli.StringFlag{Name: "pid-file", Usage: "write the process's id to `FILE`"},
			&cli.StringFlag{Name: "console-socket", Usage: "unix socket that receives the terminal"},
			&cli.StringFlag{Name: "pidfd-socket", Usage: "unix socket that receives a pidfd"},
			&cli.StringFlag{Name: "cwd", Usage: "working directory"},
			&cli.StringSliceFlag{Name: "env", Aliases: []string{"e"}, Usage: "set an environment variable"},
			&cli.BoolFlag{Name: "tty", Aliases: []string{"t"}, Usage: "with a terminal"},
			&cli.StringFlag{Name: "user", Aliases: []string{"u"}, Usage: "`UID[:GID]`"},
			&cli.Int64SliceFlag{Name: "additional-gids", Aliases: []string{"g"}, Usage: "further groups"},
			&cli.StringFlag{Name: "process-label", Usage: "not granted: the label is the jail's"},
			&cli.StringFlag{Name: "apparmor", Usage: "not granted: the profile is the jail's"},
			&cli.BoolFlag{Name: "no-new-privs", Usage: "always"},
			&cli.StringSliceFlag{Name: "cap", Aliases: []string{"c"}, Usage: "not granted: a jail has no capability"},
			&cli.IntFlag{Name: "preserve-fds", Usage: "not granted: hands the host's files in"},
			&cli.StringFlag{Name: "cgroup", Usage: "refused"},
			&cli.BoolFlag{Name: "ignore-paused", Usage: "also in a paused jail"},
		},
		Action: func(c *cli.Context) error {
			if c.NArg() == 0 {
				return errors.New("\"exec\" requires a container id (see `agentjail exec --help`)")
			}
			w, err := newWay(c)
			if err != nil {
				return err
			}
			for _, f := range []string{"process-label", "apparmor", "cap", "preserve-fds"} {
				if c.IsSet(f) && (f != "preserve-fds" || c.Int(f) > 0) {
					log.Warnf("agentjail: not granted: exec --%s", f)
				}
			}
			o := jail.ExecOptions{
				ID: c.Args().First(), ProcessFile: c.String("process"), Detach: c.Bool("detach"), PidFile: c.String("pid-file"),
				ConsoleSocket: c.String("console-socket"), PidfdSocket: c.String("pidfd-socket"), Cgroup: c.String("cgroup"),
				IgnorePaused: c.Bool("ignore-paused"),
			}
			if o.ProcessFile == "" {
				if c.NArg() < 2 {
					return errors.New("\"exec\" requires a command, or --process FILE")
				}
				if o.Change, err = processFromFlags(c); err != nil {
					return err
				}
			}
			return w.Exec(o)
		},
	}
}

// processFromFlags changes the jail's own process by runc's flags.
func processFromFlags(c *cli.Context) (func(*specs.Process), error) {
	var uid, gid *uint32
	if u := c.String("user"); u != "" {
		us, gs, both := strings.Cut(u, ":")
		n, err := strconv.ParseUint(us, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("--user %q: parsing the user id: %w", u, err)
		}
		id := uint32(n)
		uid = &id
		if both {
			m, err := strconv.ParseUint(gs, 10, 32)
			if err != nil {
				return nil, fmt.Errorf("--user %q: parsing the group id: %w", u, err)
			}
			g := uint32(m)
			gid = &g
		}
	}
	args := c.Args().Tail()
	return func(p *specs.Process) {
		p.Args = args
		p.Terminal = c.Bool("tty")
		if cwd := c.String("cwd"); cwd != "" {
			p.Cwd = cwd
		}
		p.Env = append(append([]string(nil), p.Env...), c.StringSlice("env")...)
		if uid != nil {
			p.User.UID = *uid
		}
		if gid != nil {
			p.User.GID = *gid
		}
		for _, g := range c.Int64Slice("additional-gids") {
			p.User.AdditionalGids = append(p.User.AdditionalGids, uint32(g))
		}
	}, nil
}
