package delegate

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/atomicfile"
	"agentjail.dev/runtime/kernel/fork"
	"agentjail.dev/runtime/kernel/oomscore"
)

// Time is the time namespace in which a delegate runs that does not support them. Such a delegate
// has to be inside for every verb: it identifies its container's process by the start time in
// /proc, and that depends on the reader's time namespace.
type Time struct {
	Join    *os.File // the jail's, or nil
	Offsets string   // a new one with these offsets (time_namespaces(7)), or ""
}

// Run runs the delegate to its end with its Stdio and returns its exit
// status. The goroutine must be locked to its thread: the delegate dies with
// it, and starts in the thread's mount namespace.
func (r *Runtime) Run(args []string, t Time) (int, error) {
	return r.run(fork.Cmd{}, args, t, 0, false)
}

// Capture is Run, and returns what the delegate printed.
func (r *Runtime) Capture(args []string, t Time) ([]byte, int, error) {
	out, err := NewCollector(maxOutput)
	if err != nil {
		return nil, -1, err
	}
	code, err := r.run(fork.Cmd{Stdio: [3]*os.File{nil, out.To, nil}}, args, t, 0, false)
	text, cerr := out.Close()
	if err == nil {
		err = cerr
	}
	return text, code, err
}

// Output runs the delegate and returns what it printed. An end with a status
// other than 0 is an error, with the delegate's output.
func (r *Runtime) Output(args ...string) ([]byte, error) {
	messages, err := NewCollector(maxOutput)
	if err != nil {
		return nil, err
	}
	quiet := *r
	quiet.Stdio[2] = messages.To
	out, code, err := quiet.Capture(args, Time{})
	text, _ := messages.Close()
	if err == nil && code != 0 {
		err = fmt.Errorf("exit status %d", code)
		if s := strings.TrimSpace(string(text)); s != "" {
			err = errors.New(s)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("running %s %s: %w", r.Path, strings.Join(args, " "), err)
	}
	return out, nil
}

// maxOutput bounds how much of a delegate's output is kept, in bytes.
const maxOutput = 64 << 20

// A Collector keeps the beginning of what is written to a pipe.
type Collector struct {
	To   *os.File // the pipe's end for the writers
	from *os.File
	head atomicfile.Head
	done chan error
}

// NewCollector makes a collector of at most so many bytes.
func NewCollector(most int) (*Collector, error) {
	from, to, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("making a pipe: %w", err)
	}
	c := &Collector{To: to, from: from, head: atomicfile.Head{Max: most}, done: make(chan error, 1)}
	go func() {
		_, err := io.Copy(&c.head, from)
		c.done <- err
	}()
	return c, nil
}

// Close closes To, waits until all other writers have closed their ends, and returns the text.
func (c *Collector) Close() ([]byte, error) {
	c.To.Close()
	err := <-c.done
	c.from.Close()
	return c.head.Text, err
}

// RunInto is Run for a delegate that starts a process: files are its descriptors from 3 on, for
// --preserve-fds. With a score other than 0, the process inherits at least that OOM score. In the
// foreground, signals are passed on to it.
func (r *Runtime) RunInto(files []*os.File, args []string, t Time, score int, foreground bool) (int, error) {
	return r.run(fork.Cmd{Files: files}, args, t, score, foreground)
}

func (r *Runtime) run(c fork.Cmd, args []string, t Time, score int, signals bool) (int, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	c.Path, c.Args, c.Env = r.Path, append([]string{r.Path}, r.translate(args)...), environment()
	c.JoinTime, c.NewTime, c.DieWithParent = t.Join, t.Offsets, true
	for i, f := range r.Stdio {
		if c.Stdio[i] == nil {
			c.Stdio[i] = f
		}
	}
	var p *fork.Process
	start := func() (err error) { p, err = c.Start(); return err }
	var err error
	if score != 0 {
		err = oomscore.Inherit(score, start)
	} else {
		err = start()
	}
	if err != nil {
		return -1, err
	}
	if signals {
		defer forward(p.Pid)()
	}
	code, err := p.Wait()
	if err != nil {
		return -1, fmt.Errorf("waiting for %s: %w", r.Path, err)
	}
	return code, nil
}

// forward sends on what a foreground exec is expected to pass to its container.
// Terminal signals reach the whole foreground group anyway.
func forward(pid int) (stop func()) {
	ch := make(chan os.Signal, 64)
	signal.Notify(ch, unix.SIGTERM, unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2, unix.SIGWINCH)
	go func() {
		for s := range ch {
			_ = unix.Kill(pid, s.(unix.Signal))
		}
	}()
	return func() { signal.Stop(ch); close(ch) }
}
