package lifecycle

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/jailinit"
)

// Signals are the signals that this process receives while it runs a jail. Once the jail's program
// runs they are passed to it; before that they end the making of the jail.
type Signals struct {
	ch       chan os.Signal
	terminal bool // the jail is to end with this process's controlling terminal

	mu   sync.Mutex
	pid  int // the process that they are passed to; 0 before there is one
	tty  *terminal
	came unix.Signal // the first that came while the jail was made
	// held are the signals that came since the program is started, and that cannot be passed on
	// yet; nil before.
	held    []unix.Signal
	expired bool          // EndAfter's time is over
	timers  []*time.Timer // EndAfter's
}

// TakeSignals begins to take signals. Ignored signals stay ignored (nohup(1)). own reports that the
// jail is this process's own.
func TakeSignals(own bool) *Signals {
	s := &Signals{ch: make(chan os.Signal, 64), terminal: own && hasTerminal()}
	for _, sig := range jailinit.PassedOn() {
		switch sig {
		case unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU, unix.SIGCONT: // a shell's, for this process
		default:
			if !signal.Ignored(sig) {
				signal.Notify(s.ch, sig)
			}
		}
	}
	go func() {
		for sig := range s.ch {
			s.take(sig.(unix.Signal))
		}
	}()
	return s
}

// take passes a signal on, or keeps it for the steps that make the jail.
func (s *Signals) take(sig unix.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case sig == unix.SIGWINCH:
		s.tty.resize()
	case s.pid != 0:
		_ = unix.Kill(s.pid, sig)
		if sig == unix.SIGHUP && s.terminal && !hasTerminal() {
			// The terminal is gone, and the jail goes with it: its program may handle the signal,
			// but not ignore it.
			pid := s.pid
			time.AfterFunc(hangupPatience, func() { _ = unix.Kill(pid, unix.SIGKILL) })
		}
	case s.held != nil:
		s.held = append(s.held, sig)
	case s.came == 0 && sig != unix.SIGUSR1 && sig != unix.SIGUSR2:
		s.came = sig
	}
}

// killPatience is how long a program may take to end after EndAfter's SIGTERM.
const killPatience = 10 * time.Second

// EndAfter ends the jail after d as timeout(1) does: by SIGTERM, and by SIGKILL ten seconds later.
func (s *Signals) EndAfter(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timers = append(s.timers, time.AfterFunc(d, func() {
		s.mu.Lock()
		s.expired = true
		s.mu.Unlock()
		s.take(unix.SIGTERM)
	}), time.AfterFunc(d+killPatience, func() { s.take(unix.SIGKILL) }))
}

// Expired reports whether EndAfter's time was over before the jail's end.
func (s *Signals) Expired() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.expired
}

// hangupPatience is how long a program may take to end after its terminal is gone.
const hangupPatience = 2 * time.Second

// hasTerminal reports whether this process has a controlling terminal (tty(4)).
func hasTerminal() bool {
	f, err := os.OpenFile("/dev/tty", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return false
	}
	f.Close()
	return true
}

// interrupted returns the error that ends the making of a jail after a signal.
func (s *Signals) interrupted() error {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.came == 0 {
		return nil
	}
	return &StatusError{
		Code: 128 + int(s.came),
		Err:  fmt.Errorf("ended by %s before the program was started", unix.SignalName(s.came)),
	}
}

// hold keeps further signals for the jail's program. It returns an error if one came before.
func (s *Signals) hold() error {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	s.held = make([]unix.Signal, 0, 8)
	s.mu.Unlock()
	return s.interrupted()
}

// passTo passes the held signals and all further ones to the jail's first process.
func (s *Signals) passTo(pid int, tty *terminal) {
	s.mu.Lock()
	s.pid, s.tty = pid, tty
	held := s.held
	s.mu.Unlock()
	for _, sig := range held {
		s.take(sig)
	}
}

// stop restores the signals.
func (s *Signals) stop() {
	if s == nil {
		return
	}
	signal.Stop(s.ch)
	close(s.ch)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.timers {
		t.Stop()
	}
	s.pid = 0 // another process may have the number by now
}

// awaitInit waits until the init step that stays as the first process has started the program: from
// then on a signal to it is the program's. life is this process's end of their pair of sockets, or
// nil. If the step ends before, its status is the reason.
func awaitInit(life *os.File) {
	if life == nil {
		return
	}
	for b := make([]byte, 1); ; {
		if _, err := unix.Read(int(life.Fd()), b); !errors.Is(err, unix.EINTR) {
			return
		}
	}
}
