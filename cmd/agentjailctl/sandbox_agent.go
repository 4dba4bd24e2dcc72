package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/invoker"
	"agentjail.dev/runtime/kernel/pathname"
	"agentjail.dev/runtime/kernel/printable"
	"agentjail.dev/runtime/kernel/rootless"
	"agentjail.dev/runtime/kernel/thread"
	"agentjail.dev/runtime/lifecycle"
	"agentjail.dev/runtime/observe/journal"
	"agentjail.dev/runtime/observe/journal/sources"
	"agentjail.dev/runtime/spec/bindsource"
	"agentjail.dev/runtime/spec/credential"
	"agentjail.dev/runtime/spec/policy"
	"agentjail.dev/runtime/spec/sandbox"
	"agentjail.dev/runtime/spec/sandbox/agents"
	"agentjail.dev/runtime/workspace"
	"agentjail.dev/runtime/workspace/homes"
)

// The values of --home.
const (
	homeKept  = "kept"
	homeEmpty = "empty"
	homeReset = "reset"
)

// An agentRun is the run of an agent of a preset. Its methods do nothing for nil, a sandbox without
// an agent.
type agentRun struct {
	*agents.Agent
	home string // of --home
	key  string // of --key, absolute, or ""

	program agents.Program
	version string
	args    []string // the caller's
	keyed   string   // the credential that is in use, or ""
	// unreviewed is the option by which workspaces are written at once; "" where they are views,
	// or read-only.
	unreviewed string
	dummy      string // a variable in place of the credential's own, or ""
	homeFile   *os.File
}

// chosenAgent returns the agent that the call names; nil for none.
func chosenAgent(c *cli.Context) (*agentRun, error) {
	name := c.String("agent")
	if name == "" {
		for _, flag := range []string{"home", "key"} {
			if c.IsSet(flag) {
				return nil, fmt.Errorf("--%s is an agent's (remedy: --agent NAME)", flag)
			}
		}
		return nil, nil
	}
	preset, err := agents.Load(agents.DefaultDir, name)
	if err != nil {
		return nil, fmt.Errorf("--agent: %w", err)
	}
	a := &agentRun{Agent: preset, home: homeKept}
	if c.IsSet("home") {
		a.home = c.String("home")
	}
	if !slices.Contains([]string{homeKept, homeEmpty, homeReset}, a.home) {
		return nil, fmt.Errorf("--home %q: must be one of %s, %s, %s", a.home, homeKept, homeEmpty, homeReset)
	}
	if key := c.String("key"); key != "" {
		if a.Credential == nil {
			return nil, fmt.Errorf("--key: the preset %s has no credential", name)
		}
		if a.key, err = filepath.Abs(key); err != nil {
			return nil, fmt.Errorf("--key: %w", err)
		}
		if err := invoker.MayRead(a.key); err != nil {
			return nil, fmt.Errorf("--key on behalf of a user: %w (remedy: leave out --key, and as root `install -D -m 600 %s %s`)",
				err, printable.ShellQuote(a.key), strings.TrimPrefix(a.Credential.From, "file:"))
		}
	}
	return a, nil
}

// workspaces returns those of the call, by default this process's directory, by its name without
// the links by which a shell came to it.
func (a *agentRun) workspaces(named []string) []string {
	if a == nil || len(named) > 0 {
		return named
	}
	if dir, err := os.Readlink("/proc/self/cwd"); err == nil {
		return []string{dir}
	}
	return []string{"."}
}

// names are the rules of the network in place of policy's; none leaves policy's.
func (a *agentRun) names(allowed []string) []string {
	if a == nil {
		return allowed
	}
	return slices.Concat(a.Allow, allowed)
}

// find finds the program, and adds what it needs to the sandbox.
func (a *agentRun) find(o *sandbox.Options, args []string) error {
	home := ""
	if u, err := user.LookupId(strconv.FormatUint(uint64(o.UID), 10)); err == nil {
		home = u.HomeDir
	}
	program, err := agents.Find(a.Program, a.Dirs(os.Getenv("PATH"), home))
	if err != nil {
		return fmt.Errorf(`%w in PATH and the preset's places (remedy: %s; for one that only your shell finds, with sudo: sudo env "PATH=$PATH" agentjail sandbox ...)`,
			err, a.Install)
	}
	a.program, a.args, o.Args = program, args, []string{program.Path}
	for _, path := range program.Needs {
		if !shown(path, *o) {
			o.Volumes = append(o.Volumes, sandbox.Volume{Source: path, Destination: path, ReadOnly: true, Part: true})
		}
	}
	var env []string
	for name, v := range a.Env {
		env = append(env, name+"="+v)
	}
	slices.Sort(env)
	if len(program.Dirs) > 0 {
		env = append(env, "PATH="+strings.Join(append([]string{sandbox.Path}, program.Dirs...), ":"))
	}
	o.Env = append(env, o.Env...) // those of --env count
	return a.checkVersion(*o)
}

