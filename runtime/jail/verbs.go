package jail

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/bundle"
	"agentjail.dev/runtime/delegate"
	"agentjail.dev/runtime/harden"
	"agentjail.dev/runtime/host"
	"agentjail.dev/runtime/internal/crash"
	"agentjail.dev/runtime/linux/atomicfile"
	"agentjail.dev/runtime/refusal"
	"agentjail.dev/runtime/stage"
	"agentjail.dev/runtime/state"
	"agentjail.dev/runtime/views"
)

// errNotOurs is the answer for a container that agentjail did not make: what
// could loosen it is refused.
func errNotOurs(id string) error {
	return fmt.Errorf("container %q does not exist", id)
}

// Start seals the jail's network and lets its first process go. Engines put
// interfaces into the namespace between create and start.
func (w *Runtime) Start(id string) error {
	j, err := w.find(id)
	if err != nil {
		return err
	}
	if j == nil {
		return errNotOurs(id)
	}
	if j.InitAlive() {
		if err := w.seal(j); err != nil {
			return fmt.Errorf("sealing the jail's network: %w", err)
		}
	}
	crash.Point("start.sealed")
	w.adopt(j)
	if !j.Started {
		if err := w.Store.Start(j); err != nil {
			return err
		}
	}
	return w.letGo(j, func() error { return w.Pass(id, []string{"start", id}) })
}

// ExecOptions are the options of exec. Process is nil when the process comes as
// flags, which then change the jail's own.
type ExecOptions struct {
	ID            string
	ProcessFile   string
	Change        func(*specs.Process)
	Detach        bool
	PidFile       string
	ConsoleSocket string
	PidfdSocket   string
	Cgroup        string
	IgnorePaused  bool
}

// Exec runs a further process in a jail, hardened like the first.
func (w *Runtime) Exec(o ExecOptions) error {
	defer hasten()()
	j, err := w.findAll(o.ID)
	if err != nil {
		return err
	}
	if j == nil {
		return errNotOurs(o.ID)
	}
	if o.Cgroup != "" {
		return refusal.New(refusal.Exec, "a jail's processes share its limits").About("exec --cgroup")
	}
	var p specs.Process
	if o.ProcessFile != "" {
		data, err := readGiven(o.ProcessFile)
		if err != nil {
			return err
		}
		if _, err := bundle.Decode(data, &p); err != nil {
			return fmt.Errorf("reading %s: %w", o.ProcessFile, err)
		}
	} else if j.Process != nil {
		p = *j.Process
	}
	if o.Change != nil {
		o.Change(&p)
	}
	done := w.step("harden")
	allowCoreOff()
	facts := harden.Facts{ID: o.ID, Host: host.Read(), IDs: j.IDs}
	// The label and profile are the jail's, not the caller's choice.
	if j.Process != nil {
		p.SelinuxLabel, p.ApparmorProfile = j.Process.SelinuxLabel, j.Process.ApparmorProfile
		if facts.Host.AppArmor && !strings.Contains(p.ApparmorProfile, j.Policy.AppArmor.Profile) {
			facts.Host.AppArmor, facts.NoAppArmor = false, "the jail itself had to do without agentjail's profile"
		}
	}
	h, rep, err := harden.Process(&p, j.Policy, facts)
	w.tell(rep)
	if err != nil {
		return err
	}
	if j.Process != nil {
		h.SelinuxLabel, h.ApparmorProfile = j.Process.SelinuxLabel, j.Process.ApparmorProfile
	}
	w.noteWorker(j, h.User.UID)
	if err := checkExecCwd(&j.Brief, h.Cwd); err != nil {
		return err
	}
	if err := checkProgram(j.InitPid, h); err != nil {
		return err
	}
	done()
	w.adopt(&j.Brief)
	done = w.step("write")
	runtime.LockOSThread()
	second, err := atomicfile.Read(filepath.Join(w.Store.Dir(j.Key), state.FilterFile), maxFilter)
	if err != nil {
		return fmt.Errorf("the jail's second filter: %w", err)
	}
	step, err := w.throughEnter(j, h, facts.Host, second, nil, nil, false)
	if err != nil {
		return err
	}
	defer step.Close()
	data, err := json.Marshal(h)
	if err != nil {
		return fmt.Errorf("encoding the process: %w", err)
	}
	file := filepath.Join(w.Store.Dir(j.Key), atomicfile.Unique("exec-")+".json")
	if err := atomicfile.WriteNew(file, data, 0o600); err != nil {
		return err
	}
	defer os.Remove(file)
	crash.Point("exec.written")
	if !h.Terminal {
		uid, _ := j.IDs.HostUID(h.User.UID)
		gid, _ := j.IDs.HostGID(h.User.GID)
		w.ownStdio(uid, gid)
	}
	d, err := w.delegateFor(&j.Brief)
	if err != nil {
		return err
	}
	if d.Traits().EntersByProcess && j.Started {
		awaitProgram(j.InitPid, w.Store.Root)
	}
	args := delegate.StartArgs{
		ID: o.ID, Process: file, Detach: o.Detach, IgnorePaused: o.IgnorePaused,
		PidFile: o.PidFile, ConsoleSocket: o.ConsoleSocket, PidfdSocket: o.PidfdSocket, Files: len(step),
	}
	t, err := w.inTime(&j.Brief)
	if err != nil {
		return err
	}
	if err := enterGiven(&j.Brief); err != nil {
		return err
	}
	done()
	defer w.step("delegate exec")()
	// crun takes no score from the process that it is given, and runc takes the
	// container's.
	code, err := d.RunExpendable(oomScore(h), step[:], append(w.Globals.Args(), args.Exec()...), t, !o.Detach)
	if code == delegateFailed {
		return w.explained(exitError(code, err))
	}
	return exitError(code, err)
}

