package lifecycle

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/delegate"
	"agentjail.dev/runtime/harden"
	"agentjail.dev/runtime/internal/crash"
	"agentjail.dev/runtime/kernel/atomicfile"
	"agentjail.dev/runtime/kernel/hostfacts"
	"agentjail.dev/runtime/kernel/mountinfo"
	"agentjail.dev/runtime/kernel/namespace"
	"agentjail.dev/runtime/kernel/thread"
	"agentjail.dev/runtime/lifecycle/jailnet"
	"agentjail.dev/runtime/network/helper"
	"agentjail.dev/runtime/observe/journal"
	"agentjail.dev/runtime/rootfs"
	"agentjail.dev/runtime/rootfs/procfiles"
	"agentjail.dev/runtime/spec/bundle"
	"agentjail.dev/runtime/spec/report"
	"agentjail.dev/runtime/state"
	"agentjail.dev/runtime/workspace"
)

// errNotOurs returns the error for a container that agentjail did not make: verbs that could loosen
// it are refused.
func errNotOurs(id string) error {
	return fmt.Errorf("container %q does not exist", id)
}

// Start seals the jail's network and starts its program. Engines put interfaces into the namespace
// between create and start.
//
// An ExitError is the exit status of the delegate, which printed its error itself: that of `start`
// on a container that runs or has ended. Any other error is agentjail's or the host's. After an
// error the jail waits as before, or its program runs: Delete removes it either way.
func (r *Runtime) Start(id string) error {
	j, err := r.find(id)
	if err != nil {
		return err
	}
	if j == nil {
		return errNotOurs(id)
	}
	if err := j.Understood(); err != nil {
		return err
	}
	var helper *jailnet.Serving
	if j.InitAlive() {
		if helper, err = r.Networks().Seal(j); err != nil {
			return fmt.Errorf("sealing the jail's network: %w", err)
		}
	}
	crash.Point("start.sealed")
	err = thread.Caught(func() error { return r.startCreated(j) })
	return errors.Join(err, helper.Wait())
}

// startCreated starts the program of a jail whose network is sealed.
func (r *Runtime) startCreated(j *state.Brief) error {
	r.chownCopied(j)
	if !j.Started {
		if j.InitAlive() {
			if err := updateCopies(j); err != nil {
				return err
			}
		}
		if err := r.Store.Start(j); err != nil {
			return err
		}
	}
	r.book().Note(j, journal.Event{Kind: journal.JailStart, Pid: j.InitPid})
	if r.Stay {
		go r.watchStarted(j.Key)
	}
	return r.startInit(j)
}

// updateCopies copies the engine's files again that changed since create.
func updateCopies(j *state.Brief) error {
	stale, err := rootfs.StaleCopies(j.Copies)
	if err != nil || len(stale) == 0 {
		return err
	}
	pid := j.MountsPid()
	if sandboxOf(j) != "" && j.HolderPid == 0 {
		at := stale[0].Path
		if pid, err = findHolder(j.InitPid, "the mount at "+at, func(mounts []mountinfo.Mount) bool {
			return slices.ContainsFunc(mounts, func(m mountinfo.Mount) bool { return m.Point == at })
		}); err != nil {
			return err
		}
	}
	return rootfs.RewriteSynthetic(j.CopiesDev, stale, func(f func() error) error { return namespace.InRoot(pid, f) })
}

// Update changes a running jail's limits, within policy. Nil changes none.
//
// A refusal is a refusal.Error, or several joined. An ExitError is the exit status of the delegate,
// which printed its error itself: the limits are then as they were, or some of them changed. After
// any other error the limits can hold while the jail's record and its files in /proc and /sys still
// show the former ones; another Update corrects that.
func (r *Runtime) Update(id string, in *specs.LinuxResources) error {
	j, err := r.findAll(id)
	if err != nil {
		return err
	}
	if err := needsGroups(&j.Brief, "update"); err != nil {
		return err
	}
	limits, rep, err := harden.Resources(in, j.Policy, harden.Facts{ID: id, Host: hostfacts.Read(), IDs: j.IDs})
	if err != nil {
		r.book().Refused(&j.Brief, journal.LimitsRefused, err)
		return err
	}
	r.logUnmet(rep)
	d, err := r.delegateFor(&j.Brief)
	if err != nil {
		return err
	}
	data, err := json.Marshal(d.Resources(limits))
	if err != nil {
		return fmt.Errorf("encoding the limits: %w", err)
	}
	file := filepath.Join(r.Store.Dir(j.Key), atomicfile.Unique("update-")+".json")
	if err := atomicfile.Write(file, data, 0o600); err != nil {
		return err
	}
	defer os.Remove(file)
	if err := exitError(r.run(d, &j.Brief, append(r.Globals.Args(), "update", "--resources", file, id))); err != nil {
		return err
	}
	r.book().Note(&j.Brief, append(lowered(rep), journal.Event{Kind: journal.LimitsUpdate, Value: string(data)})...)
	if err := helper.Follow(r.Store.Dir(j.Key), j.InitPid); err != nil {
		return err
	}
	return resize(r.Store, j, limits)
}

// lowered returns the limits of an update that policy has lowered or denied.
func lowered(rep *report.Report) []journal.Event {
	var out []journal.Event
	for _, c := range rep.Changes {
		if c.Kind == report.Lowered || c.Kind == report.Denied {
			out = append(out, journal.Event{Kind: journal.LimitsRefused, Target: c.Field, Value: c.Was, Limit: c.Now, Reason: c.Why})
		}
	}
	return out
}

