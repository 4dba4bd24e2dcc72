// Package lifecycle implements the container life cycle: load, policy, harden, stage, delegate,
// start. The command line and the shim both call it; an entry point that bypassed it would
// create unhardened containers.
//
// # Where to begin
//
// Runtime has a method for each verb: Create (create.go), Start, Exec (exec.go), Update, Kill,
// Delete. The list creation in create.go has the steps of Create, in order, each with the function
// that undoes it.
//
// # Failure
//
// A step that fails has all earlier ones undone, in reverse order. A process that is killed in
// between leaves a record of package state, by which delete or GC removes the rest.
package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sirupsen/logrus"

	"agentjail.dev/runtime/delegate"
	"agentjail.dev/runtime/kernel/rootless"
	"agentjail.dev/runtime/kernel/thread"
	"agentjail.dev/runtime/network/helper"
	"agentjail.dev/runtime/observe/account"
	"agentjail.dev/runtime/refusal"
	"agentjail.dev/runtime/rootfs"
	"agentjail.dev/runtime/spec/policy"
	"agentjail.dev/runtime/state"
	"agentjail.dev/runtime/workspace"
)

// Globals are runc's global options, as the engine set them.
type Globals struct {
	Root          string // --root, "" for the delegate's own default
	Log           string
	LogFormat     string
	Debug         bool
	SystemdCgroup bool
	Rootless      string
}

// Args are the options for the delegate.
func (g Globals) Args() []string {
	var out []string
	for _, o := range [][2]string{{"--root", g.Root}, {"--log", g.Log}, {"--log-format", g.LogFormat}, {"--rootless", g.Rootless}} {
		if o[1] != "" {
			out = append(out, o[:]...)
		}
	}
	if g.Debug {
		out = append(out, "--debug")
	}
	if g.SystemdCgroup {
		out = append(out, "--systemd-cgroup")
	}
	return out
}

// Runtime holds the state that the steps share.
type Runtime struct {
	Store   state.Store
	Globals Globals
	// Policy is for new jails. An existing jail has the policy that it was made with. If LoadPolicy
	// is not nil, it fills Policy when an existing jail needs it after all.
	Policy     policy.Policy
	LoadPolicy func() (policy.Policy, error)
	Log        *logrus.Logger
	// Trace, if not nil, receives the duration of each step.
	Trace func(step string, d time.Duration)
	// Stdio replace our standard files, where not nil: they are passed to the delegate, and to a
	// jail that has no terminal.
	Stdio [3]*os.File
	// ExitStatus, if not nil, returns the exit status of a container's first process that this
	// process has waited for (account.Book).
	ExitStatus func(id string) (status uint32, known bool)
	// Stay keeps this process, which serves other calls too. Otherwise the delegate replaces this
	// process for a verb after which nothing is left to do.
	Stay bool
}

// stdio returns the three standard files.
func (r *Runtime) stdio() [3]*os.File {
	files := r.Stdio
	for i, own := range [...]*os.File{os.Stdin, os.Stdout, os.Stderr} {
		if files[i] == nil {
			files[i] = own
		}
	}
	return files
}

// out returns the standard output.
func (r *Runtime) out() *os.File { return r.stdio()[1] }

// ExitError makes the command line exit with the status of the delegate, which has printed its
// error itself.
type ExitError struct{ Code int }

// Error returns the status as text.
func (e *ExitError) Error() string { return fmt.Sprintf("the delegate exited with status %d", e.Code) }

// Ended returns the error of a delegate's exit status: nil for 0.
func Ended(status int) error { return exitError(status, nil) }

// A StatusError is an error of ours with the exit status that the delegate's own would have: for
// failures before the delegate is called.
type StatusError struct {
	Code int
	Err  error
}

// Error returns the inner error's text: the caller sets the status.
func (e *StatusError) Error() string { return e.Err.Error() }

// Unwrap returns the error itself.
func (e *StatusError) Unwrap() error { return e.Err }

// ExitOwn is the exit status of a command that runs a program, for failures before the program
// runs. Any other status is the program's.
const ExitOwn = 125

// OwnFailure sets ExitOwn on an error that has no status yet, or the delegate's.
func OwnFailure(err error) error {
	if _, has := errors.AsType[*StatusError](err); has || err == nil {
		return err
	}
	if _, delegates := errors.AsType[*ExitError](err); delegates {
		return &ExitError{ExitOwn}
	}
	return &StatusError{Code: ExitOwn, Err: err}
}

// Status returns the exit status of a call that returned err.
func Status(err error) int {
	if err == nil {
		return 0
	}
	if exit, ok := errors.AsType[*ExitError](err); ok {
		return exit.Code
	}
	if status, ok := errors.AsType[*StatusError](err); ok {
		return status.Code
	}
	return 1
}

