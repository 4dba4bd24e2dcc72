package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/delegate"
	"agentjail.dev/runtime/facts"
	"agentjail.dev/runtime/harden"
	"agentjail.dev/runtime/internal/crash"
	"agentjail.dev/runtime/jailinit/host"
	"agentjail.dev/runtime/kernel/idmap"
	"agentjail.dev/runtime/kernel/thread"
	"agentjail.dev/runtime/network/modes"
	"agentjail.dev/runtime/observe/journal"
	"agentjail.dev/runtime/rootfs"
	"agentjail.dev/runtime/spec/bindsource"
	"agentjail.dev/runtime/spec/bundle"
	"agentjail.dev/runtime/spec/credential"
	"agentjail.dev/runtime/spec/report"
	"agentjail.dev/runtime/state"
	"agentjail.dev/seccomp/cache"
)

// CreateOptions are the options of create and run.
type CreateOptions struct {
	ID     string
	Bundle string
	// Spec, if not nil, is used instead of a bundle: the jail belongs to this process, and ends
	// with it.
	Spec *specs.Spec
	// Signals, if not nil, were taken before Create. Create restores them with it.
	Signals *Signals
	// Init keeps the init step as the first process: it passes signals on to the program, reaps the
	// program's orphans, and ends the jail when this process ends.
	Init bool
	// Run starts the jail at once and, unless Detach, waits for its end.
	Run, Detach   bool
	PidFile       string
	ConsoleSocket string
	PidfdSocket   string
	// Denied are requested options of the runtime that no jail gets.
	Denied []string
	// PlainRoot keeps the host owners of the root's files: for the host's own file tree, in which
	// root's private files must stay unreadable.
	PlainRoot bool
	// Parts are read-only mounts of that tree's own places, at their own paths.
	Parts []string
	// Invoker is the user on whose behalf root makes the jail, who must own what is mounted; 0 is
	// root itself.
	Invoker uint32
	// Image, if not nil, is the source of the mount at its place.
	Image *bindsource.Image
	// View is the name or id of the view in which the first reviewed directory is continued. If
	// there is no view of that name, a new view gets it.
	View string
	// Watch, if not nil, is notified of a jail that Create runs and waits for.
	Watch Watcher
}

// A Watcher is notified of a jail that is run: when the jail is made and its program does not run
// yet, and when the jail has ended and its directory still exists.
type Watcher interface {
	Made(*state.Jail) error
	Ended(*state.Jail)
}

// Create makes a jail from a bundle and leaves its first process waiting for Start. With Run it
// also starts the jail and, unless Detach, waits for its end and removes it.
//
// A refusal is a refusal.Error, or several joined. An ExitError is the exit status of the delegate,
// which printed its error itself, or with Run that of the jail's program. Any other error is
// agentjail's or the host's. After an error nothing is left of the jail. A failure to remove
// something is logged, and GC tries again.
//
// The calling thread is changed for good: it must end with its goroutine.
func (r *Runtime) Create(ctx context.Context, o CreateOptions) error {
	if err := state.CheckID(o.ID); err != nil {
		return err
	}
	if r.Policy.Passthrough {
		return errors.New("this policy passes calls through to the delegate: it makes no jails")
	}
	// This thread gets its own mount namespace. The delegate, which dies with the thread, is
	// started in it. The namespace is never left again.
	runtime.LockOSThread()
	defer expediteMoves()()
	a, err := r.newAttempt(ctx, o)
	if err != nil {
		return err
	}
	return a.create()
}