// shown reports whether a sandbox has a path of the host without a mount for it.
func shown(path string, o sandbox.Options) bool {
	for _, dir := range append([]string{o.Workspace}, o.Further...) {
		if dir != "" && pathname.Within(path, dir) {
			return true
		}
	}
	if sandbox.Hides(path) {
		return false
	}
	dirs, _ := mounted()
	for _, dir := range dirs {
		if pathname.Below(path, dir) {
			return true
		}
	}
	var root, own unix.Stat_t
	return unix.Stat("/", &root) == nil && unix.Stat(path, &own) == nil && root.Dev == own.Dev
}

// versionTime bounds how long a program takes to print its version.
const versionTime = 30 * time.Second

// checkVersion refuses a program that is older than the preset's minimum.
func (a *agentRun) checkVersion(o sandbox.Options) error {
	a.version = a.program.Version
	if a.version == "" {
		text, err := printedVersion(o)
		if err != nil {
			return fmt.Errorf("%s --version in a jail: %w", a.program.Path, err)
		}
		a.version = text
	}
	var err error
	if a.version, err = a.Agent.CheckVersion(a.version); err != nil {
		return fmt.Errorf("the version of %s: %w", a.program.Path, err)
	}
	return nil
}

// printedVersion returns what a program of any user's prints of its version, in a jail of its own.
func printedVersion(o sandbox.Options) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	args := []string{"sandbox", "--no-tty"}
	for _, v := range o.Volumes {
		if v.ReadOnly {
			args = append(args, "--volume", v.Source+":"+v.Destination+":ro")
		}
	}
	for _, e := range o.Env {
		if strings.HasPrefix(e, "PATH=") { // of a script's interpreter
			args = append(args, "--env", e)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), versionTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, self, append(args, "--", o.Args[0], "--version")...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.Cancel = &out, &errs, func() error { return cmd.Process.Signal(unix.SIGTERM) }
	cmd.WaitDelay = time.Second
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%w: %s", err, printable.Line(errs.String(), 256))
	}
	return printable.Line(strings.TrimSpace(out.String()), 256), nil
}

// credential adds the agent's key to the policy: the policy's own for that host, the file of --key,
// or the preset's, if that exists.
func (a *agentRun) credential(p *policy.Policy) error {
	if a == nil || a.Credential == nil {
		return nil
	}
	if rootless.Inside() { // hardening drops the policy's, too
		if a.key != "" {
			return errors.New("--key without root: the key's file would be the user's, whose programs could read it (remedy: sudo agentjail sandbox ...)")
		}
		return nil
	}
	c := a.Credential
	spec := c.Spec
	field, _ := spec.Field()
	if a.key != "" {
		spec.From = "file:" + a.key
	}
	for _, name := range p.Credentials.Names() {
		own := p.Credentials[name]
		header, _ := own.Field()
		if !slices.Contains(own.Hosts, c.Hosts[0]) || !strings.EqualFold(header, field) {
			continue
		}
		if a.key != "" {
			return fmt.Errorf("--key: policy has a key for %s, [credentials.%s] (remedy: leave out --key)", c.Hosts[0], name)
		}
		if a.keyed = name; own.Env != c.Env {
			a.dummy = c.Env + "=" + strings.ReplaceAll(c.Placeholder, "*", "x")
		}
		return nil
	}
	if path, isFile := strings.CutPrefix(spec.From, "file:"); isFile && a.key == "" {
		if _, err := os.Lstat(path); errors.Is(err, os.ErrNotExist) {
			return nil
		}
	}
	a.keyed = c.Name
	return p.OwnersCredentials(credential.Set{c.Name: spec})
}