func exitError(code int, err error) error {
	if err != nil || code == 0 {
		return err
	}
	return &ExitError{code}
}

// step times a step for the trace.
func (r *Runtime) step(name string) func() {
	if r.Trace == nil {
		return func() {}
	}
	start := time.Now()
	return func() { r.Trace(name, time.Since(start)) }
}

// book returns the writer of the jails' journals.
func (r *Runtime) book() account.Book {
	return account.Book{Store: r.Store, Log: r.Log, Step: r.step, ExitStatus: r.ExitStatus}
}

// ownDelegate is the delegate's root of the jails that are a process's own (CreateOptions.Spec),
// below the store's.
const ownDelegate = "sandbox/delegate"

func ownRoot(s state.Store) string { return filepath.Join(s.Root, ownDelegate) }

// key returns the key of the jail with this id. If the caller names no delegate root and the
// delegate's default root has no such jail, the only other root that has one is used, and becomes
// the caller's from then on.
func (r *Runtime) key(id string) (string, error) {
	if err := state.CheckID(id); err != nil {
		return "", err
	}
	key := state.Key(r.Globals.Root, id)
	if r.Globals.Root != "" || r.Store.Exists(key) {
		return key, nil
	}
	found, err := r.Store.WithID(id)
	if err != nil || len(found) != 1 {
		return key, err
	}
	r.Globals.Root = found[0].DelegateRoot
	return found[0].Key, nil
}

// find loads the jail's record. It returns nil for a container that is not ours.
func (r *Runtime) find(id string) (*state.Brief, error) {
	j, err := r.findAny(id)
	if err == nil && j != nil && j.Elsewhere() {
		return nil, elsewhere(id)
	}
	return j, err
}

// findAny is find that also returns a jail of another PID namespace.
func (r *Runtime) findAny(id string) (*state.Brief, error) {
	j, err := load(r, id, r.Store.Brief)
	if err != nil || j == nil {
		return nil, err
	}
	return r.Store.Complete(j), nil
}

// load loads a record by the container's id. It returns nil if there is none.
func load[T any](r *Runtime, id string, by func(key string) (*T, error)) (*T, error) {
	key, err := r.key(id)
	if err != nil {
		return nil, err
	}
	j, err := by(key)
	if errors.Is(err, state.ErrNotFound) {
		return nil, nil
	}
	return j, err
}

// elsewhere returns the error for a jail of another PID namespace, whose processes are not known.
func elsewhere(id string) error { return fmt.Errorf("container %q: %w", id, state.ErrElsewhere) }

// findAll is find for the whole record; a container that is not ours is an error.
func (r *Runtime) findAll(id string) (*state.Jail, error) {
	j, err := load(r, id, r.Store.Load)
	switch {
	case err != nil:
		return nil, err
	case j == nil:
		return nil, errNotOurs(id)
	case j.Elsewhere():
		return nil, elsewhere(id)
	}
	r.Store.Complete(&j.Brief)
	return j, nil
}

// delegateFor returns the delegate that made the jail, or the policy's for an unknown container.
func (r *Runtime) delegateFor(j *state.Brief) (*delegate.Runtime, error) {
	var d *delegate.Runtime
	var err error
	if j == nil && r.LoadPolicy != nil {
		if r.Policy, err = r.LoadPolicy(); err != nil {
			return nil, err
		}
	}
	if j == nil {
		d, err = delegate.Choose(r.Policy.Delegate, r.Store.Root)
	} else if d, err = delegate.Resolve(j.Delegate); err == nil {
		d.Container = j.ID
	}
	if err == nil {
		d.Stdio = r.Stdio
	}
	return d, err
}

// handOver leaves the rest of the call to the delegate.
func (r *Runtime) handOver(d *delegate.Runtime, args []string) error {
	if r.Stay {
		return exitError(d.Run(args, delegate.Time{}))
	}
	return d.Exec(args)
}