// An attempt is the making of one jail: the results of the steps so far, and how to undo them.
type attempt struct {
	rt   *Runtime
	ctx  context.Context
	o    CreateOptions
	d    *delegate.Runtime
	caps delegate.Caps
	j    *state.Jail

	in          *facts.Gathered // loadBundle
	res         *harden.Result  // hardenSpec
	rep         *report.Report  // hardenSpec
	filter      *cache.Filter   // hardenSpec
	spec        *specs.Spec     // hardenSpec; changed by stageRoot and writeBundle
	userns      *userNS         // openUserNS; nil where the delegate makes it
	staged      *rootfs.Staged  // stageRoot
	innerFilter []byte          // writeFilter: the filter that the init step loads
	// keys are the jail's own, with the private parts, from hardenSpec to recordDecisions.
	keys    credential.Issued
	mode    modes.Mode    // prepareNetwork
	network *os.File      // prepareNetwork; nil for a network that the delegate makes or joins
	timeNS  delegate.Time // writeBundle
	domain  string        // writeBundle: the UTS domain name that we set ourselves
	// ownPages are limits of huge pages that the delegate cannot set: writeBundle.
	ownPages         []specs.LinuxHugepageLimit
	files            *host.Files    // writeBundle: the init step's
	bundle           *bundle.Bundle // writeBundle: the delegate's
	standIns         *standIns      // createContainer
	tty              *terminal      // connectTerminal; nil where it is not ours to pass on
	containerCreated bool           // createContainer: there is a container
	signals          *Signals       // newAttempt; nil where they are not ours to pass on

	undo []undo
}

// creation lists the steps that make a jail, in order. Each name is that of the trace for its
// functions.
var creation = []struct {
	name string
	run  []func(*attempt) error
}{
	{"load", []func(*attempt) error{(*attempt).loadBundle}},
	{"harden", []func(*attempt) error{(*attempt).assignIDs, (*attempt).hardenSpec, (*attempt).recordDecisions}},
	{"user namespace", []func(*attempt) error{(*attempt).openUserNS}},
	{"stage", []func(*attempt) error{(*attempt).stageRoot}},
	{"write", []func(*attempt) error{
		(*attempt).writeFilter, (*attempt).prepareNetwork, (*attempt).writeBundle, (*attempt).attachRoot,
	}},
	{"delegate create", []func(*attempt) error{(*attempt).connectTerminal, (*attempt).createContainer}},
	{"settle", []func(*attempt) error{(*attempt).checkContainer}},
}

// newAttempt chooses the delegate and claims the id.
func (r *Runtime) newAttempt(ctx context.Context, o CreateOptions) (*attempt, error) {
	if o.Spec != nil && r.Globals.Root == "" {
		if _, err := r.Store.Private(filepath.Dir(ownDelegate)); err != nil {
			return nil, err
		}
		r.Globals.Root = ownRoot(r.Store)
	}
	done := r.step("delegate")
	d, err := r.delegateFor(nil)
	if err != nil {
		return nil, err
	}
	d.Container = o.ID
	caps, err := d.Capabilities(r.Store.Root)
	if err != nil {
		return nil, err
	}
	done()
	j, err := r.newRecord(o, d)
	if err != nil {
		return nil, err
	}
	a := &attempt{rt: r, ctx: ctx, o: o, d: d, caps: caps, j: j}
	if a.stays() {
		if a.signals = o.Signals; a.signals == nil {
			a.signals = TakeSignals(false)
		}
		a.always(a.signals.stop)
	}
	if err := r.claim(j); err != nil {
		a.signals.stop()
		return nil, err
	}
	a.onFailure(a.unclaim)
	crash.Point("create.claimed")
	return a, nil
}

// stays reports that this process waits for the jail's end.
func (a *attempt) stays() bool { return a.o.Run && !a.o.Detach }

// create runs the steps and, with Run, the jail. A panic in them is an error.
func (a *attempt) create() error {
	err := thread.Caught(a.runSteps)
	failed := err != nil && !a.programEnded(err)
	a.runUndo(failed)
	if failed {
		_ = onHostThread(func() error { a.rt.book().Refused(&a.j.Brief, journal.JailRefused, err); return nil })
		if a.o.Spec != nil {
			err = OwnFailure(err)
		}
	}
	return err
}

