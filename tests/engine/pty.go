package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/tests/env"
)

// A Terminal is a docker command that runs on a pseudo-terminal, as a person would have it.
type Terminal struct {
	t      *T
	cmd    *exec.Cmd
	master *os.File

	mu   sync.Mutex
	said bytes.Buffer
	hung atomic.Bool
	gone chan struct{} // closed when the command's side of the terminal is closed

	typed int // how much the terminal had shown when something was typed last
}

// Terminal starts a docker command on a new pseudo-terminal of the given size. It is ended with the test at the latest.
func (t *T) Terminal(rows, cols int, args ...string) *Terminal {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), env.CommandWait)
	t.Cleanup(cancel)
	return OnTerminal(t.TB, rows, cols, t.Command(ctx, args...))
}

// OnTerminal starts any command on a new pseudo-terminal. It is ended with the test at the latest.
func OnTerminal(t testing.TB, rows, cols int, cmd *exec.Cmd) *Terminal {
	t.Helper()
	master, slave, err := OpenPty()
	env.Check(t, err)
	defer slave.Close()
	term := &Terminal{t: &T{TB: t}, cmd: cmd, master: master, gone: make(chan struct{})}
	term.Resize(rows, cols)
	if cmd.Env == nil {
		cmd.Env = os.Environ()
	}
	cmd.Env = append(cmd.Env, "TERM=xterm")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	env.Check(t, cmd.Start())
	go term.listen()
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
		master.Close()
	})
	return term
}

// OpenPty opens a new pseudo-terminal. The slave is opened through the master (TIOCGPTPEER, Linux 4.13), since its name
// means something else where several devpts are mounted.
func OpenPty() (master, slave *os.File, err error) {
	m, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("open a pseudo-terminal: %w", err)
	}
	if err := unix.IoctlSetPointerInt(int(m.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		m.Close()
		return nil, nil, fmt.Errorf("unlock the pseudo-terminal: %w", err)
	}
	fd, _, errno := unix.Syscall(unix.SYS_IOCTL, m.Fd(), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
	if errno != 0 {
		m.Close()
		return nil, nil, fmt.Errorf("open the other side of the pseudo-terminal: %w", errno)
	}
	return m, os.NewFile(fd, "pty"), nil
}

// listen collects what the terminal shows.
func (term *Terminal) listen() {
	defer close(term.gone)
	buf := make([]byte, 4096)
	for !term.hung.Load() {
		ready, err := unix.Poll([]unix.PollFd{{Fd: int32(term.master.Fd()), Events: unix.POLLIN}}, 50)
		if ready == 0 || errors.Is(err, unix.EINTR) {
			continue
		}
		n, err := term.master.Read(buf)
		term.mu.Lock()
		term.said.Write(buf[:n])
		term.mu.Unlock()
		if err != nil { // EIO when no process has the other side open any more
			return
		}
	}
}

// Printed is everything the terminal has shown so far.
func (term *Terminal) Said() string {
	term.mu.Lock()
	defer term.mu.Unlock()
	return term.said.String()
}

// Type types text; a newline is the return key, which sends a carriage return.
func (term *Terminal) Type(text string) {
	term.t.Helper()
	term.typed = len(term.Said())
	if _, err := term.master.WriteString(strings.ReplaceAll(text, "\n", "\r")); err != nil {
		term.t.Fatalf("type %q: %v", text, err)
	}
}

// Expect waits until the terminal has shown text.
func (term *Terminal) Expect(text string) {
	term.t.Helper()
	term.expectFrom(0, text)
}

// ExpectNew waits until the terminal has shown text since something was typed last. A shell's prompt reports that the shell
// reads again: what is typed before, behind an interrupt, is lost (NOFLSH in termios(3)).
func (term *Terminal) ExpectNew(text string) {
	term.t.Helper()
	term.expectFrom(term.typed, text)
}

func (term *Terminal) expectFrom(offset int, text string) {
	term.t.Helper()
	env.Eventually(term.t, fmt.Sprintf("%q on the terminal", text), func() bool {
		if strings.Contains(term.Said()[offset:], text) {
			return true
		}
		select {
		case <-term.gone:
			if strings.Contains(term.Said()[offset:], text) {
				return true
			}
			term.t.Fatalf("the command ended without showing %q; it showed: %s", text, cut(term.Said()))
		default:
		}
		return false
	})
}

// ExpectAtSize is Expect for text that shows once the command has noticed a new size of the terminal. A command that does
// not watch the size yet misses the signal, and a size that stays as it is gives none (TIOCSWINSZ(2const)): so the size
// changes again and again.
func (term *Terminal) ExpectAtSize(rows, cols int, text string) {
	term.t.Helper()
	var again time.Time
	env.Eventually(term.t, fmt.Sprintf("%q on the terminal of %d columns", text, cols), func() bool {
		if strings.Contains(term.Said(), text) {
			return true
		}
		select {
		case <-term.gone:
			term.t.Fatalf("the command ended without showing %q; it showed: %s", text, cut(term.Said()))
		default:
		}
		if time.Now().After(again) {
			term.Resize(rows, cols+1)
			term.Resize(rows, cols)
			again = time.Now().Add(time.Second)
		}
		return false
	})
}

// Resize gives the terminal another size; the command gets SIGWINCH.
func (term *Terminal) Resize(rows, cols int) {
	term.t.Helper()
	ws := unix.Winsize{Row: uint16(rows), Col: uint16(cols)}
	if err := unix.IoctlSetWinsize(int(term.master.Fd()), unix.TIOCSWINSZ, &ws); err != nil {
		term.t.Fatalf("resize the terminal: %v", err)
	}
}

// HangUp closes the terminal, as the window that it is in does.
func (term *Terminal) HangUp() {
	term.hung.Store(true)
	<-term.gone // a file that is read from stays open
	term.master.Close()
}

// Wait waits for the command's end and returns its exit code.
func (term *Terminal) Wait() int {
	term.t.Helper()
	<-term.gone // at the latest when the command is killed for taking too long
	err := term.cmd.Wait()
	if term.cmd.ProcessState == nil {
		term.t.Fatalf("wait for the command: %v", err)
	}
	return term.cmd.ProcessState.ExitCode()
}
