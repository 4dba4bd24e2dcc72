package lifecycle

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"

	"agentjail.dev/runtime/delegate"
	"agentjail.dev/runtime/facts"
	"agentjail.dev/runtime/harden"
	"agentjail.dev/runtime/internal/crash"
	"agentjail.dev/runtime/jailinit/host"
	"agentjail.dev/runtime/kernel/atomicfile"
	"agentjail.dev/runtime/kernel/hostfacts"
	"agentjail.dev/runtime/lifecycle/firstproc"
	"agentjail.dev/runtime/observe/account"
	"agentjail.dev/runtime/observe/journal"
	"agentjail.dev/runtime/refusal"
	"agentjail.dev/runtime/spec/bundle"
	"agentjail.dev/runtime/state"
)

// ExecOptions are the options of exec. Process is nil when the process is described by flags, which
// then change the jail's own.
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
	// Own marks a process of agentjail's, which is no event of the jail's journal.
	Own bool
}

// Exec runs a further process in a jail, hardened like the first, and unless Detach waits for its
// end.
//
// An ExitError is the exit status of the process, or that of the delegate, which printed its error
// itself. A refusal is a refusal.Error, or several joined. Any other error is agentjail's or the
// host's; its status is the one that the delegate would have returned (StatusError). Nothing is
// left behind but the process and, in the jail's report, that it does not own what is mounted.
//
// The calling thread is changed for good: it must end with its goroutine.
func (r *Runtime) Exec(o ExecOptions) error {
	defer expediteMoves()()
	j, err := r.findAll(o.ID)
	if err != nil {
		return err
	}
	e := &execution{rt: r, o: o, j: j}
	defer e.close()
	if err := e.decide(); err != nil {
		if !o.Own {
			r.book().Refused(&j.Brief, journal.ExecRefused, err)
		}
		return err
	}
	r.chownCopied(&j.Brief)
	done := r.step("write")
	runtime.LockOSThread()
	if err := e.writeProcess(); err != nil {
		return err
	}
	if err := e.prepareDelegate(); err != nil {
		return err
	}
	done()
	if !o.Own {
		event := journal.Event{Kind: journal.ExecStart}
		account.About(&event, j, e.process)
		r.book().Note(&j.Brief, event)
	}
	if err := account.WriteInside(j, func() ([]journal.Event, error) { return journal.Read(j.Journal) }); err != nil {
		r.Log.Warnf("agentjail: writing the jail's file of refusals: %v", err)
	}
	defer r.step("delegate exec")()
	return e.execByDelegate()
}

// An execution is an exec under way: the results of the steps so far.
type execution struct {
	rt *Runtime
	o  ExecOptions
	j  *state.Jail

	host    hostfacts.Facts   // hardenProcess
	process *specs.Process    // hardenProcess; changed by writeProcess
	files   *host.Files       // writeProcess: the init step's
	file    string            // writeProcess: the process for the delegate
	d       *delegate.Runtime // prepareDelegate
	time    delegate.Time     // prepareDelegate
}

// close removes the files that only the delegate needed.
func (e *execution) close() {
	if e.file != "" {
		os.Remove(e.file)
	}
	if e.files != nil {
		e.files.Close()
		if e.files.Orders != "" && !e.o.Detach {
			os.Remove(e.files.Orders)
		}
	}
}

// decide refuses the process, or hardens it.
func (e *execution) decide() error {
	if e.o.Cgroup != "" {
		return refusal.New(refusal.Exec, "a jail's processes share its limits").About("exec --cgroup")
	}
	if err := e.rt.checkLost(e.j); err != nil {
		return err
	}
	defer e.rt.step("harden")()
	return e.hardenProcess()
}

// requestedProcess returns the process as the caller requested it.
func (o *ExecOptions) requestedProcess(j *state.Jail) (p specs.Process, err error) {
	if o.ProcessFile != "" {
		data, err := readInput(o.ProcessFile)
		if err != nil {
			return p, err
		}
		if _, err := bundle.Decode(data, &p); err != nil {
			return p, fmt.Errorf("reading %s: %w", o.ProcessFile, err)
		}
	} else if j.Process != nil {
		p = *j.Process
	}
	if o.Change != nil {
		o.Change(&p)
	}
	return p, nil
}