// Pass passes a verb to the delegate unchanged. If nothing is left to do afterwards the delegate
// replaces this process.
func (r *Runtime) Pass(id string, args []string) error {
	j, err := r.find(id)
	if err != nil {
		return err
	}
	verb := args[0]
	if err := needsGroups(j, verb); err != nil {
		return err
	}
	d, err := r.delegateFor(j)
	if err != nil {
		if verb == "kill" && j != nil && isKILL(args) {
			return j.EndInit(endPatience) // also without the delegate, which may have been removed
		}
		return err
	}
	if j == nil {
		if d.Traits().Sandbox != "" {
			return errNotOurs(id)
		}
		return r.handOver(d, append(r.Globals.Args(), args...))
	}
	sandboxed := sandboxOf(j) != ""
	switch verb {
	case "pause":
		if sandboxed && !j.Started {
			// gVisor stops the guest kernel for good, and fails (runsc/container/container.go,
			// Pause).
			return fmt.Errorf("container %q is not started: a sandbox cannot be paused before that", id)
		}
	case "kill":
		if sandboxed && !j.InitAlive() {
			return errors.New("container not running") // runc's message, which engines look for
		}
		if ownsProcesses(j.InitPid) {
			args = withoutAll(args)
		}
	case "ps":
		if alive := j.InitAlive(); slices.Contains(args, "json") && (sandboxed || !alive && d.Traits().PsNeedsGroup) {
			pids := "" // an engine looks for the numbers among the host's
			if alive {
				pids = strconv.Itoa(j.InitPid)
			}
			_, err := fmt.Fprintf(r.out(), "[%s]\n", pids)
			return err
		}
	}
	if mayUseCopied(args) {
		r.chownCopied(j)
	}
	args = append(r.Globals.Args(), args...)
	if !j.OwnTime {
		return r.handOver(d, args)
	}
	defer r.step("delegate " + verb)()
	return exitError(r.run(d, j, args))
}

// needsGroups refuses a verb that works by control groups for a sandbox without root: it has none.
func needsGroups(j *state.Brief, verb string) error {
	remedy := map[string]string{
		"ps": "agentjail exec ID ps ax", "events": "agentjail inspect ID",
		"pause": "sudo agentjail sandbox", "resume": "sudo agentjail sandbox", "update": "sudo agentjail sandbox",
	}[verb]
	if remedy == "" || j == nil || !j.Bound || !rootless.Inside() {
		return nil
	}
	return refusal.New(refusal.Verb, "a sandbox without root has no control groups").About("%s", verb).WithRemedy("%s", remedy)
}

// mayUseCopied reports whether a verb may have the jail or an engine use a file that was put into
// the jail: signals that make a server read its settings again, and the pause before `docker
// commit`.
func mayUseCopied(args []string) bool {
	switch args[0] {
	case "pause":
		return true
	case "kill":
		return !slices.Contains([]string{"", "9", "KILL", "15", "TERM"}, signalOf(args))
	}
	return false
}

// inTime opens the jail's time namespace for a delegate that has to be in it: elsewhere the first
// process has another start time, and the delegate takes it for ended. An exiting process has no
// namespaces left, and still runs until all others of its process namespace have ended
// (pid_namespaces(7)): that is waited for.
func inTime(j *state.Brief) (delegate.Time, error) {
	if j == nil || !j.OwnTime || !j.InitAlive() {
		return delegate.Time{}, nil
	}
	f, err := os.Open(fmt.Sprintf("/proc/%d/ns/time", j.InitPid))
	switch {
	case err == nil:
		return delegate.Time{Join: f}, nil
	case errors.Is(err, os.ErrNotExist):
		return delegate.Time{}, j.AwaitInit(endPatience)
	case !j.InitAlive():
		return delegate.Time{}, nil
	}
	return delegate.Time{}, fmt.Errorf("opening the jail's time namespace: %w", err)
}

// run runs the delegate to its end, in the time namespace of a jail.
func (r *Runtime) run(d *delegate.Runtime, j *state.Brief, args []string) (status int, err error) {
	t, err := inTime(j)
	if err != nil {
		return -1, err
	}
	if t.Join != nil {
		defer t.Join.Close()
	}
	return d.Run(args, t)
}

// deleteByDelegate has the delegate delete a jail. The helper ends first: its control group can be
// below a group that the delegate removes. gVisor removes no group that has another below it: for a
// sandbox the helper's group is removed, too.
func (r *Runtime) deleteByDelegate(d *delegate.Runtime, j *state.Brief, args []string) (status int, err error) {
	end := helper.Kill
	if sandboxOf(j) != "" {
		end = helper.End
	}
	if err := end(r.Store.Dir(j.Key)); err != nil {
		return -1, err
	}
	return r.run(d, j, args)
}

// cleanup undoes all that was made for a jail. It is idempotent and goes as far as it can.
func (r *Runtime) cleanup(j *state.Brief) error {
	parts := r.book().Parts(j)
	// The helper's end is waited for at the same time as the kernel's unmounting.
	helped := thread.Beside(func() error { return helper.End(r.Store.Dir(j.Key)) })
	errs := []error{detach(r.Store, j), removeCgroups(j), <-helped, removeLeavings(j)}
	if err := errors.Join(errs...); err != nil {
		return err // keep the record: the next attempt needs it
	}
	warn := func(err error) {
		if err != nil {
			r.Log.Warnf("%v (`agentjail gc` tries again)", err)
		}
	}
	warn(r.Store.Ledger().Remove(j.Key))
	if len(j.Reviews) > 0 {
		warn(workspace.Of(r.Store).End(j.Key))
	}
	r.book().Gone(j)
	warn(registry(r.Store).Unregister(r.Store.Dir(j.Key), j.Key))
	if err := r.Store.Remove(j.Key); err != nil {
		return err
	}
	// The range goes last: another jail must not get it while anything of this jail is left.
	if err := r.Store.Release(j.Userns, j.IDs, j.Key); err != nil {
		return err
	}
	r.book().Teardown(j, parts)
	return nil
}

