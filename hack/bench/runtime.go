package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A subject is one way to run a bundle.
type subject struct {
	name     string
	delegate string // the delegate's name, for grouping
	kind     kind
	variant  string // of the measure, or ""
	bin      string
	global   []string // options before the verb
	bundle   string
	id       string
	trace    string // file with agentjail's steps, or ""
	// whole, if not nil, is how it is run that has no verbs.
	whole func() (sample, error)
}

// kind reports what a subject is measured for.
type kind string

const (
	bare         kind = "no filter"                // the delegate alone; the bundle has no seccomp profile
	bareDocker   kind = "Docker's filter"          // the delegate alone, with the bundle as Docker makes it
	bareJail     kind = "a jail's bundle"          // the delegate alone, with the spec that a jail gets, on the plain root
	bareOurs     kind = "agentjail's filter"       // the delegate alone, with the filter that a jail gets
	jailed       kind = "agentjail, no filter"     // agentjail over the delegate, with the bundle of bare
	jailedDocker kind = "agentjail, Docker bundle" // agentjail over the delegate, with the bundle of bareDocker
)

// A sample is one measurement.
type sample struct {
	wall  time.Duration
	cpu   time.Duration            // of all processes that were waited for
	verbs map[string]time.Duration // wall time of each verb
}

// cmd prepares a call. Its errors go to a file: a pipe would be held open by the container.
func (s *subject) cmd(stderr *os.File, args ...string) *exec.Cmd {
	cmd := exec.Command(s.bin, slices.Concat(s.global, args)...)
	cmd.Stderr = stderr
	return cmd
}

// call runs one verb and adds what it took to the sample.
func (s *subject) call(out *sample, args ...string) error {
	stderr, err := os.CreateTemp(filepath.Dir(s.bundle), "stderr-")
	if err != nil {
		return err
	}
	defer os.Remove(stderr.Name())
	defer stderr.Close()
	cmd := s.cmd(stderr, args...)
	start := time.Now()
	err = cmd.Run()
	took := time.Since(start)
	if err != nil {
		text, _ := os.ReadFile(stderr.Name())
		return fmt.Errorf("%s: %s %s: %w: %s", s.name, filepath.Base(s.bin), strings.Join(args, " "), err, strings.TrimSpace(string(text)))
	}
	out.wall += took
	out.cpu += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	if out.verbs == nil {
		out.verbs = map[string]time.Duration{}
	}
	out.verbs[args[0]] = took
	return nil
}

// create makes the container and returns its first process.
func (s *subject) create(out *sample) (int, error) {
	pidFile := filepath.Join(s.bundle, "pid")
	if err := s.call(out, "create", "--bundle", s.bundle, "--pid-file", pidFile, s.id); err != nil {
		return 0, err
	}
	text, err := os.ReadFile(pidFile)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}

// begin makes the container and starts it, outside of any measurement. It returns the container's
// first process.
func (s *subject) begin() (pid int, err error) {
	if pid, err = s.create(&sample{}); err != nil {
		return 0, err
	}
	if err = s.call(&sample{}, "start", s.id); err != nil {
		_ = deleteAll([]*subject{s})
	}
	return pid, err
}

// deleteAll removes the containers of subjects.
func deleteAll(subjects []*subject) (err error) {
	for _, s := range subjects {
		err = errors.Join(err, s.call(&sample{}, "delete", "--force", s.id))
	}
	return err
}

// lifecycle runs the bundle once: create, start, wait for its end, delete.
func (s *subject) lifecycle() (out sample, err error) {
	if s.whole != nil {
		return s.whole()
	}
	pid, err := s.create(&out)
	if err != nil {
		return out, err
	}
	defer func() {
		if err != nil {
			_ = deleteAll([]*subject{s})
		}
	}()
	if err := s.call(&out, "start", s.id); err != nil {
		return out, err
	}
	var ws unix.WaitStatus
	var usage unix.Rusage
	start := time.Now()
	if err := wait(pid, &ws, &usage); err != nil {
		return out, err
	}
	took := time.Since(start)
	out.wall += took
	out.verbs["wait"] = took
	if !ws.Exited() || ws.ExitStatus() != 0 {
		return out, fmt.Errorf("%s: the container's process ended with status %#x", s.name, int(ws))
	}
	out.cpu += time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	return out, s.call(&out, "delete", s.id)
}

// startOnly runs the bundle once as lifecycle does. The time is that of create and start alone.
func (s *subject) startOnly() (sample, error) {
	out, err := s.lifecycle()
	out.wall = out.verbs["create"] + out.verbs["start"]
	return out, err
}

// wait waits for a container's first process. It became our child when the delegate ended, since
// this program is a child subreaper (see reaping).
func wait(pid int, ws *unix.WaitStatus, usage *unix.Rusage) error {
	for {
		_, err := unix.Wait4(pid, ws, 0, usage)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// reaping runs f while orphans become this process's children (PR_SET_CHILD_SUBREAPER(2const)).
func reaping(f func() error) error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become a child subreaper: %w", err)
	}
	defer func() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0) }()
	return f()
}

// exec runs a further process in the subject's container, which runs already, and waits for its
// end.
func (s *subject) exec(process string) (out sample, err error) {
	return out, s.call(&out, "exec", "--process", process, s.id)
}
