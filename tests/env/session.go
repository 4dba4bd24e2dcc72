package env

import (
	"bufio"
	"io"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

// A Session is a program that runs while a test writes to it and reads its lines.
type Session struct {
	Cmd *exec.Cmd
	In  io.WriteCloser
	Out *bufio.Reader

	once sync.Once
	err  error
}

// Begin starts a program. At the test's end it is killed, unless it has ended.
func Begin(t testing.TB, cmd *exec.Cmd) *Session {
	t.Helper()
	in, out := Get(t, cmd.StdinPipe), Get(t, cmd.StdoutPipe)
	Check(t, cmd.Start())
	s := &Session{Cmd: cmd, In: in, Out: bufio.NewReader(out)}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = s.End() })
	return s
}

// Line returns the program's next line, "" where its output has ended.
func (s *Session) Line(t testing.TB) string {
	t.Helper()
	got := make(chan string, 1)
	go func() {
		line, _ := s.Out.ReadString('\n')
		got <- strings.TrimSpace(line)
	}()
	select {
	case line := <-got:
		return line
	case <-time.After(CommandWait):
		t.Fatalf("%q prints nothing within %v", s.Cmd.Args, CommandWait)
		return ""
	}
}

// Await ends the test where the program's next line is not the one that is awaited.
func (s *Session) Await(t testing.TB, line string) {
	t.Helper()
	if got := s.Line(t); got != line {
		t.Fatalf("%q prints %q, not %q", s.Cmd.Args, got, line)
	}
}

// End closes the program's input and waits for its end. It may be called more than once.
func (s *Session) End() error {
	s.once.Do(func() {
		s.In.Close()
		s.err = s.Cmd.Wait()
	})
	return s.err
}