// detach unmounts the jail's mounts in the host's mount namespace. Each unmount waits for the
// kernel (synchronize_rcu), at the same time as the other.
func detach(s state.Store, j *state.Brief) error {
	if j.EngineRoot == "" || j.EngineRootDev == 0 {
		return nil
	}
	changes := thread.Beside(func() error { return rootfs.DetachChanges(s.Dir(j.Key)) })
	err := rootfs.Detach(j.EngineRoot, j.EngineRootDev)
	return errors.Join(err, <-changes)
}

// GC reclaims what crashes left: of jails, of any boot, whose processes have ended and for which no
// delete is to come, and ids that no jail has. It returns the keys of the reclaimed jails.
//
// GC stops between two jails when ctx ends, and reports it. Any other errors, joined, are of jails
// that could not be reclaimed: they stay recorded for another GC, and the others are reclaimed all
// the same.
func (r *Runtime) GC(ctx context.Context) ([]string, error) { return r.gc(ctx, -1, "") }

// GCOf is GC of the jails with these ids, whatever the delegate's root. It waits for another
// process that removes one of them, since that one may be killed.
func (r *Runtime) GCOf(ids []string) (reaped []string, err error) {
	var errs []error
	for _, id := range ids {
		keys, err := r.Store.KeysOf(id)
		errs = append(errs, err)
		for _, k := range keys {
			got, err := r.Store.Reclaim(k, true, r.reap)
			if got {
				reaped = append(reaped, k)
			}
			errs = append(errs, err)
		}
	}
	return reaped, errors.Join(errs...)
}

// gc is GC of all jails but one. max bounds the jails looked at; below 0 means all.
func (r *Runtime) gc(ctx context.Context, max int, but string) ([]string, error) {
	// Placeholders outlive a boot, and records do not.
	if err := r.Store.Ledger().Sweep(r.Store.Exists); err != nil && max < 0 {
		r.Log.Warnf("removing placeholders: %v", err)
	}
	if max >= 0 {
		r.reclaimOwn(but)
	}
	reaped, err := r.Store.Sweep(ctx, max, but, r.reap)
	if max < 0 {
		err = errors.Join(err, registry(r.Store).Sweep(), workspace.Of(r.Store).Sweep(r.Store.Exists))
	}
	return reaped, err
}

// maxOwn bounds how many jails that end with their makers each create looks at. No engine deletes
// those: each create looks at all of them if they are few.
const maxOwn = 16

// reclaimOwn reclaims jails that were to end with their maker, which has ended.
func (r *Runtime) reclaimOwn(but string) {
	keys, err := r.Store.Keys()
	if err != nil {
		return
	}
	prefix := state.Key(ownRoot(r.Store), "")
	keys = slices.DeleteFunc(keys, func(k string) bool { return k == but || !strings.Contains(k, prefix) })
	for _, k := range keys[:min(len(keys), maxOwn)] {
		_, _ = r.Store.Reclaim(k, false, r.reap) // `agentjail gc` reports failures
	}
}

// reap undoes all that was made for a dead jail.
func (r *Runtime) reap(j *state.Brief) error {
	r.Store.Complete(j)
	if !j.Dead() {
		return nil
	}
	if j.BootID != state.BootID() {
		j.EngineRoot, j.CgroupDirs = "", nil // gone with that boot
		return r.cleanup(j)
	}
	if err := j.EndInit(endPatience); err != nil {
		return err
	}
	// The delegate may still know it.
	r.book().End(j, nil)
	if processesGone(j) || tornRecord(j) {
		if err := removeDelegateState(j); err != nil {
			return err
		}
	} else if _, err := os.Lstat(j.DelegateState()); err == nil {
		if d, err := r.delegateFor(j); err == nil {
			g := Globals{Root: j.DelegateRoot, SystemdCgroup: j.SystemdCgroup}
			if code, err := r.deleteByDelegate(d, j, append(g.Args(), "delete", "--force", j.ID)); err != nil || code != 0 {
				return fmt.Errorf("the delegate's delete --force failed (status %d): %v", code, err)
			}
		}
	}
	return r.cleanup(j)
}

// endPatience is how long a killed first process may take to end; a variable for tests.
var endPatience = 10 * time.Second
