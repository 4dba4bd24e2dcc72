package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/observe/journal"
	"agentjail.dev/runtime/observe/journal/otlp"
	"agentjail.dev/runtime/observe/journal/sources"
)

func watchCommand() *cli.Command {
	return &cli.Command{
		Name: "watch", Usage: "print events of jails as they happen, one line each", ArgsUsage: "[CONTAINER...]",
		Description: `All jails of the host, or those whose ids are or begin with CONTAINER, also such as are
made later. It continues until it is interrupted or its reader is gone. Earlier
events are in ` + "`agentjail journal`" + `.`,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "json", Usage: "print JSON, one event a line (docs/journal.md)"},
			&cli.BoolFlag{Name: "denied", Usage: "only what was refused, limits that were met, and alerts"},
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
	f, err := sources.NewFollower(p, c.Args().Slice())
	if err != nil {
		return errors.Join(err, end())
	}
	defer f.Close()
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

// watchTo returns the writer of events, and the function that ends it.
func watchTo(c *cli.Context) (write func(*journal.Event) error, end func() error, err error) {
	if endpoint, ok := strings.CutPrefix(c.String("to"), "otlp:"); ok {
		s, err := otlp.New(c.Context, endpoint, func(err error) { fmt.Fprintf(c.App.ErrWriter, "agentjail: the collector accepts no events: %v\n", err) })
		if err != nil {
			return nil, nil, fmt.Errorf("--to: %w", err)
		}
		return s.Write, s.Close, nil
	}
	out, err := watchFile(c)
	if err != nil {
		return nil, nil, err
	}
	return func(e *journal.Event) error { return writeEvent(out, e, c.Bool("json")) }, func() error { _ = out.Close(); return nil }, nil
}

// watchFile returns the file, socket or standard output that events are written to.
func watchFile(c *cli.Context) (io.WriteCloser, error) {
	to := c.String("to")
	if path, ok := strings.CutPrefix(to, "unix:"); ok {
		conn, err := net.Dial("unix", path)
		if err != nil {
			return nil, fmt.Errorf("--to: %w (remedy: listen at it before)", err)
		}
		return conn, nil
	}
	if to != "" {
		f, err := os.OpenFile(to, os.O_WRONLY|os.O_APPEND|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
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
