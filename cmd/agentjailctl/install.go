package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"agentjail.dev/apparmor"
	"agentjail.dev/runtime/install"
	"agentjail.dev/runtime/jailinit/host"
	"agentjail.dev/runtime/kernel/programs"
	"agentjail.dev/runtime/runccli"
	"agentjail.dev/runtime/spec/policy"
)

// engineHelp is the help for an engine, as far as the command line has it and not package install.
type engineHelp struct {
	engine         install.Engine
	install, undo  string // usage
	description    string
	makesDefault   string // what --default does, "" for an engine without a default that could be changed
	ways           string // what --by chooses, "" for an engine with one way
	forces         string // what --force replaces
	forcesRemoval  bool   // --force is there for the removal, too
	dropInMeaning  string
	programMeaning string
}

var engines = []engineHelp{
	{
		engine: install.Docker, install: "register with Docker", undo: "take out of Docker's configuration",
		description: `Edits Docker's configuration file, keeping everything else in it and a backup
beside it (FILE.before-agentjail), has a running daemon read it again, and waits
up to 15 seconds until it has. A second run changes nothing.`,
		makesDefault: "make the first --name Docker's default runtime: every container becomes a jail",
		ways:         "the `WAY` in which Docker calls agentjail: shim (Docker 24 or later), or path, its command line (default: shim where Docker can)",
		forces:       "overwrite a runtime of that name that points to another program, and another default runtime",
	},
	{
		engine: install.Containerd, install: "register with containerd, for Kubernetes", undo: "take out of containerd's configuration",
		description: `Registers handlers with containerd's CRI plugin, for Kubernetes' RuntimeClass:
agentjail has an empty network, agentjail-net the names of network.allow in the
policy, or the pod's network if [policies.net.network] has mode = "engine". From containerd 2.0 on they are in the file --drop-in, which a line of
--daemon-config imports; before, and where that file has them already, they are
at its end. Everything else in it stays, and a backup beside it
(FILE.before-agentjail); a second run changes nothing. containerd reads its
configuration when it starts: restart it, pods go on meanwhile.`,
		forces: "also change a handler of that name that points to another program", forcesRemoval: true,
		dropInMeaning:  "the `FILE` for the handlers, for containerd 2.0 or later",
		programMeaning: "containerd's `PROGRAM`, run to read its version and its effective configuration (default: containerd in /usr/bin, /usr/local/bin, /usr/sbin or /usr/local/sbin)",
	},
	{
		engine: install.Node, install: "copy agentjail to the node that a container runs on, and register it there",
		undo: "take agentjail off the node that a container runs on",
		description: `Copies the programs beside this one to a Kubernetes node whose file tree is
mounted in this container, and has the copy there register itself with the node's
containerd, as "install containerd" does; "uninstall node" takes both back. For
the DaemonSet in hack/kubernetes.`,
	},
	{
		engine: install.Podman, install: "register with Podman", undo: "take out of Podman's configuration",
		description: `Writes or removes a file of its own among the drop-ins of containers.conf(5),
which each call of Podman reads, by root and by users. A second run changes
nothing.`,
		makesDefault:  "make the first --name Podman's default runtime, also of users: every container becomes a jail",
		forces:        "overwrite a runtime of that name that points to another program, and another default runtime",
		dropInMeaning: "the `FILE` of Podman's configuration that is agentjail's",
	},
	{
		engine: install.CRIO, install: "register with CRI-O, for Kubernetes", undo: "take out of CRI-O's configuration",
		description: `Writes or removes a file of its own among the drop-ins of crio.conf(5), with
handlers for Kubernetes' RuntimeClass. A second run changes nothing. CRI-O reads
it when it starts and when it is reloaded: systemctl reload crio.`,
		forces:        "overwrite a runtime of that name that points to another program",
		dropInMeaning: "the `FILE` of CRI-O's configuration that is agentjail's",
	},
}

func installCommand() *cli.Command {
	return engineCommands("install", "register agentjail with an engine", true)
}

func uninstallCommand() *cli.Command {
	cmd := engineCommands("uninstall", "take agentjail out of an engine's configuration", false)
	cmd.Subcommands = append(cmd.Subcommands, uninstallAllCommand())
	return cmd
}