// prepare completes the command, opens the home, and prints what is open to the agent.
func (a *agentRun) prepare(o *sandbox.Options, create *lifecycle.CreateOptions, r *lifecycle.Runtime) error {
	if a == nil {
		return nil
	}
	if a.unreviewed != "" && !o.ReadOnly {
		for _, dir := range append([]string{o.Workspace}, o.Further...) {
			pattern, err := bindsource.Reviewed(dir, r.Policy.Workspace)
			if err != nil {
				return err
			}
			if pattern != "" {
				return fmt.Errorf("policy has a view of %s (workspace.review = %q), and there is none: %s", dir, pattern, a.unreviewed)
			}
		}
	}
	o.Args = append(o.Args, a.Arguments...)
	if a.keyed != "" {
		o.Args = append(o.Args, a.Credential.Arguments...)
		for name, v := range a.Credential.Set {
			o.Env = append([]string{name + "=" + v}, o.Env...)
		}
		if a.dummy != "" {
			o.Env = append([]string{a.dummy}, o.Env...)
		}
	}
	o.Args = append(o.Args, a.args...)
	if a.home != homeEmpty && rootless.Inside() {
		return errors.New("a home that is kept is a file system that only root can mount (remedy: --home empty, or sudo agentjail sandbox ...)")
	}
	if a.home != homeEmpty {
		project, err := filepath.EvalSymlinks(o.Workspace)
		if err != nil {
			return err
		}
		home := homes.Home{
			Dir: homes.DefaultDir, Program: a.Name, Project: project, UID: o.UID, GID: o.GID, Jail: o.ID,
			Size: int64(a.Home.Size), Files: a.Home.Files, Bounds: workspace.Bounds{Free: int64(r.Policy.Disk.Free)},
		}
		f, err := home.Open(a.home == homeReset)
		if err != nil {
			return fmt.Errorf("the agent's home: %w", err)
		}
		a.homeFile = f
		o.HomeImage, create.Image = home.Path(), &bindsource.Image{At: o.Home, File: f, UID: o.UID, GID: o.GID}
	}
	a.announce(*o, r.Policy)
	return nil
}

// announce prints what is open to the agent.
func (a *agentRun) announce(o sandbox.Options, p policy.Policy) {
	how := ", written in a view: agentjail workspace"
	switch {
	case o.ReadOnly:
		how = ", read-only"
	case a.unreviewed != "":
		how = ", written at once: " + a.unreviewed
	}
	home := fmt.Sprintf("%s, kept for this project, %s (--home empty, --home reset)", o.Home, a.Home.Size)
	if a.home == homeEmpty {
		home = o.Home + ", empty, removed at the end"
	}
	key := "none: the preset has none"
	switch c := a.Credential; {
	case a.keyed != "":
		key = fmt.Sprintf("%s, set for %s outside of the jail; the agent has a placeholder", a.keyed, strings.Join(p.Credentials[a.keyed].Hosts, ", "))
	case c != nil && rootless.Inside():
		key = "none: there is none without root; the agent signs in itself"
	case c != nil:
		key = fmt.Sprintf("none: the agent signs in itself (a key: --key FILE, or %s)", strings.TrimPrefix(c.From, "file:"))
	}
	fmt.Fprintf(os.Stderr, "agentjail: %s %s in a jail; open to it are\n", a.Name, printable.Line(a.version, 64))
	for _, line := range [][2]string{
		{"workspace", strings.Join(append([]string{o.Workspace}, o.Further...), ", ") + how},
		{"home", home},
		{"names", cmp.Or(strings.Join(p.Network.Allow, ", "), "none")},
		{"credential", key},
	} {
		fmt.Fprintf(os.Stderr, "  %-11s %s\n", line[0], printable.Line(line[1], 0))
	}
}

// ended prints one line about the run, if there was one and it has a journal.
func (a *agentRun) ended(c *cli.Context, o sandbox.Options) {
	if a == nil {
		return
	}
	if a.homeFile != nil {
		// Else it stays whole.
		_ = thread.Own(func() error { return workspace.Store{}.RestHome(a.homeFile) })
		a.homeFile.Close()
	}
	_ = withEnded(c, o.ID, func(p journal.Place, j *journal.Jail) error {
		if j.Path != "" {
			fmt.Fprintf(os.Stderr, "agentjail: %s ended; refused: %d (agentjail denied %s); what it did: agentjail receipt %s\n",
				a.Name, sources.Refused(sources.Events(p.Store, j)), o.ID, o.ID)
		}
		return nil
	})
}
