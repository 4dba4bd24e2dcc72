package lifecycle

import (
	"errors"
	"fmt"
	"os"

	"agentjail.dev/runtime/internal/crash"
	"agentjail.dev/runtime/jailinit"
	"agentjail.dev/runtime/kernel/atomicfile"
	"agentjail.dev/runtime/kernel/namespace"
	"agentjail.dev/runtime/lifecycle/firstproc"
	"agentjail.dev/runtime/network/helper"
	"agentjail.dev/runtime/state"
)

// checkContainer records the jail's first process and looks at it from outside before
// anything of the image has run.
func (a *attempt) checkContainer() error {
	if a.tty != nil {
		if err := a.tty.receive(); err != nil {
			return err
		}
	}
	pid, err := a.recordFirst()
	if err != nil {
		return err
	}
	if err := boundSockets(pid, a.j); err != nil {
		return err
	}
	// After all limits of the jail's own are there, which are the helper's too.
	if err := helper.Place(a.rt.Store.Dir(a.j.Key), pid); err != nil {
		return err
	}
	check, domain := a.checkJail, a.domain
	if sandboxOf(&a.j.Brief) != "" {
		check, domain = a.checkSandbox, "" // the guest kernel has names of its own
	}
	if err := check(pid); err != nil {
		return err
	}
	if err := firstproc.SetOOMScore(pid, a.j.Process); err != nil {
		return err
	}
	if err := a.writePidFile(pid); err != nil {
		return err
	}
	if err := firstproc.SetDomainname(pid, domain); err != nil {
		return err
	}
	return settleUserNS(a.userns, pid)
}

// checkJail looks at the first process of a jail that has the host's kernel.
func (a *attempt) checkJail(pid int) error {
	mounts, err := firstproc.SettleMounts(pid, a.spec, a.staged)
	if err != nil {
		return err
	}
	if err := a.registerEBPF(pid, mounts); err != nil {
		return err
	}
	err = firstproc.CheckProgram(pid, a.j.Process)
	switch {
	case err == nil || !a.o.PlainRoot:
		return err
	case errors.Is(err, os.ErrPermission):
		return &StatusError{Code: jailinit.ExitNotExecutable, Err: err}
	}
	return &StatusError{Code: jailinit.ExitNotFound, Err: err}
}

// writePidFile writes the first process's number for the caller.
func (a *attempt) writePidFile(pid int) error {
	if a.o.PidFile != "" {
		if err := atomicfile.WriteInto(a.o.PidFile, fmt.Append(nil, pid), 0o644); err != nil {
			return fmt.Errorf("writing the pid file: %w", err)
		}
	}
	crash.Point("create.settled")
	return nil
}

// recordFirst records the jail's first process, whose number the delegate wrote.
func (a *attempt) recordFirst() (pid int, err error) {
	if pid, err = state.ReadPid(a.rt.Store.PidFile(a.j.Key)); err != nil {
		return 0, fmt.Errorf("the delegate left no pid: %w", err)
	}
	start, _, err := state.StartTime(pid)
	if err != nil {
		return 0, fmt.Errorf("the jail's first process: %w", err)
	}
	// Without the number, the parents of a process determine in which of a pod's jails it is.
	mounts, _ := namespace.Inode(pid, "mnt")
	if err := a.rt.Store.First(&a.j.Brief, pid, start, uint32(mounts)); err != nil {
		return 0, fmt.Errorf("recording the jail's first process: %w", err)
	}
	return pid, nil
}