// engineCommands is the command that registers, or undoes it, with one
// subcommand for each engine.
func engineCommands(name, usage string, register bool) *cli.Command {
	cmd := &cli.Command{Name: name, Usage: usage}
	for _, e := range engines {
		sub := &cli.Command{
			Name: e.engine.Name(), Usage: e.install, Description: e.description, Flags: e.flags(register),
			Action: func(c *cli.Context) error { return runInstall(c, e.engine, register) },
		}
		if !register {
			sub.Usage = e.undo
		}
		cmd.Subcommands = append(cmd.Subcommands, sub)
	}
	return cmd
}

// flags are those of an engine: each for a setting that it has.
func (e engineHelp) flags(register bool) []cli.Flag {
	d, title := e.engine.Defaults(), e.engine.Title()
	var out []cli.Flag
	text := func(name, usage, value string) {
		if value != "" {
			out = append(out, &cli.StringFlag{Name: name, Usage: usage, Value: value})
		}
	}
	if len(d.Runtimes) > 0 {
		var names []string
		for _, r := range d.Runtimes {
			names = append(names, r.Name)
		}
		out = append(out,
			&cli.BoolFlag{Name: "dry-run", Usage: "print what would change, as a diff, and change nothing"},
			&cli.StringSliceFlag{
				Name: "name", Usage: "`NAME` to register; agentjail-X uses [policies.X] of the policy",
				Value: cli.NewStringSlice(names...),
			},
			&cli.StringFlag{Name: "path", Usage: "the agentjail `PROGRAM`, absolute; agentjail-X and the shim are looked for beside it (default: the one beside this program)"})
	}
	text("daemon-config", title+"'s configuration `FILE`", d.Config)
	text("drop-in", e.dropInMeaning, d.DropIn)
	text("pidfile", "the `FILE` with the process id of "+title+"'s daemon", d.PIDFile)
	text("socket", "the `SOCKET` of "+title+"'s API, a path", d.Socket)
	if e.programMeaning != "" {
		out = append(out, &cli.StringFlag{Name: "program", Usage: e.programMeaning})
	}
	if d.Machine.To != "" {
		out = append(out, machineFlags(d.Machine, register)...)
	}
	if register && e.makesDefault != "" {
		out = append(out, &cli.BoolFlag{Name: "default", Usage: e.makesDefault})
	}
	if register && e.ways != "" {
		out = append(out, &cli.StringFlag{Name: "by", Usage: e.ways, Action: func(_ *cli.Context, way string) error {
			return asUsage(install.By(way).Check())
		}})
	}
	if e.forces != "" && (register || e.forcesRemoval) {
		out = append(out, &cli.BoolFlag{Name: "force", Usage: e.forces})
	}
	return out
}

// machineFlags are for a node.
func machineFlags(d install.Machine, register bool) []cli.Flag {
	out := []cli.Flag{
		&cli.StringFlag{Name: "root", Usage: "the `DIRECTORY` where the node's file tree is mounted"},
		&cli.StringFlag{Name: "to", Usage: "the `DIRECTORY` on the node for the programs, as seen there; its parent must exist", Value: d.To},
		&cli.StringSliceFlag{Name: "restart", Usage: "a `WORD` of the command that restarts containerd on the node, one option for each word; the command is run when containerd's configuration has changed, and again by the next run if it fails (default: no command)"},
	}
	if register {
		out = append(out, &cli.BoolFlag{
			Name:  "stay",
			Usage: "afterwards wait for SIGTERM or SIGINT, as a container of a DaemonSet has to; without --root do nothing else",
		})
	}
	return out
}

// runInstall plans the change, and makes or prints it.
func runInstall(c *cli.Context, e install.Engine, register bool) error {
	if e == install.Node && c.String("root") == "" {
		return onlyStay(c)
	}
	o, err := installOptions(c, e, register)
	if err != nil {
		return err
	}
	p, err := install.NewPlan(e, o)
	if err != nil {
		return err
	}
	if p.Note != "" {
		fmt.Fprintln(c.App.ErrWriter, p.Note)
	}
	if c.Bool("dry-run") {
		return printPlan(c.App.Writer, p)
	}
	if register && len(o.Runtimes) > 0 {
		if err := loadProfile(c); err != nil {
			return err
		}
	}
	if err := applyPlan(c, p); err != nil {
		return err
	}
	if c.Bool("stay") {
		awaitEnd()
	}
	return nil
}

