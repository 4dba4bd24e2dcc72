package main

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/facts"
	"agentjail.dev/runtime/jailinit"
	"agentjail.dev/runtime/kernel/invoker"
	"agentjail.dev/runtime/kernel/pathname"
	"agentjail.dev/runtime/kernel/printable"
	"agentjail.dev/runtime/kernel/rootless"
	"agentjail.dev/runtime/lifecycle"
	"agentjail.dev/runtime/runccli"
	"agentjail.dev/runtime/spec/lists"
	"agentjail.dev/runtime/spec/policy"
	"agentjail.dev/runtime/spec/sandbox"
	"agentjail.dev/runtime/spec/sandbox/agents"
	"agentjail.dev/runtime/spec/sandbox/git"
	"agentjail.dev/runtime/spec/traits"
)

func sandboxCommand() *cli.Command {
	return &cli.Command{
		Name: "sandbox", Usage: "run a command in a jail over this machine's own file tree", ArgsUsage: "[--] COMMAND [ARG...]",
		Description: `Runs COMMAND in the same jail as a container's, without an engine or an image:
this machine's file systems read-only, the root under an ephemeral layer, no
network but lo, no capability, the system call filter, the limits of the policy.
Files that only root can read stay unreadable; /home, /root, /tmp and /run are
empty.

With --workspace DIR that directory can be written, at the same path: what the
command makes there belongs to the directory's owner. The command runs as that
owner's name, with nothing of the owner's power elsewhere. A linked work tree of
git's brings its repository's git directory along. Environment variables are not
passed on, other than by --env; the command is looked for in a PATH set by it.
Nor are descriptors beyond 2: <(...) is not there.

With --allow NAME the command reaches that name, by any resolver and without a
proxy, and nothing else. With --publish 8080:80 the command's port 80 is
connected to at port 8080 of 127.0.0.1.

The jail ends with this call, however that ends. The status is the command's own,
128 + n where signal n ended it, 124 after --timeout, 127 where the jail does not
have the command, or 125 for a failure of agentjail's.

   agentjail sandbox --workspace . -- make test
   agentjail sandbox --allow @pypi --allow example.org -- pip download six
   agentjail sandbox -w . --tighten limits.memory=512MiB -- python3 agent.py`,
		Flags:  append(sandboxFlags(), handleFlags()...),
		Action: func(c *cli.Context) error { return runSandbox(c, nil) },
	}
}

// sandboxFlags are the options of a sandbox, also of those that `learn` runs.
func sandboxFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringSliceFlag{Name: "workspace", Aliases: []string{"w"}, Usage: "make `DIR` writable, at its own path; the command starts in the first one"},
		&cli.BoolFlag{Name: "review", Usage: "what the command writes to workspaces stays in a view, for agentjail workspace to show and apply"},
		&cli.BoolFlag{Name: "direct", Usage: "an agent writes to workspaces at once; by default it writes to a view where that can be made"},
		&cli.StringFlag{Name: "view", Usage: "go on in the view `NAME` of the first workspace, or make it"},
		&cli.BoolFlag{Name: "read-only", Usage: "workspaces can only be read"},
		&cli.StringFlag{Name: "agent", Usage: "run the agent `NAME` (" + strings.Join(agents.Names(), ", ") + ", or a preset in " +
			agents.DefaultDir + ") with the arguments"},
		&cli.StringFlag{Name: "home", Usage: "the agent's `HOME`: kept for the project (default), empty, or reset"},
		&cli.StringFlag{Name: "key", Usage: "the agent's key is in `FILE`, which only root can read"},
		&cli.StringSliceFlag{
			Name: "volume", Aliases: []string{"v"},
			Usage: "mount the directory or file SRC at DST, as `SRC:DST[:ro]`",
		},
		&cli.StringSliceFlag{Name: "env", Aliases: []string{"e"}, Usage: "set `NAME=VALUE`, or pass NAME on"},
		&cli.StringFlag{Name: "policy", Usage: "the named policy `NAME`, [policies.NAME] of the policy file"},
		&cli.StringFlag{Name: "boundary", Usage: "run in the sandbox `NAME`, with a kernel of its own: " +
			strings.Join(traits.BoundaryNames(), ", ")},
		&cli.StringFlag{Name: "config", Usage: "policy `FILE`; only root may be able to write it"},
		&cli.StringSliceFlag{Name: "tighten", Usage: "lower a limit of the policy, as `KEY=VALUE`: " +
			strings.Join(policy.AnnotationNames(), ", ")},
		&cli.StringSliceFlag{Name: "allow", Usage: "allow connections to `NAME[:PORT,...]`, instead of policy's names"},
		&cli.StringSliceFlag{Name: "publish", Aliases: []string{"p"}, Usage: "publish a port of the jail, as `[ADDRESS:]PORT:JAILPORT`; 127.0.0.1 without ADDRESS"},
		&cli.DurationFlag{Name: "timeout", Usage: "end the command after `TIME` (90s, 10m), by SIGTERM and ten seconds later by SIGKILL; the status is 124"},
		&cli.BoolFlag{Name: "no-init", Usage: "run the command as process 1, which receives no signal that it does not handle"},
		&cli.BoolFlag{Name: "no-tty", Usage: "allocate no terminal, also when called from one"},
	}
}

