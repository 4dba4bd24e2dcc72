// Command neighbors runs a command while jails, Docker's containers and Podman's come and go on the
// same machine, as on one that has other work.
//
//	neighbors [-pause DURATION] COMMAND [ARGUMENT...]
//
// Its jails are those of a default install: with agentjail's own directories. One of each kind
// lives all the time. The exit status is the command's; it is 3 where something that a neighbour
// does fails, or a neighbour is not as it was when the command has ended.
package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

func main() {
	engine.IfJanitor()
	pause := flag.Duration("pause", 0, "how long each neighbour waits between two containers")
	flag.Parse()
	if flag.NArg() == 0 {
		fmt.Fprintln(os.Stderr, "usage: neighbors [-pause DURATION] COMMAND [ARGUMENT...]")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status, err := beside(ctx, *pause, flag.Args())
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "neighbors:", err)
		status = 3
	}
	os.Exit(status)
}

// A neighbour makes and removes containers of one kind.
type neighbour interface {
	// once makes a container that ends by itself, and one command in the one that lives.
	once(ctx context.Context) error
	// Close ends the one that lives, which must have lived, and removes all that there is.
	Close() error
}

// beside runs the command, and the neighbours until it ends.
func beside(ctx context.Context, pause time.Duration, args []string) (status int, err error) {
	under, err := engine.UnderTest()
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, engine.RemoveBuilt()) }()
	var mu sync.Mutex
	var wg sync.WaitGroup
	loops, end := context.WithCancel(ctx)
	defer end()
	for name, start := range map[string]func(string) (neighbour, error){"jails": newJails, "docker": newDocker, "podman": newPodman} {
		n, serr := start(under)
		if serr != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", name, serr))
			continue
		}
		wg.Go(func() {
			made, lerr := loop(loops, n, pause)
			lerr = errors.Join(lerr, n.Close())
			mu.Lock()
			defer mu.Unlock()
			fmt.Fprintf(os.Stderr, "neighbors: %s: %d made and removed beside the command\n", name, made)
			if lerr != nil {
				err = errors.Join(err, fmt.Errorf("%s: %w", name, lerr))
			}
		})
	}
	if err == nil {
		status = command(ctx, args)
	}
	end()
	wg.Wait()
	return status, err
}

// command runs the command to its end.
func command(ctx context.Context, args []string) int {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit) && exit.ExitCode() > 0:
		return exit.ExitCode()
	}
	fmt.Fprintln(os.Stderr, "neighbors:", err)
	return 1
}

// loop has a neighbour make containers until ctx ends, or something fails.
func loop(ctx context.Context, n neighbour, pause time.Duration) (made int, err error) {
	for ctx.Err() == nil {
		// Not ctx: what has begun comes to its end.
		one, cancel := context.WithTimeout(context.Background(), env.CommandWait)
		err = n.once(one)
		cancel()
		if err != nil {
			return made, err
		}
		made++
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
	return made, nil
}

// prints runs a command that has to print a text and nothing else.
func prints(cmd *exec.Cmd, want string) error {
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if err == nil && strings.TrimSpace(out.String()) != want {
		err = fmt.Errorf("it does not print %q", want)
	}
	if err != nil {
		return fmt.Errorf("%s: %w: %q\n%s", strings.Join(cmd.Args, " "), err, out.String(), errs.String())
	}
	return nil
}

// jails are made by agentjail sandbox. The one that lives repeats what it reads.
type jails struct {
	bin   string
	lives *exec.Cmd
	in    io.WriteCloser
	out   *bufio.Reader
	errs  bytes.Buffer
}

func newJails(under string) (neighbour, error) {
	j := &jails{bin: under}
	j.lives = exec.Command(under, "sandbox", "--", "cat")
	j.lives.Stderr = &j.errs
	var err error
	if j.in, err = j.lives.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := j.lives.StdoutPipe()
	if err != nil {
		return nil, err
	}
	j.out = bufio.NewReader(out)
	return j, j.lives.Start()
}

func (j *jails) once(ctx context.Context) error {
	if err := prints(exec.CommandContext(ctx, j.bin, "sandbox", "--", "echo", "hello"), "hello"); err != nil {
		return err
	}
	if _, err := io.WriteString(j.in, "alive\n"); err != nil {
		return fmt.Errorf("the jail that lives: %w\n%s", err, j.errs.String())
	}
	if line, err := j.out.ReadString('\n'); err != nil || line != "alive\n" {
		return fmt.Errorf("the jail that lives repeats %q: %w\n%s", line, err, j.errs.String())
	}
	return nil
}

func (j *jails) Close() error {
	j.in.Close()
	if err := j.lives.Wait(); err != nil {
		return fmt.Errorf("the jail that lives: %w\n%s", err, j.errs.String())
	}
	return nil
}

// containers are those of an engine with a command like docker.
type containers struct {
	run   func(ctx context.Context, args ...string) *exec.Cmd
	flags []string
	lives string // the id of the one that lives
	pid   string
	end   func() error
}

// live starts the one that lives.
func (c *containers) live() (neighbour, error) {
	ctx, cancel := context.WithTimeout(context.Background(), env.CommandWait)
	defer cancel()
	out, err := c.run(ctx, append(append([]string{"run", "-d"}, c.flags...), engine.Busybox, "sleep", "1000000")...).Output()
	if err == nil {
		c.lives = strings.TrimSpace(string(out))
		c.pid, err = c.state(ctx)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start the container that lives: %w", err), c.end())
	}
	return c, nil
}

// state is whether the one that lives runs, and its first process.
func (c *containers) state(ctx context.Context) (string, error) {
	out, err := c.run(ctx, "inspect", "--format", "{{.State.Status}} {{.State.Pid}}", c.lives).Output()
	return strings.TrimSpace(string(out)), err
}

func (c *containers) once(ctx context.Context) error {
	if err := prints(c.run(ctx, append(append([]string{"run", "--rm"}, c.flags...), engine.Busybox, "echo", "hello")...), "hello"); err != nil {
		return err
	}
	return prints(c.run(ctx, "exec", c.lives, "echo", "alive"), "alive")
}

func (c *containers) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), env.CommandWait)
	defer cancel()
	now, err := c.state(ctx)
	if err == nil && now != c.pid {
		err = fmt.Errorf("the container that lives is %q, and was %q", now, c.pid)
	}
	ids, lerr := c.run(ctx, "ps", "-aq", "--no-trunc").Output()
	if lerr == nil && strings.TrimSpace(string(ids)) != c.lives {
		lerr = fmt.Errorf("there are containers other than the one that lives: %q", ids)
	}
	return errors.Join(err, lerr, c.run(ctx, "rm", "-f", c.lives).Run(), c.end())
}

func newDocker(under string) (neighbour, error) {
	e, err := engine.Start(engine.Options{Runtimes: map[string]engine.Runtime{engine.Name: {Path: under}}})
	if err != nil {
		return nil, err
	}
	if err := e.ImportBusybox(); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return (&containers{run: e.Command, flags: []string{"--runtime", engine.Name}, end: e.Close}).live()
}

func newPodman(under string) (neighbour, error) {
	p, err := engine.StartPodman()
	if err != nil {
		return nil, err
	}
	run := func(ctx context.Context, args ...string) *exec.Cmd {
		return p.Inside(ctx, append([]string{"podman"}, args...)...)
	}
	if err := errors.Join(p.Register(under), p.ImportBusybox(false)); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return (&containers{run: run, flags: []string{"--network=none"}, end: p.Close}).live()
}
