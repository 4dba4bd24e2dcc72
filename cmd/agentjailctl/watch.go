package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/invoker"
	"agentjail.dev/runtime/kernel/printable"
	"agentjail.dev/runtime/observe/journal"
	"agentjail.dev/runtime/observe/journal/otlp"
	"agentjail.dev/runtime/observe/journal/sources"
	"agentjail.dev/runtime/spec/network"
	"agentjail.dev/runtime/state"
)

func watchCommand() *cli.Command {
	return &cli.Command{
		Name: "watch", Usage: "print events of jails as they happen, one line each", ArgsUsage: "[CONTAINER...]",
		Description: `All jails of the host, or those that CONTAINER names: a container's name, its id or the
beginning of it, which may also be of a jail that is made later. It continues until it is
interrupted or its reader is gone. Earlier events are in ` + "`agentjail journal`" + `. At a
terminal, and with --approve, jails whose policy has network.approval = "prompt" wait for
an answer when they want a name that no rule has.`,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "json", Usage: "print JSON, one event a line (docs/journal.md)"},
			&cli.BoolFlag{Name: "denied", Usage: "only what was refused, limits that were met, and alerts"},
			&cli.BoolFlag{Name: "approve", Usage: "have names without a rule wait for an answer, here or by \"agentjail network allow\""},
			&cli.BoolFlag{Name: "command", Usage: "have the command network.approval_command of each jail's policy answer, in jails that have one"},
			&cli.StringFlag{Name: "to", Usage: "write to `FILE`, unix:SOCKET or otlp:http://HOST:4318 (an OpenTelemetry collector) instead of standard output"},
		},
		Action: watch,
	}
}

func watch(c *cli.Context) error {
	p, err := place(c)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(c.Context, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	// A reader that is gone is an error of writing, and no signal.
	signal.Ignore(syscall.SIGPIPE)
	write, end, err := watchTo(c)
	if err != nil {
		return err
	}
	noteHidden(c)
	wanted := watched(c)
	f, err := sources.NewFollower(p, wanted)
	if err != nil {
		return errors.Join(err, end())
	}
	defer f.Close()
	write, err = decideHere(ctx, c, wanted, write)
	if err != nil {
		return errors.Join(err, end())
	}
	err = f.Run(ctx, func(e journal.Event) error {
		if c.Bool("denied") && !e.Refused() && e.Verdict != journal.VerdictAlert {
			return nil
		}
		return write(&e)
	})
	if errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET) {
		err = nil
	}
	return errors.Join(err, end())
}

// watched returns the ids, or their beginnings, of the jails that a call names. An id without a
// jail may be that of a later one.
func watched(c *cli.Context) []string {
	wanted := c.Args().Slice()
	for i, w := range wanted {
		if _, j, err := existingJail(c, w); err == nil {
			wanted[i] = j.ID
		} else if errors.Is(err, state.ErrNotFound) {
			fmt.Fprintf(c.App.ErrWriter, "agentjail: %s: no jail has it now; one whose id begins so is watched when it comes\n",
				printable.Line(w, 256))
		}
	}
	return wanted
}

// decideHere attaches this process to the jails whose names it can decide on, if it is to decide: a
// run that only records events must not have jails wait. It returns write, which then may be called
// by several goroutines.
func decideHere(ctx context.Context, c *cli.Context, wanted []string, write func(*journal.Event) error) (
	func(*journal.Event) error, error,
) {
	out, isFile := c.App.Writer.(*os.File)
	terminal := isFile && isTerminal(out) && c.String("to") == ""
	byCommand := c.Bool("command")
	if !terminal && !c.Bool("approve") && !byCommand {
		return write, nil
	}
	r, err := existingRuntime()
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex
	print := func(text string) error {
		mu.Lock()
		defer mu.Unlock()
		_, err := fmt.Fprintln(c.App.Writer, printable.Line(text, 0))
		return err
	}
	interactive := terminal && !byCommand && isTerminal(os.Stdin) && !c.Bool("json")
	q := &questions{
		networks: r.Networks(), by: decider(), now: time.Now, attached: map[string]network.Attached{},
		wanted: func(j *state.Brief) bool {
			return checkInvoker(j) == nil &&
				(len(wanted) == 0 || slices.ContainsFunc(wanted, func(w string) bool { return strings.HasPrefix(j.ID, w) }))
		},
		report: func(text string) { fmt.Fprintln(c.App.ErrWriter, printable.Line(text, 0)) },
		print: func(n *question) error {
			if !c.Bool("json") {
				return print(n.line(interactive))
			}
			text, err := encoded(waitingForm, questionJSON{n.jail.ID, n.Waiting})
			if err != nil {
				return err
			}
			return print(string(text))
		},
	}
	if byCommand {
		q.command, q.ctx = q.commandOf, ctx
	}
	mark, err := q.networks.Store.Attend()
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, func() { mark.Close() })
	go q.run(ctx)
	if interactive {
		go q.answers(os.Stdin)
	}
	return func(e *journal.Event) error {
		mu.Lock()
		defer mu.Unlock()
		return write(e)
	}, nil
}

// watchTo returns the writer of events, and the function that ends it.
func watchTo(c *cli.Context) (write func(*journal.Event) error, end func() error, err error) {
	if endpoint, ok := strings.CutPrefix(c.String("to"), "otlp:"); ok {
		s, err := otlp.New(c.Context, endpoint, func(err error) {
			fmt.Fprintf(c.App.ErrWriter, "agentjail: the collector accepts no events: %v\n", err)
		})
		if err != nil {
			return nil, nil, fmt.Errorf("--to: %w", err)
		}
		return s.Write, s.Close, nil
	}
	out, err := watchFile(c)
	if err != nil {
		return nil, nil, err
	}
	return func(e *journal.Event) error {
		return writeEvent(out, e, c.Bool("json"))
	}, func() error { _ = out.Close(); return nil }, nil
}

// watchFile returns the file, socket or standard output that events are written to.
func watchFile(c *cli.Context) (io.WriteCloser, error) {
	to := c.String("to")
	if path, ok := strings.CutPrefix(to, "unix:"); ok {
		var conn net.Conn
		err := invoker.Do(func() (err error) { conn, err = net.Dial("unix", path); return err })
		if err != nil {
			return nil, fmt.Errorf("--to: %w (remedy: listen at it before)", err)
		}
		return conn, nil
	}
	if to != "" {
		f, err := invoker.Open(to, os.O_WRONLY|os.O_APPEND|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
		if err != nil {
			return nil, fmt.Errorf("--to: %w", err)
		}
		return f, nil
	}
	return unclosed{c.App.Writer}, nil
}

// unclosed is the standard output.
type unclosed struct{ io.Writer }

func (unclosed) Close() error { return nil }

// writeEvent writes one line at once.
func writeEvent(w io.Writer, e *journal.Event, asJSON bool) error {
	line := []byte(e.String())
	if asJSON {
		var err error
		if line, err = encoded(eventForm, e); err != nil {
			return err
		}
	}
	_, err := w.Write(append(line, '\n'))
	return err
}
