package shim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/containerd/containerd/v2/pkg/sys/reaper"
	runc "github.com/containerd/go-runc"
	"github.com/containerd/log"
	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/runccli"
)

// A monitor starts the runtime's commands for containerd's task service. They are agentjail's
// verbs, and run in this process: whatever path a command has, only a delegate of the policy's is
// ever executed.
type monitor struct {
	// statuses are those of the tasks' first processes, by the tasks' ids, for the journals. It may
	// be nil.
	statuses *sync.Map
}

// status returns that of a task that has ended, once.
func (m monitor) status(id string) (status uint32, known bool) {
	if m.statuses == nil {
		return 0, false
	}
	s, known := m.statuses.LoadAndDelete(id)
	if !known {
		return 0, false
	}
	return s.(uint32), true
}

// Start begins a command. Its files are duplicated: the caller closes its own.
func (m monitor) Start(cmd *exec.Cmd) (chan runc.Exit, error) {
	files, err := openStdio(cmd)
	if err != nil {
		return nil, fmt.Errorf("preparing %s: %w", strings.Join(cmd.Args, " "), err)
	}
	ended := make(chan runc.Exit, 1)
	memory.begin()
	go func() {
		defer memory.end()
		status := m.perform(cmd.Args, files.child)
		files.close()
		ended <- runc.Exit{Timestamp: time.Now(), Status: status}
		close(ended)
	}()
	return ended, nil
}

// StartLocked is Start: a delegate's thread outlives it anyway.
func (m monitor) StartLocked(cmd *exec.Cmd) (chan runc.Exit, error) { return m.Start(cmd) }

// Wait waits for a command's end.
func (monitor) Wait(_ *exec.Cmd, ended chan runc.Exit) (int, error) {
	e, ok := <-ended
	if !ok {
		return -1, reaper.ErrNoSuchProcess
	}
	return e.Status, nil
}

// perform runs a command line.
func (m monitor) perform(args []string, stdio [3]*os.File) int {
	n := parseName(args[0])
	rest := args[1:]
	if n.config != "" {
		rest = append([]string{"--config", n.config}, rest...)
	}
	return guarded(strings.Join(args, " "), stdio[2], func() int {
		c := &runccli.Caller{PolicyName: n.policy, Stdio: stdio, ExitStatus: m.status}
		return c.Do(context.Background(), rest)
	})
}

// guarded turns a panic into a failed command: this process serves other containers too.
func guarded(what string, stderr *os.File, f func() int) (status int) {
	defer func() {
		if p := recover(); p != nil {
			log.L.Errorf("panic in %q: %v\n%s", what, p, debug.Stack())
			fmt.Fprintf(stderr, "%s: internal error: %v\n", runccli.Program, p)
			status = 2
		}
	}()
	return f()
}

// stdio holds the standard files of a command, as os/exec would make them.
type stdio struct {
	child  [3]*os.File
	copies sync.WaitGroup // of the output
	feed   *os.File       // our end of a standard input that is copied
}

func openStdio(cmd *exec.Cmd) (*stdio, error) {
	s := &stdio{}
	var err error
	if s.child[0], err = s.input(cmd.Stdin); err == nil {
		s.child[1], err = s.output(cmd.Stdout)
	}
	switch {
	case err != nil:
	case cmd.Stderr != nil && same(cmd.Stderr, cmd.Stdout):
		s.child[2], err = duplicate(s.child[1])
	default:
		s.child[2], err = s.output(cmd.Stderr)
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// same compares writers, of which some kinds cannot be compared.
func same(a, b io.Writer) bool {
	defer func() { _ = recover() }()
	return a == b
}

func (s *stdio) input(r io.Reader) (*os.File, error) {
	switch r := r.(type) {
	case nil:
		return os.OpenFile(os.DevNull, os.O_RDWR, 0)
	case *os.File:
		return duplicate(r)
	}
	theirs, ours, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	s.feed = ours
	go func() {
		_, _ = io.Copy(ours, r) // ends at the latest when close closes the pipe
		ours.Close()
	}()
	return theirs, nil
}

func (s *stdio) output(w io.Writer) (*os.File, error) {
	switch w := w.(type) {
	case nil:
		return os.OpenFile(os.DevNull, os.O_RDWR, 0)
	case *os.File:
		return duplicate(w)
	}
	ours, theirs, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	s.copies.Go(func() {
		_, _ = io.Copy(w, ours)
		ours.Close()
	})
	return theirs, nil
}

// close closes the command's files and waits until its output has arrived.
func (s *stdio) close() {
	for _, f := range s.child {
		if f != nil {
			f.Close()
		}
	}
	if s.feed != nil {
		s.feed.Close()
	}
	s.copies.Wait()
}

func duplicate(f *os.File) (*os.File, error) {
	if f == nil {
		return nil, errors.New("a file that is not open")
	}
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, fmt.Errorf("duplicating a file: %w", err)
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}

// children has fork wait for its children through the task service's reaper, which waits for all.
func children() (wait func(pid int) (int, error), stop func()) {
	ends := reaper.Default.Subscribe()
	return func(pid int) (int, error) {
		defer reaper.Default.Unsubscribe(ends)
		for e := range ends {
			if e.Pid == pid {
				return e.Status, nil
			}
		}
		return -1, reaper.ErrNoSuchProcess
	}, func() { reaper.Default.Unsubscribe(ends) }
}