func (a *attempt) runSteps() error {
	for _, s := range creation {
		done := a.rt.step(s.name)
		for _, run := range s.run {
			if err := errors.Join(run(a), a.signals.interrupted()); err != nil {
				return err
			}
		}
		done()
	}
	if a.o.Run {
		return a.runProgram()
	}
	return nil
}

// programEnded reports whether an error is the end of a jail that ran and was removed.
func (a *attempt) programEnded(err error) bool {
	_, ended := errors.AsType[*ExitError](err)
	return a.o.Run && ended && a.j.Started
}

// An undo reverts what a step did.
type undo struct {
	run func()
	// failed marks an action for failures alone. Any other releases what only the making of the
	// jail needs.
	failed bool
}

// always registers f to run at the end, before the functions that were registered earlier.
func (a *attempt) always(f func()) { a.undo = append(a.undo, undo{f, false}) }

// onFailure registers f for an end without a jail.
func (a *attempt) onFailure(f func()) { a.undo = append(a.undo, undo{f, true}) }

// runUndo runs the registered functions, the last one first.
func (a *attempt) runUndo(failed bool) {
	for _, u := range slices.Backward(a.undo) {
		if failed || !u.failed {
			u.run()
		}
	}
	a.undo = nil
}

// newRecord begins the jail's record.
func (r *Runtime) newRecord(o CreateOptions, d *delegate.Runtime) (*state.Jail, error) {
	key := state.Key(r.Globals.Root, o.ID)
	bundle, err := filepath.Abs(o.Bundle)
	if err != nil {
		return nil, fmt.Errorf("bundle %q: %w", o.Bundle, err)
	}
	if o.Spec != nil {
		bundle = r.Store.Dir(key)
	}
	self, err := state.Recorded(os.Getpid())
	if err != nil {
		return nil, fmt.Errorf("reading this process's start time: %w", err)
	}
	j := &state.Jail{
		Brief: state.Brief{
			ID: o.ID, Key: key, DelegateRoot: r.Globals.Root, Delegate: d.Path,
			Bundle: bundle, BootID: self.BootID, PIDNS: self.PIDNS, CreatorPid: self.Pid, CreatorStart: self.Start,
			Bound: o.Spec != nil, Stays: o.Init, Invoker: o.Invoker,
			SystemdCgroup: r.Globals.SystemdCgroup, IDs: idmap.Map{Block: -1}, Userns: r.Policy.Userns,
			PacketFilter: r.Policy.Network.Filter,
		},
		Policy: r.Policy,
	}
	return j, r.book().Choose(&j.Brief, r.Policy.Journal)
}

// claim takes the id, also from a dead jail that was never deleted.
func (r *Runtime) claim(j *state.Jail) error {
	err := r.Store.Create(j)
	if !errors.Is(err, state.ErrExists) {
		return err
	}
	unlock, lerr := r.Store.Lock(j.Key)
	if errors.Is(lerr, state.ErrNotFound) {
		return r.Store.Create(j) // gone meanwhile
	}
	if lerr != nil {
		return lerr
	}
	defer unlock()
	old, lerr := r.Store.Brief(j.Key)
	switch {
	case errors.Is(lerr, state.ErrNotFound): // an interrupted Remove
		lerr = r.Store.Remove(j.Key)
	case lerr == nil && !r.Store.Complete(old).Dead():
		return err
	case lerr == nil:
		lerr = r.cleanup(old)
	}
	if lerr != nil {
		return lerr
	}
	return r.Store.Create(j)
}

// unclaim undoes all that was made for the jail.
func (a *attempt) unclaim() {
	// This runs in the host's mount namespace: in this thread's own, the jail's root is busy.
	if err := onHostThread(func() error { return a.rt.cleanup(&a.j.Brief) }); err != nil {
		a.rt.Log.Warnf("cleaning up after a failed create: %v", err)
	}
}

// onHostThread runs f on a thread in the host's mount namespace, which the thread of Create has
// left for good: no other goroutine runs on that.
func onHostThread(f func() error) error { return <-thread.Beside(f) }
