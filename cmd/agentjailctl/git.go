package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/printable"
	"agentjail.dev/runtime/kernel/rootless"
	"agentjail.dev/runtime/kernel/thread"
	"agentjail.dev/runtime/lifecycle"
	"agentjail.dev/runtime/spec/policy"
	"agentjail.dev/runtime/spec/sandbox"
	"agentjail.dev/runtime/spec/sandbox/git"
	"agentjail.dev/runtime/state"
	"agentjail.dev/runtime/workspace"
	"agentjail.dev/runtime/workspace/apply"
	"agentjail.dev/runtime/workspace/review"
)

func gitCommand() *cli.Command {
	return &cli.Command{
		Name: "git", Usage: "run git over a directory, in a jail", ArgsUsage: "[--] DIR COMMAND [ARG...]",
		Description: `Runs git in DIR as the host's git would, but in a jail without a network. A
repository has nearly each command of git's run programs of its own choice: hooks,
filters, core.fsmonitor, and those of every repository within it, which an agent may
have made and added. Here they run in the jail, and reach DIR's repository alone.

   agentjail git . status
   agentjail git . diff
   agentjail git . log -p --stat
   agentjail git . add -A
   agentjail git . commit -m "what was done"

What only reads (status, diff, log, show, blame, grep, ...) gets the repository
read-only. A commit is made in your name: user.name and user.email of your own
~/.gitconfig. Of your settings nothing else is in the jail: no key, no password, no
core.excludesFile. Commands that set up the repository (git config, git remote add) are
for the host: a jail's changes to the settings end with it.

With --view it runs in a view of DIR, as the jail left it, and what it writes stays
there. So an agent's commits come out:

   agentjail git --view ID . format-patch --stdout BASE.. > commits.patch

The patch ends, with status 125, before a change that "agentjail workspace apply" leaves
out: of a protected path without --protected, a link out of DIR without --links.

What needs the network or your keys (push, fetch, pull, clone, commit -S) is
refused. Do it from a repository that is yours alone:

   git clone --no-local DIR NEW

What git prints for a terminal is made printable; there are no colours and no
pager of git's: agentjail git . log | less. With --terminal git and what it runs
have the terminal itself, for an editor or for add -p.

Exit status: git's own; 125 where agentjail could not run it.`,
		Flags: []cli.Flag{
			&cli.StringSliceFlag{Name: "with", Usage: "also open `DIRECTORY`, which the repository leads to (a git directory, borrowed objects)"},
			&cli.StringFlag{Name: "view", Usage: "run in the view `ID` of DIR (agentjail workspace list)"},
			&cli.BoolFlag{Name: "protected", Usage: "with --view: also patches of protected paths"},
			&cli.BoolFlag{Name: "links", Usage: "with --view: also patches of links that can lead out of DIR"},
			&cli.BoolFlag{Name: "terminal", Aliases: []string{"t"}, Usage: "pass the terminal itself to git, so that programs of the repository can use it, too"},
		},
		Action: runGit,
	}
}

func runGit(c *cli.Context) error {
	args := c.Args().Slice()
	if len(args) == 0 {
		return usage("git needs a directory and a git command, as in: agentjail git . status (see `agentjail git --help`)")
	}
	if os.Geteuid() != 0 {
		return fmt.Errorf("git needs root, to map ids and mount; git itself runs as the directory's owner, in the jail (remedy: %s)", rootless.WithSudo())
	}
	signals := lifecycle.TakeSignals(true)
	call, err := git.Judge(args[1:])
	if err != nil {
		return err
	}
	program, err := exec.LookPath("git")
	if err != nil {
		return errors.New("there is no git on this machine (remedy: install the package git)")
	}
	person, err := git.Caller(os.Getenv)
	if err != nil {
		return err
	}
	place, err := git.Find(args[0], c.StringSlice("with"), person.WorkTree(program))
	if err != nil {
		return err
	}
	name, mail, err := person.Signature(program, call)
	if err != nil {
		return err
	}
	o, err := namedSandbox()
	if err != nil {
		return err
	}
	if err := whose(&o, place.Dirs[0]); err != nil {
		return err
	}
	o.Further, o.Dir, o.ReadOnly = place.Dirs[1:], place.Start, call.Reads
	if o.Args, err = inJail("git", call.Args); err != nil {
		return err
	}
	o.Env = call.Environment(name, mail)
	if o.Tighten, err = tightened(nil); err != nil {
		return err
	}
	if err := inViewOf(c.String("view"), &o); err != nil {
		return err
	}
	o.Directories, _ = mounted()
	r, err := caller.Runtime()
	if err != nil {
		return err
	}
	r.Policy.Network.Nothing()
	done := func() {}
	if o.Terminal = c.Bool("terminal"); !o.Terminal {
		o.Env = append(o.Env, "GIT_EDITOR="+noEditor)
		if done, err = printableOutput(r); err != nil {
			return err
		}
	} else {
		if !isTerminal(os.Stdin) || !isTerminal(os.Stdout) {
			return errors.New("--terminal: this is not called from a terminal")
		}
		o.Term = os.Getenv("TERM")
	}
	end, err := guardOutput(c, r)
	if err != nil {
		done()
		return err
	}
	err = launch(c, r, o, lifecycle.CreateOptions{Init: true, Signals: signals, View: c.String("view")})
	done()
	if left := end(); left != nil {
		return left
	}
	explainFailure(call, err)
	return err
}

