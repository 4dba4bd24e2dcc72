package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/urfave/cli/v2"

	"agentjail.dev/apparmor"
	"agentjail.dev/runtime/enter/outside"
	"agentjail.dev/runtime/install"
	"agentjail.dev/runtime/verbs"
)

func installCommand() *cli.Command {
	return &cli.Command{
		Name: "install", Usage: "register agentjail with an engine",
		Subcommands: []*cli.Command{
			dockerCommand("docker", "register with Docker", install.Docker, true),
			containerdCommand("register with containerd, for Kubernetes", true),
			nodeCommand("copy agentjail to the node that a container runs on, and register it there", true),
			podmanCommand("podman", "register with Podman", install.Podman, true),
		},
	}
}

func uninstallCommand() *cli.Command {
	return &cli.Command{
		Name: "uninstall", Usage: "take agentjail out of an engine's configuration",
		Subcommands: []*cli.Command{
			dockerCommand("docker", "take out of Docker's configuration", install.UndoDocker, false),
			containerdCommand("take out of containerd's configuration", false),
			nodeCommand("take agentjail off the node that a container runs on", false),
			podmanCommand("podman", "take out of Podman's configuration", install.UndoPodman, false),
		},
	}
}

func dockerCommand(name, usage string, plan func(install.DockerOptions) (*install.Plan, error), register bool) *cli.Command {
	flags := append(runtimeFlags(),
		&cli.StringFlag{Name: "daemon-config", Usage: "Docker's configuration `FILE`", Value: install.DefaultConfig},
		&cli.StringFlag{Name: "pidfile", Usage: "Docker's process id `FILE`", Value: install.DefaultPIDFile},
		&cli.StringFlag{Name: "socket", Usage: "Docker's API `SOCKET`", Value: install.DefaultSocket},
	)
	if register {
		flags = append(flags,
			&cli.BoolFlag{Name: "default", Usage: "make it Docker's default runtime: every container becomes a jail"},
			&cli.BoolFlag{Name: "force", Usage: "replace a runtime of that name that leads elsewhere"})
	}
	return &cli.Command{
		Name: name, Usage: usage, Flags: flags,
		Description: `Edits Docker's configuration file, keeping everything else in it and a backup
beside it, has a running daemon read it again, and waits until it has. A second
run changes nothing.`,
		Action: func(c *cli.Context) error {
			o, err := dockerOptions(c, register)
			if err != nil {
				return err
			}
			p, err := plan(o)
			if err != nil {
				return err
			}
			out := c.App.Writer
			if c.Bool("dry-run") {
				if !p.Changed() {
					fmt.Fprintf(out, "%s: nothing to change\n", p.File)
				}
				_, err := io.WriteString(out, p.Diff)
				return err
			}
			if register {
				if err := loadProfile(c); err != nil {
					return err
				}
			}
			if err := applyPlan(c.Context, out, p); err != nil {
				return err
			}
			if o.Default != "" {
				fmt.Fprintln(out, "Builds: BuildKit's run as before; steps of the classic builder (DOCKER_BUILDKIT=0) are refused, since a jail would throw their layers away")
			}
			return nil
		},
	}
}

func dockerOptions(c *cli.Context, register bool) (install.DockerOptions, error) {
	o := install.DockerOptions{
		Config: c.String("daemon-config"), PIDFile: c.String("pidfile"), Socket: c.String("socket"), Force: c.Bool("force"),
	}
	var err error
	o.Runtimes, o.Default, err = namedRuntimes(c, register)
	return o, err
}

// runtimeFlags say under which names what is registered, for engines that call
// it by its path (namedRuntimes).
func runtimeFlags() []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Name: "dry-run", Usage: "print what would change, and change nothing"},
		&cli.StringSliceFlag{Name: "name", Usage: "name of the runtime; agentjail-NAME uses [profiles.NAME] of the policy", Value: cli.NewStringSlice(install.DefaultName)},
		&cli.StringFlag{Name: "path", Usage: "the agentjail `PROGRAM` (default: the one beside this program); agentjail-NAME is looked for beside it"},
	}
}

// namedRuntimes are the runtimes that the flags name, and which of them is to be
// the default.
func namedRuntimes(c *cli.Context, register bool) (out []install.Runtime, byDefault string, err error) {
	self := c.String("path")
	if self == "" {
		exe, err := os.Executable()
		if err != nil {
			return nil, "", fmt.Errorf("finding this program: %w", err)
		}
		if self, err = filepath.EvalSymlinks(exe); err != nil {
			return nil, "", fmt.Errorf("finding this program: %w", err)
		}
		self = filepath.Join(filepath.Dir(self), verbs.Program) // the runtime is beside this program
	}
	if register {
		if err := outside.Check(filepath.Dir(self)); err != nil {
			return nil, "", err
		}
	}
	for _, n := range c.StringSlice("name") {
		path := self
		if verbs.Profile(n) != "" {
			path = filepath.Join(filepath.Dir(self), n)
			if _, err := os.Lstat(path); register && errors.Is(err, os.ErrNotExist) {
				return nil, "", fmt.Errorf("%s does not exist: the policy profile is picked by the name that agentjail is called by (remedy: ln -s %s %s)", path, filepath.Base(self), path)
			}
		}
		out = append(out, install.Runtime{Name: n, Path: path})
	}
	if c.Bool("default") && len(out) > 0 {
		byDefault = out[0].Name
	}
	return out, byDefault, nil
}

// loadProfile loads the AppArmor profile now, so that a host on which that is
// impossible is known before the first jail.
func loadProfile(c *cli.Context) error {
	if !apparmor.Enabled() {
		return nil
	}
	w, err := newRuntime(c)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.Context, time.Minute)
	defer cancel()
	changed, err := apparmor.Ensure(ctx, apparmor.Params{Name: w.Policy.AppArmor.Profile})
	switch {
	case err != nil && w.Policy.AppArmor.Required:
		return err
	case err != nil:
		fmt.Fprintf(c.App.ErrWriter, "AppArmor profile %s is not loaded, jails will be without it: %v\n", w.Policy.AppArmor.Profile, err)
	case changed:
		fmt.Fprintf(c.App.Writer, "AppArmor profile %s loaded\n", w.Policy.AppArmor.Profile)
	}
	return nil
}

func applyPlan(ctx context.Context, out io.Writer, p *install.Plan) error {
	if !p.Changed() {
		fmt.Fprintf(out, "%s: nothing to change\n", p.File)
	}
	r, err := p.Apply(ctx)
	if err != nil {
		return err
	}
	if r.Changed {
		fmt.Fprintf(out, "%s: changed", p.File)
		if r.Backup != "" {
			fmt.Fprintf(out, " (before: %s)", r.Backup)
		}
		fmt.Fprintln(out)
	}
	switch d := r.Daemon; {
	case !d.Running:
		fmt.Fprintln(out, "Docker is not running: it will read the file when it starts")
	case d.Confirmed:
		fmt.Fprintln(out, "Docker knows of it")
	case d.Reloaded:
		fmt.Fprintln(out, "Docker was told to read it")
	}
	if r.Daemon.Detail != "" {
		fmt.Fprintln(out, r.Daemon.Detail)
	}
	return nil
}
