package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/inspect"
	"agentjail.dev/runtime/kernel/atomicfile"
	"agentjail.dev/runtime/kernel/invoker"
	"agentjail.dev/runtime/kernel/printable"
	"agentjail.dev/runtime/kernel/rootless"
	"agentjail.dev/runtime/lifecycle"
	"agentjail.dev/runtime/observe/learn"
	"agentjail.dev/runtime/refusal"
	"agentjail.dev/runtime/spec/traits"
	"agentjail.dev/runtime/state"
)

func learnCommand() *cli.Command {
	return &cli.Command{
		Name: "learn", Usage: "make a policy from what runs do: system calls, names, limits", ArgsUsage: "[--] COMMAND [ARG...]",
		Description: `Runs COMMAND as ` + "`agentjail sandbox`" + ` does, or watches the jails of --from until
they exit or you press Ctrl-C. Then it prints a list of the
system calls that were made, with conditions on their arguments and reasons, what to
write into the policy, what the profile has and the runs never used, and what was
refused. Nothing is changed, unless --write names a directory.

What is learned lets through less than the runs' own profile, never more.

   agentjail learn --name build --workspace . -- make
   agentjail learn --name agent --from ID --write /etc/agentjail/seccomp`,
		Flags: append([]cli.Flag{
			&cli.StringSliceFlag{Name: "from", Usage: "watch the jail `ID` in place of running a command"},
			&cli.StringFlag{Name: "name", Value: "learned", Usage: "the `NAME` of the new policy"},
			&cli.StringFlag{Name: "write", Usage: "write NAME.json and NAME.toml to `DIR`"},
			jsonFlag,
		}, sandboxFlags()...),
		Action: runLearn,
	}
}

// hostsCalls refuses to look, from the host, at the system calls of a sandbox's jails: the host's
// kernel sees the sandbox's own.
func hostsCalls(delegate, what string) error {
	t := traits.Of(delegate)
	if t.Sandbox == "" {
		return nil
	}
	return refusal.New(refusal.Boundary, "the kernel of a %s answers the jail's system calls, and the host's does not see them", t.BoundaryName()).
		About("%s", what).WithRemedy("the same work over runc or crun")
}

// checkName refuses names that a policy cannot have: the name becomes part of a file's.
func checkName(name string) error {
	if !regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,63}$`).MatchString(name) {
		return usage("--name %q: small letters, digits, - and _", name)
	}
	return nil
}

func runLearn(c *cli.Context) error {
	if os.Geteuid() != 0 || rootless.Inside() {
		return fmt.Errorf("learn needs root, to look at the system calls of jails (remedy: %s)", rootless.WithSudo())
	}
	from := c.StringSlice("from")
	switch {
	case len(from) > 0 && c.NArg() > 0:
		return usage("learn takes a command or --from, not both")
	case len(from) == 0 && c.NArg() == 0:
		return usage("learn needs a command, or --from and a jail (see `agentjail learn --help`)")
	}
	if err := checkName(c.String("name")); err != nil {
		return err
	}
	if len(from) > 0 {
		return learnFrom(c, from)
	}
	r, err := caller.Runtime()
	if err != nil {
		return err
	}
	watch := &runRecorder{store: r.Store}
	defer watch.close()
	if err := watch.prepare(r.Policy.Seccomp.Profile); err != nil {
		return err
	}
	ran := runSandbox(c, watch)
	if _, exited := errors.AsType[*lifecycle.ExitError](ran); ran != nil && !exited || len(watch.runs) == 0 {
		return ran
	}
	o := learn.Options{
		Name: c.String("name"), Policy: watch.jail.Policy, Arch: runtime.GOARCH,
		Work: printable.Line(strings.Join(c.Args().Slice(), " "), 200),
	}
	if err := printLearned(c, o, watch.runs); err != nil {
		return err
	}
	return ran
}

// learnFrom watches existing jails.
func learnFrom(c *cli.Context, ids []string) error {
	var store state.Store
	var jails []*state.Jail
	for _, id := range ids {
		s, j, err := existingJail(c, id)
		if err != nil {
			return err
		}
		store = s
		if !j.InitAlive() {
			return fmt.Errorf("%s: %w", j.ID, inspect.ErrNotRunning)
		}
		if p := j.Policy.Seccomp.Profile; len(jails) > 0 && p != jails[0].Policy.Seccomp.Profile {
			return fmt.Errorf("%s has profile %s and %s has %s: learn narrows one profile", jails[0].ID, jails[0].Policy.Seccomp.Profile, j.ID, p)
		}
		jails = append(jails, j)
	}
	watch := &runRecorder{store: store}
	defer watch.close()
	if err := watch.prepare(jails[0].Policy.Seccomp.Profile); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(c.Context, unix.SIGINT, unix.SIGTERM)
	defer stop()
	for _, j := range jails {
		if err := watch.Made(j); err != nil {
			return err
		}
	}
	fmt.Fprintf(os.Stderr, "watching %s until they exit or you press Ctrl-C\n", strings.Join(ids, ", "))
	watch.untilEnd(ctx, jails)
	for _, j := range jails {
		watch.Ended(j)
	}
	o := learn.Options{Name: c.String("name"), Policy: jails[0].Policy, Arch: runtime.GOARCH, Work: strings.Join(ids, ", ")}
	return printLearned(c, o, watch.runs)
}

// lookEvery is how often the counters of watched jails are read: their control groups are removed
// with them.
const lookEvery = 100 * time.Millisecond

// untilEnd waits until no jail runs any more.
func (p *runRecorder) untilEnd(ctx context.Context, jails []*state.Jail) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		alive := false
		for _, j := range jails {
			if j.InitAlive() {
				alive = true
				p.readPeaks(j)
			}
		}
		if !alive {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// printLearned prints and writes the result.
func printLearned(c *cli.Context, o learn.Options, runs []learn.Run) error {
	r, err := learn.Make(o, runs...)
	if err != nil {
		return err
	}
	dir, file := c.String("write"), r.File()
	if dir != "" {
		if dir, err = filepath.Abs(dir); err != nil {
			return err
		}
		file = filepath.Join(dir, r.Name+".json")
		list, err := r.List.Text()
		if err != nil {
			return err
		}
		if err := invoker.Do(func() error {
			return cmp.Or(os.MkdirAll(dir, 0o755), atomicfile.Write(file, list, 0o644),
				atomicfile.Write(filepath.Join(dir, r.Name+".toml"), []byte(r.PolicyText(file)), 0o644))
		}); err != nil {
			return err
		}
	}
	return printResult(c, r, func(w io.Writer) error { return r.Text(w, file) })
}