// Update changes a running jail's limits, within policy.
func (w *Runtime) Update(id string, in *specs.LinuxResources) error {
	j, err := w.findAll(id)
	if err != nil {
		return err
	}
	if j == nil {
		return errNotOurs(id)
	}
	r, rep, err := harden.Resources(in, j.Policy, harden.Facts{ID: id, Host: host.Read(), IDs: j.IDs})
	if err != nil {
		return err
	}
	w.tell(rep)
	data, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encoding the limits: %w", err)
	}
	runtime.LockOSThread()
	file := filepath.Join(w.Store.Dir(j.Key), atomicfile.Unique("update-")+".json")
	if err := atomicfile.Write(file, data, 0o600); err != nil {
		return err
	}
	defer os.Remove(file)
	d, err := w.delegateFor(&j.Brief)
	if err != nil {
		return err
	}
	t, err := w.inTime(&j.Brief)
	if err != nil {
		return err
	}
	if err := exitError(d.Run(append(w.Globals.Args(), "update", "--resources", file, id), t)); err != nil {
		return err
	}
	return w.resize(j, r)
}

// resize has the jail's views and its record follow its limits.
func (w *Runtime) resize(j *state.Jail, r *specs.LinuxResources) error {
	j.Limits = harden.Updated(j.Limits, r)
	if err := w.Store.Save(j); err != nil {
		return err
	}
	if j.ViewsDev == 0 || !j.InitAlive() {
		return nil
	}
	machine := views.ReadHost()
	files := views.Sized(views.For(j.Limits, machine, "", time.Unix(j.Born, 0)), machine)
	err := stage.RewriteViews(j.ViewsDev, files, func(f func() error) error { return inMountNS(j.InitPid, f) })
	if err != nil && j.InitAlive() {
		return fmt.Errorf("telling the jail of its limits: %w", err)
	}
	return nil
}

// readGiven reads a file that the caller named, which may be a pipe: shells make
// /dev/fd/N of a command's output.
func readGiven(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, bundle.MaxConfig+1))
	if err == nil && len(data) > bundle.MaxConfig {
		err = fmt.Errorf("%s has more than %d bytes", path, bundle.MaxConfig)
	}
	return data, err
}

// ReadResources reads limits in the form of `update --resources`; "-" is
// standard input.
func (w *Runtime) ReadResources(path string) (*specs.LinuxResources, error) {
	var data []byte
	var err error
	if path == "-" {
		data, err = io.ReadAll(io.LimitReader(w.stdio()[0], bundle.MaxConfig))
	} else {
		data, err = readGiven(path)
	}
	if err != nil {
		return nil, fmt.Errorf("reading limits: %w", err)
	}
	r := new(specs.LinuxResources)
	if _, err := bundle.Decode(data, r); err != nil {
		return nil, fmt.Errorf("reading limits: %w", err)
	}
	return r, nil
}

// Delete removes a container and all that was made for it. With force a missing
// one is no error, as with runc.
func (w *Runtime) Delete(id string, force bool) error {
	if err := state.CheckID(id); err != nil {
		return err
	}
	unlock, err := w.Store.Lock(state.Key(w.Globals.Root, id))
	switch {
	case err == nil:
		defer unlock()
	case !errors.Is(err, state.ErrNotFound):
		return err
	}
	j, err := w.find(id)
	if err != nil {
		return err
	}
	if j != nil && ended(j) {
		return w.deleteDirectly(j, force)
	}
	d, err := w.delegateFor(j)
	if err != nil {
		return err
	}
	args := append(w.Globals.Args(), "delete")
	if force {
		args = append(args, "--force")
	}
	args = append(args, id)
	if j == nil {
		return w.handOver(d, args)
	}
	// The jail may have been made with the systemd driver while the engine's
	// clean-up does not say so.
	if j.SystemdCgroup && !w.Globals.SystemdCgroup {
		args = append([]string{"--systemd-cgroup"}, args...)
	}
	runtime.LockOSThread()
	t, err := w.inTime(j)
	if err != nil {
		return err
	}
	done := w.step("delegate delete")
	code, err := d.Run(args, t)
	done()
	crash.Point("delete.delegated")
	if err != nil {
		return err
	}
	if _, serr := os.Lstat(j.DelegateState()); serr == nil && code != 0 {
		return &ExitError{code} // it runs, or could not be removed
	}
	if j.InitAlive() && !force {
		return exitError(code, nil)
	}
	done = w.step("release")
	if err := w.release(j); err != nil {
		return err
	}
	done()
	crash.Point("delete.released")
	if force {
		return nil
	}
	return exitError(code, nil)
}
