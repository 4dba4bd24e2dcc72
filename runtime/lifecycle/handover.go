package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/delegate"
	"agentjail.dev/runtime/internal/crash"
	"agentjail.dev/runtime/internal/ringfault"
	"agentjail.dev/runtime/kernel/thread"
	"agentjail.dev/runtime/lifecycle/firstproc"
	"agentjail.dev/runtime/observe/account"
	"agentjail.dev/runtime/observe/journal"
	"agentjail.dev/runtime/spec/report"
	"agentjail.dev/runtime/state"
)

// connectTerminal prepares a run: it connects the jail's terminal with ours.
func (a *attempt) connectTerminal() (err error) {
	process := a.spec.Process
	if !a.o.Run || a.o.Detach {
		return nil
	}
	// When the delegate ends, the jail's first process becomes our child, so that it can be waited
	// for.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("becoming a child subreaper: %w", err)
	}
	if !process.Terminal || a.o.ConsoleSocket != "" {
		return nil
	}
	if a.tty, err = newTerminal(a.rt.Store.Dir(a.j.Key)); err != nil {
		return err
	}
	a.always(a.tty.close)
	a.o.ConsoleSocket = a.tty.path
	return nil
}

// createContainer has the delegate make the container, whose first process then waits.
func (a *attempt) createContainer() error {
	r := a.rt
	if err := enterNetwork(a.network); err != nil {
		return err
	}
	if err := leaveLSM(a.d, a.spec.Process); err != nil {
		return err
	}
	d, standIns, err := r.standFor(a.d, a.spec.Process, a.j.IDs, a.stays())
	if err != nil {
		return err
	}
	a.standIns = standIns
	a.always(a.standIns.close)
	a.onFailure(a.abandonContainer)
	launched := a.launchHelper()
	name, image := a.in.EngineNames()
	identity := account.Identity(a.j, name, image, a.in.Root.Name(), a.rep)
	identity.Record = a.in.Record()
	beside := r.whileDelegateRuns(a.ctx, a.j, a.rep, identity, a.bundle.Saved)
	args := delegate.StartArgs{
		ID: a.o.ID, Bundle: a.bundle.Dir, PidFile: r.Store.PidFile(a.j.Key),
		ConsoleSocket: a.o.ConsoleSocket, PidfdSocket: a.o.PidfdSocket, Files: len(a.files.Passed),
	}
	d.Sandbox = a.sandboxOptions()
	score := 0
	if sandboxOf(&a.j.Brief) != "" { // all of the sandbox's processes are to inherit it
		score = firstproc.OOMScore(a.j.Process)
	}
	code, err := d.RunInto(a.files.Passed, append(r.Globals.Args(), args.Create()...), a.timeNS, score, false)
	a.standIns.started()
	a.files.Close()
	besideErr := errors.Join(<-beside, <-launched)
	if err := r.explainFilterError(exitError(code, err)); err != nil {
		return err
	}
	a.containerCreated = true
	if besideErr != nil {
		return besideErr
	}
	crash.Point("create.delegated")
	return nil
}

// launchHelper has the network mode start its helper while the delegate works and this process
// would only wait.
func (a *attempt) launchHelper() <-chan error {
	jail := a.rt.Networks().Of(&a.j.Brief)
	return thread.Beside(func() error {
		if ringfault.Ring(2) {
			return nil
		}
		defer a.rt.step("launch")()
		return a.mode.Launch(jail)
	})
}

// abandonContainer removes the container if the delegate has made it, or begun to: the container
// must not start.
func (a *attempt) abandonContainer() {
	r := a.rt
	if _, err := os.Lstat(a.j.DelegateState()); err != nil && !a.containerCreated {
		return
	}
	if _, err := r.deleteByDelegate(a.d, &a.j.Brief, append(r.Globals.Args(), "delete", "--force", a.j.ID)); err != nil {
		r.Log.Warnf("removing a container that must not start: %v", err)
	}
}

// whileDelegateRuns does the work that no other step waits for, while the delegate works and this
// process would only wait. It saves the report, begins the journal, and reclaims a few dead jails.
// `agentjail gc` reports the failures to reclaim. The work runs on another thread, in the host's
// mount namespace.
func (r *Runtime) whileDelegateRuns(ctx context.Context, j *state.Jail, rep *report.Report, identity journal.Created,
	config []byte,
) <-chan error {
	return thread.Beside(func() error {
		defer r.step("beside")()
		if err := r.Store.SaveReport(&j.Brief, rep); err != nil {
			return err
		}
		if err := r.book().Begin(j, rep, identity, config); err != nil {
			return err
		}
		_, _ = r.gc(ctx, 2, j.Key)
		return nil
	})
}