// runSandbox runs the command line's command; watch may be nil.
func runSandbox(c *cli.Context, watch lifecycle.Watcher) error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("sandbox without root: %w (or sudo agentjail sandbox)", rootless.Enter())
	}
	if _, err := os.Getwd(); err != nil {
		return fmt.Errorf("this directory was removed: %w (remedy: cd to one that exists)", err)
	}
	signals := lifecycle.TakeSignals(true)
	agent, err := chosenAgent(c)
	if err != nil {
		return err
	}
	o, err := sandboxOptions(c, agent)
	if err == nil {
		err = refuseTaken(c)
	}
	if err != nil {
		return err // the status of a command that cannot be run is a shell's
	}
	r, err := sandboxRuntime(c, o.Tighten, agent)
	if err != nil {
		return err
	}
	limit := c.Duration("timeout")
	if limit < 0 {
		return fmt.Errorf("--timeout %s: less than no time", limit)
	} else if limit > 0 {
		signals.EndAfter(limit)
	}
	create := lifecycle.CreateOptions{Init: !c.Bool("no-init"), Watch: watch, Signals: signals, View: c.String("view")}
	if err := agent.prepare(&o, &create, r); err != nil {
		return err
	}
	if _, err := openOutput(c, "id-file", o.ID+"\n"); err != nil {
		return err
	}
	report, err := openOutput(c, "receipt", "")
	if err != nil {
		return err
	}
	announceLess()
	err = launch(c, r, o, create)
	if status, ok := errors.AsType[*lifecycle.StatusError](err); ok && status.Code == jailinit.ExitNotFound {
		err = notInJail(o.Args[0]) // the host has it
	}
	agent.ended(c, o)
	if failed := writeReceipt(c, o.ID, report); failed != nil && err == nil {
		err = failed
	} else if failed != nil { // the status is the command's
		fmt.Fprintf(os.Stderr, "agentjail: %s\n", printable.Line(failed.Error(), 0))
	}
	announceViews(r, o)
	if signals.Expired() {
		fmt.Fprintf(os.Stderr, "agentjail: ended after %s (--timeout)\n", limit)
		return &lifecycle.ExitError{Code: expiredStatus}
	}
	return err
}

// expiredStatus is timeout(1)'s.
const expiredStatus = 124

// launch runs a sandbox. It sets those options of the life cycle that are the same for all
// sandboxes. The jail ends with this process, also where this process is killed.
func launch(c *cli.Context, r *lifecycle.Runtime, o sandbox.Options, create lifecycle.CreateOptions) error {
	spec, err := sandbox.Spec(o, func(p string) bool {
		fi, err := os.Stat(p)
		return err == nil && fi.IsDir()
	})
	if err != nil {
		return err
	}
	if name := sandboxName(c); name != "" {
		spec.Annotations = maps.Clone(spec.Annotations)
		spec.Annotations[facts.NameAnnotation] = name
	}
	caller.Quiet()
	keeper, err := keep(o.ID, caller.Config())
	if err != nil {
		return err
	}
	defer keeper.end()
	create.ID, create.Spec, create.Run, create.PlainRoot, create.Parts = o.ID, spec, true, true, o.Parts()
	if create.Invoker, err = invoker.UID(); err != nil {
		return err
	}
	return r.Create(c.Context, create)
}

