package runccli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"agentjail.dev/runtime/kernel/printable"
	"agentjail.dev/runtime/kernel/programs"
	"agentjail.dev/runtime/kernel/thread"
	"agentjail.dev/runtime/lifecycle"
	"agentjail.dev/runtime/refusal"
	"agentjail.dev/runtime/spec/policy"
	"agentjail.dev/runtime/state"
)

// Program is the name of the command line, and CtlProgram the file name of the program beside
// it that has agentjail's own commands.
const (
	Program    = "agentjail"
	CtlProgram = programs.Ctl
)

// A Caller holds what all calls of one caller share.
type Caller struct {
	// PolicyName is the name of the named policy, "" for none; see [PolicyName].
	PolicyName string
	// PolicyFile takes the place of the global option --config, unless it is "".
	PolicyFile string
	// Stdio are the standard files.
	Stdio [3]*os.File
	// Stay keeps this process: see lifecycle.Runtime.
	Stay bool
	// ExitStatus is of lifecycle.Runtime.
	ExitStatus func(id string) (status uint32, known bool)
	// Log goes to standard error, and with --log to the engine's file.
	Log *logrus.Logger
	// As, if not nil, runs a function that opens a file of the command line, with the caller's
	// rights.
	As func(func() error) error

	global  Values
	logPath string
	opened  []io.Closer
	verb    string
	trace   func(step string, d time.Duration)
}

// Open sets up the log by the global options, so that an error of any verb reaches the engine.
// Close closes what Open opened.
func (c *Caller) Open(global Values) error {
	c.global, c.logPath = global, global.String("log")
	for i, f := range [...]*os.File{os.Stdin, os.Stdout, os.Stderr} {
		if c.Stdio[i] == nil {
			c.Stdio[i] = f
		}
	}
	c.Log = logrus.New()
	c.Log.SetOutput(c.Stdio[2])
	c.Log.SetFormatter(&logrus.TextFormatter{DisableColors: true, FullTimestamp: true})
	switch f := global.String("log-format"); f {
	case "", "text":
	case "json":
		c.Log.SetFormatter(&logrus.JSONFormatter{TimestampFormat: time.RFC3339Nano})
	default:
		return fmt.Errorf("unknown log-format %q: text or json", f)
	}
	if c.logPath != "" {
		f, err := c.append(c.logPath, 0o644)
		if err != nil {
			return fmt.Errorf("opening the log: %w", err)
		}
		c.opened = append(c.opened, f)
		c.Log.SetOutput(f)
	}
	if global.Bool("debug") {
		c.Log.SetLevel(logrus.DebugLevel)
	}
	return nil
}

// append opens a file for appending.
func (c *Caller) append(path string, mode os.FileMode) (f *os.File, err error) {
	as := c.As
	if as == nil {
		as = func(f func() error) error { return f() }
	}
	err = as(func() error {
		// os.File would register the file with epoll.
		fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CREAT|unix.O_APPEND|unix.O_CLOEXEC|unix.O_NOCTTY, uint32(mode))
		if err != nil {
			return &os.PathError{Op: "open", Path: path, Err: err}
		}
		f = os.NewFile(uintptr(fd), path)
		return nil
	})
	return f, err
}

// Close closes what Open and Runtime opened.
func (c *Caller) Close() {
	for _, f := range c.opened {
		f.Close()
	}
}

// Quiet keeps warnings off a terminal that a user works in, unless requested.
func (c *Caller) Quiet() {
	if !c.global.Bool("debug") && c.logPath == "" {
		c.Log.SetLevel(logrus.ErrorLevel)
	}
}

// Fail reports the error where engines look for it: as the last error entry of the log, and on
// standard error. It may be called without Open.
func (c *Caller) Fail(err error) {
	msg := OneLine(err.Error())
	if c.logPath != "" && len(c.opened) > 0 {
		log := logrus.NewEntry(c.Log)
		if all := refusal.All(err); len(all) > 0 && c.global.String("log-format") == "json" {
			log = log.WithField("refusals", all) // engines read msg, programs of one's own the rest
		}
		log.Error(msg)
	}
	fmt.Fprintln(cmp.Or(c.Stdio[2], os.Stderr), Program+": "+msg)
}

// OneLine puts an error on one line of printable text: engines read the log by lines, and parts of
// a message may come from a bundle.
func OneLine(s string) string {
	return printable.Line(strings.NewReplacer("\n", " ", "\r", " ", "\t", " ").Replace(s), 4096)
}

