package delegate

import (
	"fmt"
	"os"
	"os/signal"
	"runtime"

	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/internal/fork"
)

// Time says in which time namespace a delegate runs that does not know of them.
// Such a delegate has to be inside for every verb: it tells its container's
// process by the start time in /proc, and that depends on the reader's time
// namespace.
type Time struct {
	Join    *os.File // the jail's, or nil
	Offsets string   // a new one with these offsets (time_namespaces(7)), or ""
}

// Run runs the delegate to its end with our standard files and returns its exit
// status. The goroutine must be locked to its thread: the delegate dies with
// it, and starts in the thread's mount namespace.
func (r *Runtime) Run(args []string, t Time) (int, error) { return r.run(fork.Cmd{}, args, t, false) }

// RunTo is Run with another standard output.
func (r *Runtime) RunTo(stdout *os.File, args []string, t Time) (int, error) {
	return r.run(fork.Cmd{Stdout: stdout}, args, t, false)
}

// RunInto is Run for a delegate that starts a process: files are its descriptors
// from 3 on, for --preserve-fds. In the foreground, signals are passed on to it.
func (r *Runtime) RunInto(files []*os.File, args []string, t Time, foreground bool) (int, error) {
	return r.run(fork.Cmd{Files: files}, args, t, foreground)
}

func (r *Runtime) run(c fork.Cmd, args []string, t Time, signals bool) (int, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	c.Path, c.Args, c.Env = r.Path, append([]string{r.Path}, args...), environment()
	c.JoinTime, c.NewTime, c.DieWithParent = t.Join, t.Offsets, true
	p, err := c.Start()
	if err != nil {
		return -1, err
	}
	if signals {
		defer forward(p.Pid)()
	}
	ws, err := p.Wait()
	if err != nil {
		return -1, fmt.Errorf("waiting for %s: %w", r.Path, err)
	}
	if ws.Signaled() {
		return 128 + int(ws.Signal()), nil
	}
	return ws.ExitStatus(), nil
}

// forward sends on what a foreground exec is expected to pass to its container.
// Terminal signals reach the whole foreground group anyway.
func forward(pid int) (stop func()) {
	ch := make(chan os.Signal, 64)
	signal.Notify(ch, unix.SIGTERM, unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2, unix.SIGWINCH)
	done := make(chan struct{})
	go func() {
		for {
			select {
			case s := <-ch:
				if sig, ok := s.(unix.Signal); ok {
					_ = unix.Kill(pid, sig)
				}
			case <-done:
				return
			}
		}
	}()
	return func() { signal.Stop(ch); close(done) }
}