// sandboxRuntime returns the runtime for the command line's jail. It refuses annotations of tighten
// that the policy does not follow.
func sandboxRuntime(c *cli.Context, tighten map[string]string, agent *agentRun) (*lifecycle.Runtime, error) {
	err := renamedOptions(c)
	if err != nil {
		return nil, err
	}
	caller.PolicyName = cmp.Or(c.String("policy"), caller.PolicyName)
	if file := c.String("config"); file != "" {
		if caller.PolicyFile, err = filepath.Abs(file); err == nil {
			err = invoker.MayRead(file)
		}
		if err != nil {
			return nil, fmt.Errorf("--config: %w", err)
		}
	}
	r, err := caller.Runtime()
	if err != nil {
		return nil, err
	}
	if name := c.String("boundary"); name != "" {
		if err := r.Policy.OwnersBoundary(name); err != nil {
			return nil, fmt.Errorf("--boundary: %w", err)
		}
	}
	if _, ignored := r.Policy.Tighten(tighten); len(ignored) > 0 {
		return nil, notFollowed(ignored)
	}
	if err := checkHeld(tighten); err != nil {
		return nil, err
	}
	if names := agent.names(c.StringSlice("allow")); len(names) == 0 && agent != nil {
		r.Policy.Network.Nothing()
	} else if len(names) > 0 {
		// The caller is root, the owner of the policy.
		if err := r.Policy.OwnersNames(names); err != nil {
			return nil, fmt.Errorf("--allow: %w", err)
		}
	}
	if err := agent.credential(&r.Policy); err != nil {
		return nil, err
	}
	if err := policy.Unavailable(caller.Config(), &r.Policy); err != nil {
		return nil, err
	}
	if ports := c.StringSlice("publish"); len(ports) > 0 {
		if err := r.Policy.Network.PublishPorts(ports); err != nil {
			return nil, fmt.Errorf("--publish: %w", err)
		}
	}
	return r, nil
}

// sandboxPrefix begins the ids of sandboxes.
const sandboxPrefix = "sandbox-"

// namedSandbox returns the options of a sandbox with a new id.
func namedSandbox() (o sandbox.Options, err error) {
	id := make([]byte, 6)
	if _, err := rand.Read(id); err != nil {
		return o, err
	}
	o.ID = sandboxPrefix + hex.EncodeToString(id)
	return o, nil
}

func sandboxOptions(c *cli.Context, agent *agentRun) (sandbox.Options, error) {
	o, err := namedSandbox()
	if err != nil {
		return o, err
	}
	o.Term = os.Getenv("TERM")
	if err := leaveInput(); err != nil {
		return o, err
	}
	o.Terminal = !c.Bool("no-tty") && isTerminal(os.Stdin) && isTerminal(os.Stdout)
	o.ReadOnly = c.Bool("read-only")

	workspaces := agent.workspaces(c.StringSlice("workspace"))
	for i, w := range workspaces {
		if err := invoker.Do(func() error { workspaces[i], err = directory(w); return err }); err != nil {
			return o, fmt.Errorf("--workspace %s: %w", w, err)
		}
	}
	first := ""
	if len(workspaces) > 0 {
		first, o.Further = workspaces[0], workspaces[1:]
	}
	if err := whose(&o, first); err != nil {
		return o, err
	}
	for _, text := range c.StringSlice("volume") {
		v, err := sandbox.ParseVolume(text)
		if err != nil {
			return o, fmt.Errorf("--volume %w", err)
		}
		if _, err := os.Lstat(v.Source); errors.Is(err, fs.ErrNotExist) {
			return o, fmt.Errorf("--volume %s: there is no %s%s", text, v.Source, unexpanded(text))
		}
		o.Volumes = append(o.Volumes, v)
	}
	if o.Env, err = environment(c.StringSlice("env")); err != nil {
		return o, err
	}
	addGit(&o)
	args := c.Args().Slice()
	if agent != nil {
		if err := agent.find(&o, args); err != nil {
			return o, err
		}
	} else if err := command(&o, args); err != nil {
		return o, err
	}
	if o.Tighten, err = tightened(c.StringSlice("tighten")); err != nil {
		return o, err
	}
	if err := reviewed(c, &o, agent); err != nil {
		return o, err
	}
	followProjects(o.Tighten, workspaces)
	if rootless.Inside() {
		return o, asUser(&o)
	}
	var left []string
	o.Directories, left = mounted()
	announceLeft(o, left)
	return o, nil
}

// command sets the command, a shell by default.
func command(o *sandbox.Options, args []string) error {
	if len(args) == 0 {
		args = []string{"/bin/sh"}
	}
	path, err := lookPath(args[0], *o)
	o.Args = append([]string{path}, args[1:]...)
	return err
}

// unexpanded is a remedy for a path with a tilde, which a shell expands only at the beginning of a
// word; for another it is to make it.
func unexpanded(path string) string {
	if strings.HasPrefix(path, "~") {
		return " (remedy: $HOME in place of ~)"
	}
	return " (remedy: make it first)"
}

