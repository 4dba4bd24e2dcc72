package guest

import (
	"errors"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/jailinit"
)

// An initial process is the step that stays: the first process of the jail, whose end is every
// other's (pid_namespaces(7)), with the jail's program as a child. No process of the jail can trace
// it, look into it or kill it: its program cannot be read, and the kernel keeps from the first
// process what it has no handler for.
//
// It has three purposes. A program that is not the first process is ended by signals for which it
// has no handler. Processes whose parent has ended are waited for. And the jail ends with the
// process that made it, for whatever reason: then the kernel closes the other end of LifeFD.
type initial struct {
	*final
	signals chan os.Signal
	leads   bool // the program leads a session and a group of its own
	bound   bool // the jail ends with its maker, at the other end of LifeFD
	tty     bool // its standard input is a terminal of the jail's, which is to be its controlling one
}

// stay runs the program as a child and ends as it does. It does not return.
func (f *final) stay(leads, bound bool) {
	i := &initial{final: f, signals: make(chan os.Signal, 64), leads: leads, bound: bound}
	early := i.listen()
	_ = syscall.Exec("", nil, nil) // as in become
	if leads {
		i.leaveTerminal()
	}
	child, at, n, errno := i.start()
	if child == 0 {
		f.fail(at, n, errno)
	}
	go func() {
		for _, s := range early {
			i.pass(child, s)
		}
		for s := range i.signals {
			i.pass(child, s.(unix.Signal))
		}
	}()
	// The program's files end with it.
	for fd := range 3 {
		_ = unix.Close(fd)
	}
	if bound {
		_, _ = unix.Write(jailinit.LifeFD, []byte{1})
	}
	os.Exit(reap(child))
}

// pass passes a signal on to the program. Terminals send their signals to a whole group of
// processes (termios(3)): a shell that waits for a command relies on the command getting the
// signal, too.
func (i *initial) pass(child int, s unix.Signal) {
	switch s {
	case unix.SIGINT, unix.SIGQUIT, unix.SIGHUP, unix.SIGTSTP, unix.SIGCONT, unix.SIGWINCH:
		if i.leads {
			child = -child
		}
	}
	_ = unix.Kill(child, s)
}

// listen begins to wait for the maker's end and for signals, and returns those that came meanwhile.
// Both take threads of Go's runtime, which have to be there before the limits are, and before the
// jail's processes have used them up.
func (i *initial) listen() (early []unix.Signal) {
	if i.bound {
		reads := make(chan struct{})
		go func() {
			close(reads)
			untilDeath()
		}()
		<-reads
	}
	for _, s := range jailinit.PassedOn() {
		signal.Notify(i.signals, s)
	}
	if unix.Kill(unix.Getpid(), unix.SIGCONT) != nil {
		return nil
	}
	for s := range i.signals {
		if s == unix.SIGCONT {
			break
		}
		early = append(early, s.(unix.Signal))
	}
	return early
}

// untilDeath ends the jail at the end of its maker.
func untilDeath() {
	for b := make([]byte, 1); ; {
		if n, err := unix.Read(jailinit.LifeFD, b); err != unix.EINTR && (n == 0 || err != nil) {
			os.Exit(128 + int(unix.SIGKILL))
		}
	}
}

// leaveTerminal releases the controlling terminal, so that it can be the program's: then the
// program's session has no other process in it, as it is its leader, and the keys that send signals
// reach that session alone.
func (i *initial) leaveTerminal() {
	// The kernel sends SIGHUP to the group that leaves.
	signal.Ignore(unix.SIGHUP)
	i.tty = unix.IoctlSetInt(0, unix.TIOCNOTTY, 0) == nil
	signal.Notify(i.signals, unix.SIGHUP)
}

// start takes from this process what a final does, which the program inherits, and starts the
// program.
func (i *initial) start() (child int, at stage, n int, errno syscall.Errno) {
	if at, n, errno = i.restrict(); errno != 0 || at != atExec {
		return 0, at, n, errno
	}
	attr := &syscall.ProcAttr{Env: i.env, Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Setsid: i.leads, Setctty: i.tty}}
	child, err := syscall.ForkExec(i.name, i.args, attr)
	if e, ok := errors.AsType[syscall.Errno](err); ok {
		errno = e
	} else if err != nil {
		errno = unix.EINVAL
	}
	return child, atExec, 0, errno
}

// reap waits for every process that is left to the first one, until the program has ended, and
// returns the status for that: 128 and the signal's number where one ended it.
func reap(child int) int {
	for {
		var ws unix.WaitStatus
		pid, err := unix.Wait4(-1, &ws, 0, nil)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return jailinit.ExitRefused
		case pid != child:
		case ws.Signaled():
			return 128 + int(ws.Signal())
		default:
			return ws.ExitStatus()
		}
	}
}
