package lifecycle

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"syscall"

	"github.com/containerd/console"
	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/thread"
	"agentjail.dev/runtime/observe/journal"
	"agentjail.dev/runtime/workspace"
)

// runProgram continues after create: it starts the jail and, unless detached, waits for its end and
// removes it. The delegate's own `run` would start the process before it could be checked.
func (a *attempt) runProgram() error {
	r, o, j := a.rt, a.o, a.j
	helper, err := r.Networks().Seal(&j.Brief)
	if err != nil {
		return fmt.Errorf("sealing the jail's network: %w", err)
	}
	err = thread.Caught(a.startProgram)
	if err = errors.Join(err, helper.Wait()); err != nil {
		j.Started = false // what was made is undone
		return err
	}
	if o.Detach {
		return nil
	}
	awaitInit(a.files.Life)
	a.signals.passTo(j.InitPid, a.tty)
	watched := *j // j changes with what is done below
	go r.watchLost(&watched)
	var ws syscall.WaitStatus
	for {
		if _, err = syscall.Wait4(j.InitPid, &ws, 0, nil); !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("waiting for the jail: %w", err)
	}
	a.tty.drain()
	a.standIns.close()
	workspace.KeepMounted()
	_ = onHostThread(func() error { r.book().End(&j.Brief, &ws); return nil })
	if o.Watch != nil {
		o.Watch.Ended(j)
	}
	if processesGone(&j.Brief) {
		err = removeDelegateState(&j.Brief)
	} else {
		err = exitError(r.deleteByDelegate(a.d, &j.Brief, append(r.Globals.Args(), "delete", "--force", o.ID)))
	}
	if err != nil {
		r.Log.Warnf("deleting the ended container: %v", err)
	}
	if err := onHostThread(func() error { return r.cleanup(&j.Brief) }); err != nil {
		r.Log.Warnf("cleaning up: %v", err)
	}
	if ws.Signaled() {
		return &ExitError{128 + int(ws.Signal())}
	}
	return exitError(ws.ExitStatus(), nil)
}

// startProgram is startCreated for a jail that was made just now.
func (a *attempt) startProgram() error {
	r, j := a.rt, a.j
	if err := r.Store.Start(&j.Brief); err != nil {
		return err
	}
	_ = onHostThread(func() error {
		r.book().Note(&j.Brief, journal.Event{Kind: journal.JailStart, Pid: j.InitPid})
		return nil
	})
	if a.o.Watch != nil {
		if err := a.o.Watch.Made(j); err != nil {
			return err
		}
	}
	if err := a.signals.hold(); err != nil {
		return err
	}
	return r.startInit(&j.Brief)
}

// terminal connects a jail's terminal with ours.
type terminal struct {
	socket *net.UnixListener
	path   string
	ours   console.Console
	theirs *os.File
	copied chan struct{}
}

// newTerminal listens for the terminal that the delegate makes; its path is for
// --console-socket (runc docs/terminals.md).
func newTerminal(dir string) (*terminal, error) {
	files := []*os.File{os.Stdin, os.Stdout, os.Stderr}
	// All can be redirected while there still is a terminal (tty(4)).
	if tty, err := os.OpenFile("/dev/tty", os.O_RDWR|unix.O_NOCTTY, 0); err == nil {
		files = append(files, tty) // stays open: the console is this file
	}
	for _, f := range files {
		if c, err := console.ConsoleFromFile(f); err == nil {
			t := &terminal{ours: c, path: filepath.Join(dir, "tty.sock"), copied: make(chan struct{})}
			if t.socket, err = net.ListenUnix("unix", &net.UnixAddr{Name: t.path, Net: "unix"}); err != nil {
				return nil, fmt.Errorf("listening for the jail's terminal: %w", err)
			}
			return t, nil
		}
	}
	return nil, errors.New("process.terminal is set, but there is no terminal")
}

// receive takes the terminal and starts copying.
func (t *terminal) receive() error {
	conn, err := t.socket.AcceptUnix()
	if err != nil {
		return fmt.Errorf("receiving the jail's terminal: %w", err)
	}
	defer conn.Close()
	name, oob := make([]byte, 4096), make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := conn.ReadMsgUnix(name, oob)
	if err != nil {
		return fmt.Errorf("receiving the jail's terminal: %w", err)
	}
	var fds []int
	if msgs, err := unix.ParseSocketControlMessage(oob[:n]); err == nil && len(msgs) == 1 {
		fds, _ = unix.ParseUnixRights(&msgs[0])
	}
	if len(fds) != 1 {
		return errors.New("receiving the jail's terminal: no file came with the message")
	}
	unix.CloseOnExec(fds[0])
	// The caller's own terminal, if it prints to one, begins lines; a pipe has
	// to get what the program writes.
	if err := console.ClearONLCR(uintptr(fds[0])); err != nil {
		unix.Close(fds[0])
		return fmt.Errorf("setting the jail's terminal: %w", err)
	}
	// Non-blocking, so that Go's poller serves it and a close ends the copies.
	_ = unix.SetNonblock(fds[0], true)
	t.theirs = os.NewFile(uintptr(fds[0]), "jail terminal")
	t.resize()
	if err := t.ours.SetRaw(); err != nil {
		return fmt.Errorf("setting the terminal raw: %w", err)
	}
	go func() { _, _ = io.Copy(t.theirs, os.Stdin) }()
	go func() { _, _ = io.Copy(os.Stdout, t.theirs); close(t.copied) }()
	return nil
}

func (t *terminal) resize() {
	if t == nil || t.theirs == nil {
		return
	}
	if size, err := t.ours.Size(); err == nil {
		ws := &unix.Winsize{Row: size.Height, Col: size.Width}
		_ = unix.IoctlSetWinsize(int(t.theirs.Fd()), unix.TIOCSWINSZ, ws)
		_ = unix.SetNonblock(int(t.theirs.Fd()), true) // Fd made it blocking
	}
}

// drain waits for the jail's last output: the read fails once its end of the
// terminal is closed.
func (t *terminal) drain() {
	if t != nil && t.theirs != nil {
		<-t.copied
	}
}

func (t *terminal) close() {
	if t == nil {
		return
	}
	if t.theirs != nil {
		_ = t.ours.Reset()
		t.theirs.Close()
	}
	t.socket.Close()
	os.Remove(t.path)
}