// installOptions returns the values of the flags. The option of a flag that an engine lacks is
// empty.
func installOptions(c *cli.Context, e install.Engine, register bool) (install.Options, error) {
	o := install.Options{
		Undo: !register, Force: c.Bool("force"), By: install.By(c.String("by")),
		Config: c.String("daemon-config"), DropIn: c.String("drop-in"),
		PIDFile: c.String("pidfile"), Socket: c.String("socket"), Program: c.String("program"),
	}
	if e == install.Node {
		m, err := machine(c)
		o.Machine = m
		return o, err
	}
	var err error
	if o.Runtimes, err = namedRuntimes(c, register); err != nil || len(o.Runtimes) == 0 {
		return o, err
	}
	o.Shim = filepath.Join(filepath.Dir(o.Runtimes[0].Path), install.ShimName)
	if c.Bool("default") {
		o.Default = o.Runtimes[0].Name
	}
	return o, nil
}

// printPlan prints what would change.
func printPlan(out io.Writer, p *install.Plan) error {
	for _, f := range p.Files {
		if !f.Changed() {
			fmt.Fprintf(out, "%s: nothing to change\n", f.Path)
		}
		if _, err := io.WriteString(out, f.Diff); err != nil {
			return err
		}
	}
	return nil
}

// applyPlan makes the change and prints the result.
func applyPlan(c *cli.Context, p *install.Plan) error {
	out := c.App.Writer
	for _, f := range p.Files {
		if !f.Changed() {
			fmt.Fprintf(out, "%s: nothing to change\n", f.Path)
		}
	}
	r, err := p.Apply(c.Context)
	if err != nil {
		return err
	}
	for _, f := range p.Files {
		if f.Changed() {
			fmt.Fprintln(out, done(f))
		}
	}
	if len(r.Messages) > 0 {
		fmt.Fprintln(out, strings.Join(r.Messages, "\n"))
	}
	return nil
}

// done returns the result for a file.
func done(f *install.File) string {
	switch {
	case f.Own && f.Remove:
		return f.Path + ": removed"
	case f.Own:
		return f.Path + ": written"
	case f.Backup != "":
		return fmt.Sprintf("%s: changed (before: %s)", f.Path, f.Backup)
	}
	return f.Path + ": changed"
}

// namedRuntimes returns the runtimes that the flags name.
func namedRuntimes(c *cli.Context, register bool) ([]install.Runtime, error) {
	self := c.String("path")
	if self == "" {
		dir, err := programs.Dir()
		if err != nil {
			return nil, err
		}
		self = filepath.Join(dir, runccli.Program)
	}
	if register {
		if err := host.Check(filepath.Dir(self)); err != nil {
			return nil, err
		}
	}
	var out []install.Runtime
	for _, n := range c.StringSlice("name") {
		path := self
		if name := runccli.PolicyName(n); name != "" {
			if _, err := policy.Load(caller.Config(), name); register && errors.Is(err, policy.ErrNoPolicy) {
				return nil, usage("--name %s: each of its containers would be refused: %w", n, err)
			} else if register && err != nil {
				return nil, fmt.Errorf("--name %s: each of its containers would be refused: %w", n, err)
			}
			path = filepath.Join(filepath.Dir(self), n)
			if _, err := os.Lstat(path); register && errors.Is(err, os.ErrNotExist) {
				return nil, fmt.Errorf("%s does not exist: the named policy is picked by the name that agentjail is called by (remedy: ln -s %s %s)",
					path, filepath.Base(self), path)
			}
		}
		out = append(out, install.Runtime{Name: n, Path: path})
	}
	return out, nil
}

// loadProfile loads the AppArmor profile now, so that a host on which that fails is reported before
// the first jail.
func loadProfile(c *cli.Context) error {
	if !apparmor.Enabled() {
		return nil
	}
	r, err := caller.Runtime()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.Context, time.Minute)
	defer cancel()
	changed, err := apparmor.Ensure(ctx, apparmor.Params{Name: r.Policy.AppArmor.Profile})
	switch {
	case err != nil && r.Policy.AppArmor.Required:
		return err
	case err != nil:
		fmt.Fprintf(c.App.ErrWriter, "AppArmor profile %s is not loaded, jails will be without it: %v\n", r.Policy.AppArmor.Profile, err)
	case changed:
		fmt.Fprintf(c.App.Writer, "AppArmor profile %s loaded\n", r.Policy.AppArmor.Profile)
	}
	return nil
}