// hardenProcess decides the process, and checks the paths in the jail that it names.
func (e *execution) hardenProcess() error {
	r, j := e.rt, e.j
	p, err := e.o.requestedProcess(j)
	if err != nil {
		return err
	}
	known := harden.Facts{ID: e.o.ID, Host: facts.HostFor(j.Delegate), Sandbox: sandboxOf(&j.Brief), IDs: j.IDs}
	// The caller does not choose the label and profile: they are the jail's.
	if j.Process != nil {
		p.SelinuxLabel, p.ApparmorProfile = j.Process.SelinuxLabel, j.Process.ApparmorProfile
		if known.Host.AppArmor && !strings.Contains(p.ApparmorProfile, j.Policy.AppArmor.Profile) {
			known.Host.AppArmor, known.NoAppArmor = false, "the jail itself had to do without agentjail's profile"
		}
	}
	allowed := j.Policy
	allowed.Process.Capabilities = j.Capabilities // never more than the jail was made with
	h, rep, err := harden.Process(&p, allowed, known)
	r.logUnmet(rep)
	if err != nil {
		return err
	}
	if j.Process != nil {
		h.SelinuxLabel, h.ApparmorProfile = j.Process.SelinuxLabel, j.Process.ApparmorProfile
	}
	e.host, e.process = known.Host, h
	r.reportForeignExecUser(j, h.User.UID)
	if known.Sandbox != "" {
		return nil // the init step looks inside
	}
	if err := firstproc.CheckExecCwd(&j.Brief, h.Cwd); err != nil {
		return err
	}
	return firstproc.CheckProgram(j.InitPid, h)
}

// writeProcess makes the init step's orders, and the process for the delegate.
func (e *execution) writeProcess() error {
	dir := e.rt.Store.Dir(e.j.Key)
	second, err := atomicfile.Read(filepath.Join(dir, state.FilterFile), maxFilter)
	if err != nil {
		return fmt.Errorf("the jail's inner filter: %w", err)
	}
	step := initStep{process: e.process, host: e.host, filter: second, stays: !e.o.Detach}
	if e.files, err = e.rt.throughEnter(e.j, step); err != nil {
		return err
	}
	data, err := json.Marshal(e.process)
	if err != nil {
		return fmt.Errorf("encoding the process: %w", err)
	}
	file := filepath.Join(dir, atomicfile.Unique("exec-")+".json")
	if err := atomicfile.WriteNew(file, data, 0o600); err != nil {
		return err
	}
	e.file = file
	crash.Point("exec.written")
	return nil
}

// prepareDelegate enters the namespaces in which the delegate is to be started.
func (e *execution) prepareDelegate() (err error) {
	r, j := e.rt, e.j
	if e.d, err = r.delegateFor(&j.Brief); err != nil {
		return err
	}
	if e.d.Traits().ExecNeedsPtrace && j.Started && !j.Stays {
		firstproc.AwaitProgram(j.InitPid, r.Store.Root)
	}
	if e.time, err = inTime(&j.Brief); err != nil {
		return err
	}
	return enterEngineNetwork(&j.Brief)
}

// execByDelegate has the delegate start the process.
func (e *execution) execByDelegate() error {
	o, pidFile := e.o, e.o.PidFile
	if atomicfile.IsStream(o.PidFile) { // runc would replace it (utils_linux.go, createPidFile)
		if !o.Detach {
			return fmt.Errorf("exec --pid-file %s: it is no regular file (remedy: --detach, or a regular file)", o.PidFile)
		}
		o.PidFile = filepath.Join(e.rt.Store.Dir(e.j.Key), atomicfile.Unique("exec-")+".pid")
		defer os.Remove(o.PidFile)
	}
	args := delegate.StartArgs{
		ID: o.ID, Process: e.file, Detach: o.Detach, IgnorePaused: o.IgnorePaused,
		PidFile: o.PidFile, ConsoleSocket: o.ConsoleSocket, PidfdSocket: o.PidfdSocket, Files: len(e.files.Passed),
	}
	if err := leaveLSM(e.d, e.process); err != nil {
		return err
	}
	d, standIns, err := e.rt.standFor(e.d, e.process, e.j.IDs, !o.Detach)
	if err != nil {
		return err
	}
	defer standIns.close()
	// crun applies no score of the process, and runc applies the container's.
	code, err := d.RunInto(e.files.Passed, append(e.rt.Globals.Args(), args.Exec()...), e.time,
		firstproc.OOMScore(e.process), !o.Detach)
	if code == delegateFailed {
		return e.rt.explainFilterError(exitError(code, err))
	}
	if err = exitError(code, err); err != nil || pidFile == o.PidFile {
		return err
	}
	pid, err := atomicfile.Read(o.PidFile, 64)
	if err != nil {
		return fmt.Errorf("reading the process's number: %w", err)
	}
	return atomicfile.WriteInto(pidFile, pid, 0o644)
}
