package hasher

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/linux/privileges"
)

// Verb is how the collector calls its own program as the hasher. It is no verb of people's.
const Verb = "hasher"

// fdAnswers is the hasher's descriptor of its answers; requests are its standard input.
const fdAnswers = 3

// Needed are the hasher's capabilities: to see jails' processes and their roots (ptrace(2), access mode checking), and to read files that are
// their owners' alone.
var Needed = []uintptr{unix.CAP_SYS_PTRACE, unix.CAP_DAC_READ_SEARCH}

// nice is how little the hasher may be in the way of others (setpriority(2)).
const nice = 10

// Run is the hasher's process: it answers until the writer is gone.
func Run() error {
	keep := make([]int, len(Needed))
	for i, c := range Needed {
		keep[i] = int(c)
	}
	if err := privileges.Keep(keep...); err != nil {
		return fmt.Errorf("%w (remedy: CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH, or root)", err)
	}
	// Of every thread: the process is its group's only one.
	if err := unix.Setpriority(unix.PRIO_PGRP, 0, nice); err != nil {
		return fmt.Errorf("the hasher's priority: %w", err)
	}
	if err := confine(); err != nil {
		return err
	}
	s := server{look: (*Request).find, patience: patience}
	return s.serve(os.Stdin, os.NewFile(fdAnswers, "answers"))
}

// A server answers requests.
type server struct {
	look     func(*Request) int
	patience time.Duration
	stuck    atomic.Int32
	reading  chan struct{}
	mu       sync.Mutex // of what is written
}

func (s *server) serve(in io.Reader, out io.Writer) error {
	s.reading = make(chan struct{}, reading)
	slots := make(chan struct{}, looking)
	for {
		r := new(Request)
		if err := binary.Read(in, binary.LittleEndian, r); err == io.EOF {
			return nil
		} else if err != nil {
			return fmt.Errorf("the writer's requests: %w", err)
		}
		slots <- struct{}{}
		go func() {
			defer func() { <-slots }()
			a := s.bounded(r)
			a.Number = r.Number
			s.mu.Lock()
			defer s.mu.Unlock()
			if binary.Write(out, binary.LittleEndian, a) != nil {
				os.Exit(1) // the writer is gone
			}
		}()
	}
}

// bounded answers in time. What hangs in the kernel, on a file system that waits for somebody, is left behind.
func (s *server) bounded(r *Request) Answer {
	if s.stuck.Load() >= maxStuck {
		return Answer{Why: Late}
	}
	done := make(chan Answer, 1)
	go func() { done <- s.answer(r) }()
	late := time.NewTimer(s.patience)
	defer late.Stop()
	select {
	case a := <-done:
		return a
	case <-late.C:
		s.stuck.Add(1)
		go func() {
			<-done
			s.stuck.Add(-1)
		}()
		return Answer{Why: Late}
	}
}

func (s *server) answer(r *Request) (a Answer) {
	// Well before it counts as stuck.
	deadline := time.Now().Add(s.patience / 2)
	found := s.look(r)
	if found < 0 {
		time.Sleep(again)
		found = s.look(r)
	}
	if found < 0 {
		return Answer{Why: Gone}
	}
	defer unix.Close(found)
	late := time.NewTimer(time.Until(deadline))
	defer late.Stop()
	select {
	case s.reading <- struct{}{}:
	case <-late.C:
		return Answer{Why: Late}
	}
	defer func() { <-s.reading }()
	a.Sum, a.Why = r.File.sum(found, deadline)
	return a
}