// Runtime returns the runtime that every verb uses, with the policy.
func (c *Caller) Runtime() (*lifecycle.Runtime, error) {
	r, err := c.existing()
	if err != nil {
		return nil, err
	}
	r.Policy, err = r.LoadPolicy()
	r.LoadPolicy = nil
	return r, err
}

// existing is Runtime for a jail that exists, which no longer depends on the policy: a policy file
// that is broken by now must not keep a user from ending a jail.
func (c *Caller) existing() (*lifecycle.Runtime, error) {
	g := c.global
	store, err := state.Default()
	if err != nil {
		return nil, err
	}
	// The delegate does not run in the caller's directory.
	root, err := absolute(g.String("root"))
	if err != nil {
		return nil, err
	}
	log, err := absolute(c.logPath)
	if err != nil {
		return nil, err
	}
	r := &lifecycle.Runtime{
		Store:      store,
		LoadPolicy: c.policy,
		Globals: lifecycle.Globals{
			Root: root, Log: log, LogFormat: g.String("log-format"), Debug: g.Bool("debug"),
			SystemdCgroup: g.Bool("systemd-cgroup"), Rootless: g.String("rootless"),
		},
		Log: c.Log, Stay: c.Stay, Stdio: c.Stdio, ExitStatus: c.ExitStatus,
	}
	if r.Globals.Root == "" && store.Root != state.DefaultRoot {
		// The directory in which delegates keep a user's containers depends on the environment, and
		// differs from verb to verb.
		r.Globals.Root = filepath.Join(store.Root, "delegate")
	}
	if path := g.String("trace"); path != "" {
		f, err := c.append(path, 0o600)
		if err != nil {
			return nil, fmt.Errorf("opening the trace: %w", err)
		}
		c.opened = append(c.opened, f)
		c.trace = tracer(f, c.verb)
		r.Trace = c.trace
	}
	return r, nil
}

// Config returns the path of the policy file.
func (c *Caller) Config() string { return cmp.Or(c.PolicyFile, c.global.String("config")) }

func (c *Caller) policy() (policy.Policy, error) {
	load := policy.Load
	if c.Stay {
		load = policy.LoadLasting
	}
	p, err := load(c.Config(), c.PolicyName)
	if err == nil && p.Userns.Map == "" {
		err = errors.New("policy has no id mapping")
	}
	return p, err
}

// Run runs a verb.
func (c *Caller) Run(v *Verb, call *Call) error {
	c.verb = v.Name
	call.Caller = c
	if err := v.count(call.Args); err != nil {
		return err
	}
	err := v.Run(call)
	if c.trace != nil {
		var used unix.Rusage
		if unix.Getrusage(unix.RUSAGE_SELF, &used) == nil {
			c.trace(OwnCPU, time.Duration(used.Utime.Nano()+used.Stime.Nano()))
		}
	}
	return err
}

// OwnCPU is the last entry of a trace: the processor time of this process since its start, without
// that of the delegate.
const OwnCPU = "own CPU"

// tracer returns a function that writes one line per step, each in one write, so that the lines of
// several processes do not mix.
func tracer(out io.Writer, verb string) func(string, time.Duration) {
	return func(step string, d time.Duration) {
		fmt.Fprintf(out, "{\"verb\":%q,\"step\":%q,\"us\":%d}\n", verb, step, d.Microseconds())
	}
}

// PolicyName returns the NAME of agentjail-NAME, the named policy of a program with that name, ""
// for none.
func PolicyName(argv0 string) string {
	name, ok := strings.CutPrefix(filepath.Base(argv0), Program+"-")
	if !ok {
		return ""
	}
	return name
}

// Status reports an error by Fail, unless the delegate has printed it, and returns its exit status;
// 0 for none.
func (c *Caller) Status(err error) int {
	if _, printed := errors.AsType[*lifecycle.ExitError](err); err != nil && !printed {
		if own, ok := errors.AsType[*thread.Panic](err); ok && c.Log != nil {
			c.Log.Warnf("agentjail: %s", own.Stack)
		}
		c.Fail(err)
	}
	return lifecycle.Status(err)
}

// absolute returns a path from the caller's directory; "" stays.
func absolute(path string) (string, error) {
	if path == "" || filepath.IsAbs(path) {
		return path, nil
	}
	return filepath.Abs(path)
}

// paths returns the values of options that are paths, from the caller's directory.
func (c *Call) paths(names ...string) (map[string]string, error) {
	out := map[string]string{}
	for _, n := range names {
		var err error
		if out[n], err = absolute(c.String(n)); err != nil {
			return nil, fmt.Errorf("--%s: %w", n, err)
		}
	}
	return out, nil
}