// guardOutput passes on what git prints in a view as an apply of the view would, but to a terminal.
// end waits until all is written.
func guardOutput(c *cli.Context, rt *lifecycle.Runtime) (end func() error, err error) {
	if c.String("view") == "" || isTerminal(os.Stdout) {
		return func() error { return nil }, nil
	}
	v, err := workspace.Of(rt.Store).Open(c.String("view"))
	if err != nil {
		return nil, err
	}
	fd, err := unix.FcntlInt(os.Stdout.Fd(), unix.F_DUPFD_CLOEXEC, 3) // a closed pipe ends no other one's writer (os/signal)
	if err != nil {
		return nil, err
	}
	to := os.NewFile(uintptr(fd), "stdout")
	r, w, err := os.Pipe()
	if err != nil {
		to.Close()
		return nil, err
	}
	rt.Stdio[1] = w
	closeView := func() {}
	guard := apply.Guard{Options: selection(c), Review: func() (found *review.Review, err error) {
		err = thread.Own(func() error { // this thread has left the host's mounts
			view, err := apply.Open(workspace.Of(rt.Store), v)
			if err != nil {
				return err
			}
			closeView = view.Close
			found, err = view.Review(c.Context, v, rt.Policy.Binds.Unprotect)
			return err
		})
		return found, err
	}}
	ended := make(chan error, 1)
	go func() {
		err := guard.Copy(to, r)
		closeView()
		to.Close()
		r.Close() // which ends git
		ended <- err
	}()
	return func() error {
		w.Close()
		if err := <-ended; !errors.Is(err, unix.EPIPE) {
			return err
		}
		return nil
	}, nil
}

// inViewOf has git work in an existing view of the repository's directory.
func inViewOf(ref string, o *sandbox.Options) error {
	if ref == "" {
		return nil
	}
	s, err := state.Default()
	if err != nil {
		return err
	}
	if _, err := workspace.Of(s).Open(ref); err != nil { // a name that no view has would make one
		return err
	}
	o.ReadOnly = false // the view itself takes what git writes
	o.Tighten[policy.AnnotationPrefix+policy.WorkspaceAnnotation] = o.Workspace
	return nil
}

// noEditor stands for an editor where there is no terminal. git runs it by a shell.
const noEditor = `echo "agentjail git: there is no terminal for an editor: use -m or -F, or agentjail git --terminal" >&2; exit 1 #`

// inJail returns a command line whose program is found as in a jail.
func inJail(program string, args []string) ([]string, error) {
	path, err := lookPath(program, sandbox.Options{})
	if err != nil {
		return nil, fmt.Errorf("there is no %s in the directories of the system's programs, which the jail has (remedy: install the package %s)", program, program)
	}
	return append([]string{path}, args...), nil
}

// printableOutput separates the caller's terminal from the jail's programs: they can neither
// control the terminal by their output, nor hold it open. done waits until all output is written.
func printableOutput(rt *lifecycle.Runtime) (done func(), err error) {
	rt.Stdio = [3]*os.File{os.Stdin, os.Stdout, os.Stderr}
	var copies sync.WaitGroup
	var ends []*os.File
	done = func() {
		for _, f := range ends {
			f.Close()
		}
		copies.Wait()
	}
	if isTerminal(os.Stdin) {
		null, err := os.Open(os.DevNull)
		if err != nil {
			return nil, err
		}
		rt.Stdio[0], ends = null, append(ends, null)
	}
	for i, to := range []*os.File{1: os.Stdout, 2: os.Stderr} {
		if to == nil || !isTerminal(to) {
			continue
		}
		r, wr, err := os.Pipe()
		if err != nil {
			done()
			return nil, err
		}
		rt.Stdio[i], ends = wr, append(ends, wr)
		copies.Go(func() {
			_ = printable.Copy(to, r)
			r.Close()
		})
	}
	return done, nil
}

// gitDied is git's exit status for fatal errors (die() in its usage.c).
const gitDied = 128

// explainFailure prints what the jail lacks that a failed command may have needed.
func explainFailure(call git.Call, err error) {
	if ended, exited := errors.AsType[*lifecycle.ExitError](err); exited && (!call.Own || !call.Reads && ended.Code == gitDied) {
		fmt.Fprintln(os.Stderr, "agentjail git: it ran in a jail, without a network, without your keys and settings, and with the repository's own settings read-only")
	}
}