// resize updates the jail's synthetic files and its record to new limits.
func resize(s state.Store, j *state.Jail, limits *specs.LinuxResources) error {
	j.Limits = harden.Updated(j.Limits, limits)
	if err := s.Save(j); err != nil {
		return err
	}
	if j.SyntheticDev == 0 || !j.InitAlive() || sandboxOf(&j.Brief) != "" {
		return nil
	}
	machine := procfiles.ReadHost()
	files := procfiles.Sized(procfiles.For(j.Limits, machine, "", time.Unix(j.Born, 0)), machine)
	err := rootfs.RewriteSynthetic(j.SyntheticDev, files, func(f func() error) error { return namespace.InMount(j.InitPid, f) })
	if err != nil && j.InitAlive() {
		return fmt.Errorf("writing the limits into the jail's files: %w", err)
	}
	return nil
}

// readInput reads a file that the caller named, which may be a pipe: shells make
// /dev/fd/N of a command's output.
func readInput(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := atomicfile.ReadAll(f, bundle.MaxConfig)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return data, nil
}

// ReadResources reads limits in the form of `update --resources`; "-" is
// standard input.
func (r *Runtime) ReadResources(path string) (*specs.LinuxResources, error) {
	var data []byte
	var err error
	if path == "-" {
		data, err = atomicfile.ReadAll(r.stdio()[0], bundle.MaxConfig)
	} else {
		data, err = readInput(path)
	}
	if err != nil {
		return nil, fmt.Errorf("reading limits: %w", err)
	}
	limits := new(specs.LinuxResources)
	if _, err := bundle.Decode(data, limits); err != nil {
		return nil, fmt.Errorf("reading limits: %w", err)
	}
	return limits, nil
}

// Delete removes a container and all that was made for it, and with force kills its processes
// first. With force a missing one is no error, as with runc. Of a jail of another PID namespace
// only the control groups are known: with force they must be empty.
//
// An ExitError is the exit status of the delegate, which printed its error itself: the container
// still runs, or does not exist. After any error the remains of the jail stay recorded. Another
// Delete, or GC once the jail's processes have ended, removes them.
func (r *Runtime) Delete(id string, force bool) error {
	key, err := r.key(id)
	if err != nil {
		return err
	}
	unlock, err := r.Store.Lock(key)
	switch {
	case err == nil:
		defer unlock()
	case !errors.Is(err, state.ErrNotFound):
		return err
	}
	j, err := r.findAny(id)
	if err != nil {
		return err
	}
	if j != nil && j.Elsewhere() && !force {
		return elsewhere(id)
	}
	if j != nil && processesGone(j) {
		return r.deleteWithoutDelegate(j, force)
	}
	d, err := r.delegateFor(j)
	if j != nil && (err != nil || tornRecord(j)) && (force || !j.InitAlive()) {
		return r.deleteUnknown(j, force)
	}
	if err != nil {
		return err
	}
	if j == nil && d.Traits().Sandbox != "" {
		if force {
			return nil
		}
		return errNotOurs(id)
	}
	args := append(r.Globals.Args(), "delete")
	if force || j != nil && sandboxOf(j) != "" && !j.InitAlive() {
		args = append(args, "--force") // a sandbox's record shows for seconds that it runs
	}
	args = append(args, id)
	if j == nil {
		return r.handOver(d, args)
	}
	return r.deleteJail(d, j, args, force)
}

// deleteUnknown removes a jail of which the delegate knows nothing any more, or which has no
// delegate: it may have been removed from the host, or replaced by another release.
func (r *Runtime) deleteUnknown(j *state.Brief, force bool) error {
	if err := j.EndInit(endPatience); err != nil {
		return err
	}
	return r.deleteWithoutDelegate(j, force)
}

// deleteJail removes a jail that the delegate may have to end or to forget.
func (r *Runtime) deleteJail(d *delegate.Runtime, j *state.Brief, args []string, force bool) error {
	// An engine's clean-up may lack the option for the systemd driver, by which the jail was made.
	if j.SystemdCgroup && !r.Globals.SystemdCgroup {
		args = append([]string{"--systemd-cgroup"}, args...)
	}
	workspace.KeepMounted()
	runs := j.InitAlive()
	if !runs || force {
		r.book().End(j, nil)
	}
	done := r.step("delegate delete")
	remove := r.deleteByDelegate
	if runs && !force { // refused, or it ends meanwhile
		remove = r.run
	}
	code, err := remove(d, j, args)
	done()
	crash.Point("delete.delegated")
	if err != nil {
		return err
	}
	if code != 0 && force && sandboxOf(j) != "" {
		return r.deleteUnknown(j, force)
	}
	if _, serr := os.Lstat(j.DelegateState()); code != 0 && (serr == nil || j.InitAlive() && !force) {
		return &ExitError{code} // it runs, or could not be removed
	}
	if err := j.EndInit(endPatience); err != nil { // the delegate may have no record of it any more
		return err
	}
	switch {
	case runs && !force: // it ended meanwhile
		r.book().End(j, nil)
	case runs:
		r.book().Note(j, journal.Event{Kind: journal.JailExit, Pid: j.InitPid, Status: unix.SIGKILL.String(), Reason: "delete --force"})
	}
	done = r.step("cleanup")
	if err := r.cleanup(j); err != nil {
		return err
	}
	done()
	crash.Point("delete.released")
	if force {
		return nil
	}
	return exitError(code, nil)
}