// directory returns the absolute path of a directory that can be a workspace.
func directory(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("this directory was removed: %w (remedy: cd to one that exists)", err)
	}
	kernels := func(top string) bool { return pathname.Within(abs, top) }
	switch fi, err := os.Stat(abs); {
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("there is no directory %s%s", abs, unexpanded(path))
	case err != nil:
		return "", err
	case slices.ContainsFunc([]string{"/proc", "/sys", "/dev"}, kernels):
		return "", errors.New("a jail has its own of the kernel's directories (remedy: name the directory of one project)")
	case !fi.IsDir():
		return "", errors.New("it is not a directory (remedy: name the directory that it is in, or mount it by --volume)")
	case abs == "/":
		return "", errors.New("it is the whole machine (remedy: name the directory of one project)")
	}
	return abs, nil
}

// addGit adds what git needs in a workspace that is a work tree: the git directories elsewhere that
// a linked work tree leads to, and the name of the caller for commits. A directory elsewhere that a
// repository needs and cannot have is reported: the command may do without git.
func addGit(o *sandbox.Options) {
	program, err := exec.LookPath("git")
	if err != nil || o.Workspace == "" {
		return
	}
	if _, err := os.Lstat(filepath.Join(o.Workspace, ".git")); err != nil {
		return
	}
	person, err := git.Caller(os.Getenv)
	var place *git.Place
	if err == nil {
		place, err = git.Find(o.Workspace, o.Further, person.WorkTree(program))
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "agentjail: git in %s: %s\n", runccli.OneLine(o.Workspace), runccli.OneLine(err.Error()))
		return
	}
	o.Further = lists.Union(o.Further, place.Dirs[1:]...)
	name, mail, err := person.Signature(program, git.Call{})
	if err != nil {
		fmt.Fprintf(os.Stderr, "agentjail: your name for commits: %s\n", runccli.OneLine(err.Error()))
		return
	}
	// The variables of --env come later, and count.
	o.Env = append(git.Identity(name, mail), o.Env...)
}

// whose sets the user that a sandbox works as: the owner of its workspace, or the user who called
// sudo. Without root it is the caller.
func whose(o *sandbox.Options, workspace string) error {
	var st unix.Stat_t
	if workspace != "" {
		if err := unix.Stat(workspace, &st); err != nil {
			return fmt.Errorf("workspace %s: %w", workspace, err)
		}
		o.Workspace = workspace
	}
	by, err := invoker.Here()
	if err != nil {
		return err
	}
	switch {
	case rootless.Inside():
		if o.UID, o.GID, err = rootless.Outside(); err != nil {
			return err
		}
	case workspace != "":
		o.UID, o.GID = st.Uid, st.Gid
		err = invoker.Owns(st.Uid, "workspace "+workspace)
	case by != nil:
		o.UID, o.GID = by.UID, by.GID
	}
	if err != nil {
		return err
	}
	o.User, o.Home = "agent", "/tmp/home"
	if u, err := user.LookupId(strconv.FormatUint(uint64(o.UID), 10)); err == nil {
		o.User = u.Username
		if h := filepath.Clean(u.HomeDir); strings.HasPrefix(h, "/home/") || h == "/root" {
			o.Home = h
		}
	}
	return nil
}

// environment returns variables. Those without a value have this process's.
func environment(variables []string) (out []string, err error) {
	for _, e := range variables {
		name, _, set := strings.Cut(e, "=")
		if name == "" {
			return nil, fmt.Errorf("--env %q has no name (remedy: --env NAME=VALUE, or --env NAME)", e)
		}
		if !set {
			v, ok := os.LookupEnv(e)
			if !ok {
				continue
			}
			e += "=" + v
		}
		out = append(out, e)
	}
	return out, nil
}

// tightened returns the annotations of --tighten.
func tightened(settings []string) (map[string]string, error) {
	// The caller works in the workspace; policy's choice is for containers.
	out := map[string]string{policy.AnnotationPrefix + policy.OwnerAnnotation: policy.OwnerProcess}
	for _, t := range settings {
		k, v, ok := strings.Cut(t, "=")
		if !ok {
			return nil, fmt.Errorf("--tighten %q: must be KEY=VALUE (remedy: such as --tighten limits.memory=512m)", t)
		}
		if before, twice := out[policy.AnnotationPrefix+k]; twice && before != v && k != policy.OwnerAnnotation {
			return nil, fmt.Errorf("--tighten %s: given as %q and as %q (remedy: leave one out)", k, before, v)
		}
		out[policy.AnnotationPrefix+k] = v
	}
	return out, nil
}
