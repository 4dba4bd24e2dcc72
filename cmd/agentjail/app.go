package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/jail"
	"agentjail.dev/runtime/policy"
	"agentjail.dev/runtime/state"
)

// version is set by the build.
var (
	version = "0.1.0-dev"
	commit  = ""
)

const description = `agentjail takes runc's command line, so that engines use it as a runtime:

   docker run --runtime=agentjail IMAGE
   podman --runtime agentjail run IMAGE

It rewrites every bundle into a jail of three rings (resources, access, kernel
surface) and hands it to the host's runc or crun. Nothing in a bundle can widen
the jail; the host's owner can, in ` + policy.DefaultPath + `.

Called by another name, agentjail-NAME, it uses [profiles.NAME] of that file.`

// log goes to standard error, and with --log to the engine's file.
var log = logrus.New()

func newApp() *cli.App {
	cli.VersionPrinter = printVersion
	cli.OsExiter = func(int) {}
	app := &cli.App{
		Name:                   "agentjail",
		Usage:                  "run OCI containers as jails for AI agents",
		Description:            description,
		Version:                version,
		HideHelpCommand:        false,
		UseShortOptionHandling: false,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "root", Usage: "folder of the delegate's container state"},
			&cli.BoolFlag{Name: "debug", Usage: "log more"},
			&cli.StringFlag{Name: "log", Usage: "write the log to `FILE` (default: standard error)"},
			&cli.StringFlag{Name: "log-format", Usage: "text or json"},
			&cli.BoolFlag{Name: "systemd-cgroup", Usage: "let systemd make the control groups"},
			&cli.StringFlag{Name: "rootless", Usage: "true, false or auto", Hidden: true},
			&cli.StringFlag{Name: "criu", Usage: "ignored: jails are not checkpointed", Hidden: true},
			&cli.StringFlag{Name: "config", Usage: "policy `FILE`, writable by root only", Value: policy.DefaultPath},
			&cli.StringFlag{Name: "trace", Usage: "append the time of each station to `FILE`, as JSON lines"},
		},
		Before:   before,
		Commands: append(runtimeCommands(), ownCommands()...),
		Action: func(c *cli.Context) error {
			if c.NArg() > 0 {
				return fmt.Errorf("unknown command %q: see `agentjail --help`", c.Args().First())
			}
			return cli.ShowAppHelp(c)
		},
		OnUsageError: func(_ *cli.Context, err error, _ bool) error { return err },
		// Errors are told once, by fatal.
		ExitErrHandler: func(*cli.Context, error) {},
	}
	for _, c := range app.Commands {
		c.OnUsageError = func(_ *cli.Context, err error, _ bool) error { return err }
	}
	return app
}

// before sets up the log, so that an error of any verb reaches the engine.
func before(c *cli.Context) error {
	log.SetOutput(os.Stderr)
	log.SetFormatter(&logrus.TextFormatter{DisableColors: true, FullTimestamp: true})
	logPath = c.String("log")
	switch f := c.String("log-format"); f {
	case "", "text":
	case "json":
		logJSON = true
	default:
		return fmt.Errorf("unknown log-format %q: text or json", f)
	}
	if logPath != "" {
		fd, err := unix.Open(logPath, unix.O_WRONLY|unix.O_CREAT|unix.O_APPEND|unix.O_CLOEXEC|unix.O_NOCTTY, 0o644)
		if err != nil {
			return fmt.Errorf("opening the log %s: %w", logPath, err)
		}
		log.SetOutput(os.NewFile(uintptr(fd), logPath))
	}
	if logJSON {
		log.SetFormatter(&logrus.JSONFormatter{TimestampFormat: time.RFC3339Nano})
	}
	if c.Bool("debug") {
		log.SetLevel(logrus.DebugLevel)
	}
	return nil
}

var (
	logPath string
	logJSON bool
)

// fatal tells the error where engines look for it: as the last error entry of
// the log, and on standard error.
func fatal(err error) {
	msg := oneLine(err.Error())
	if logPath != "" {
		log.Error(msg)
	}
	fmt.Fprintln(os.Stderr, "agentjail: "+msg)
	os.Exit(1)
}

// oneLine keeps an error on one line: engines read the log by lines, and parts
// of a message may come from a bundle.
func oneLine(s string) string {
	s = strings.Map(func(r rune) rune {
		if r == '\n' || r == '\r' {
			return ' '
		}
		if r < ' ' || r == 0x7f {
			return -1
		}
		return r
	}, s)
	const max = 4096
	if len(s) > max {
		s = s[:max] + "..."
	}
	return s
}

// newWay gathers what every verb shares.
func newWay(c *cli.Context) (*jail.Way, error) {
	pol, err := policy.Load(c.String("config"), profileName(os.Args[0]))
	if err != nil {
		return nil, err
	}
	if pol.Userns.Map == "" {
		return nil, errors.New("policy has no id mapping")
	}
	w := &jail.Way{
		Store:  state.Store{Root: state.DefaultRoot},
		Policy: pol,
		Globals: jail.Globals{
			Root: c.String("root"), Log: logPath, LogFormat: c.String("log-format"), Debug: c.Bool("debug"),
			SystemdCgroup: c.Bool("systemd-cgroup"), Rootless: c.String("rootless"),
		},
		Log: log,
	}
	if path := c.String("trace"); path != "" {
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
		if err != nil {
			return nil, fmt.Errorf("opening the trace: %w", err)
		}
		w.Trace = tracer(f, c.Command.Name)
	}
	return w, nil
}

// tracer writes one line per station; each is one write, so that the lines of
// several processes do not mix.
func tracer(out io.Writer, verb string) func(string, time.Duration) {
	return func(station string, d time.Duration) {
		fmt.Fprintf(out, "{\"verb\":%q,\"station\":%q,\"us\":%d}\n", verb, station, d.Microseconds())
	}
}

// profileName is NAME of agentjail-NAME.
func profileName(argv0 string) string {
	name, ok := strings.CutPrefix(filepath.Base(argv0), "agentjail-")
	if !ok {
		return ""
	}
	return name
}

// oneID is the sole argument of most verbs.
func oneID(c *cli.Context) (string, error) {
	if c.NArg() != 1 {
		return "", fmt.Errorf("%q requires exactly 1 argument, a container id (see `agentjail %s --help`)", c.Command.Name, c.Command.Name)
	}
	return c.Args().First(), nil
}

// quieter keeps warnings off the terminal of a command that somebody works in,
// unless asked for: explain and inspect tell the same.
func quieter(c *cli.Context) logrus.Level {
	if c.Bool("debug") || logPath != "" {
		return log.GetLevel()
	}
	return logrus.ErrorLevel
}
