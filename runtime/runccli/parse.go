package runccli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"

	"agentjail.dev/runtime/kernel/thread"
	"agentjail.dev/runtime/lifecycle"
	"agentjail.dev/runtime/runccli/passthrough"
	"agentjail.dev/runtime/spec/policy"
)

// options are parsed flags.
type options struct {
	set  *flag.FlagSet
	long map[string]string // of short names
}

// parseFlags reads flags until the first other word, and returns the rest. With mixed it continues
// behind that word, as runc takes options in any order ("update ID --memory 1G"). An unknown option
// there is an argument ("kill ID -9"), and so is everything after "--".
func parseFlags(what string, from []Flag, args []string, mixed bool) (Values, []string, error) {
	o := &options{set: flag.NewFlagSet(what, flag.ContinueOnError), long: map[string]string{}}
	o.set.SetOutput(io.Discard)
	o.set.Usage = func() {}
	for _, f := range from {
		for _, name := range []string{f.Name, f.Short} {
			switch {
			case name == "":
				continue
			case name == f.Short:
				o.long[name] = f.Name
				o.set.Var(o.set.Lookup(f.Name).Value, name, "")
			case f.Kind == Switch:
				o.set.Bool(name, false, "")
			case f.Kind == List:
				o.set.Var(new(list), name, "")
			default:
				o.set.String(name, f.Default, "")
			}
		}
	}
	rest, err := o.parse(from, args, mixed)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", what, err)
	}
	return o, rest, nil
}

// parse reads the options, and returns the other arguments.
func (o *options) parse(from []Flag, args []string, mixed bool) (rest []string, err error) {
	for len(args) > 0 {
		w := width(args, from)
		switch {
		case args[0] == "--":
			return append(rest, args[1:]...), nil
		case w > 0:
		case len(rest) == 0 && strings.HasPrefix(args[0], "-") && args[0] != "-":
			return nil, o.set.Parse(args[:1]) // which reports that it is unknown, or flag.ErrHelp
		case mixed:
			rest, args = append(rest, args[0]), args[1:]
			continue
		default:
			return args, nil
		}
		if err := o.set.Parse(args[:w]); err != nil {
			return nil, err
		}
		args = args[w:]
	}
	return rest, nil
}

// width returns how many arguments an option takes, with its value; 0 for an argument that is no
// option of these.
func width(args []string, flags []Flag) int {
	if !strings.HasPrefix(args[0], "-") {
		return 0
	}
	name, _, whole := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(args[0], "-"), "-"), "=")
	i := slices.IndexFunc(flags, func(f Flag) bool { return name != "" && (name == f.Name || name == f.Short) })
	switch {
	case i < 0:
		return 0
	case flags[i].Kind == Switch, whole, len(args) == 1:
		return 1
	}
	return 2
}

func (o *options) value(name string) any {
	if f := o.set.Lookup(name); f != nil {
		return f.Value.(flag.Getter).Get()
	}
	return nil
}

func (o *options) String(name string) string { s, _ := o.value(name).(string); return s }

func (o *options) Bool(name string) bool { b, _ := o.value(name).(bool); return b }

func (o *options) StringSlice(name string) []string { l, _ := o.value(name).([]string); return l }

func (o *options) IsSet(name string) bool {
	found := false
	o.set.Visit(func(f *flag.Flag) { found = found || f.Name == name || o.long[f.Name] == name })
	return found
}

// A list collects the values of a flag that may be repeated.
type list []string

func (l *list) String() string     { return strings.Join(*l, ",") }
func (l *list) Set(s string) error { *l = append(*l, s); return nil }
func (l *list) Get() any           { return []string(*l) }

// Do runs a whole command line, without the program's name, in this process: for a process that
// serves other calls meanwhile. Fail reports errors. Do returns the exit status.
func (c *Caller) Do(ctx context.Context, args []string) int {
	c.Stay = true
	defer c.Close()
	return c.Status(thread.Caught(func() error { return c.do(ctx, args) }))
}

func (c *Caller) do(ctx context.Context, args []string) error {
	if status, done, err := passthrough.Run(args, c.PolicyName, c.Stdio); err != nil {
		return err
	} else if done {
		return lifecycle.Ended(status)
	}
	global, v, call, err := Parse(args)
	if global != nil { // so that a wrong verb, too, is reported where the caller looks
		if err := c.Open(global); err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	call.Ctx = ctx
	return c.Run(v, call)
}

// ErrNoVerb is Parse's error for a command line without a verb.
var ErrNoVerb = errors.New("no command")

// An UnknownError is Parse's for a verb that is not a runtime's.
type UnknownError struct{ Verb string }

// Error names the verb, and the command that lists the known ones.
func (e *UnknownError) Error() string {
	names := slices.Clone(CtlCommands)
	for _, v := range Verbs() {
		names = append(names, v.Name)
	}
	return fmt.Sprintf("unknown command %q%s: see `agentjail --help`", e.Verb, policy.Suggestion(e.Verb, names))
}

// usage sets the status of a command line that names no verb of runc's, whose statuses are runc's:
// that of agentjail's own commands.
func usage(err error) error { return &lifecycle.StatusError{Code: 2, Err: err} }

// Parse reads a whole command line, without the program's name. If only the global options can be
// read, they are returned with the error.
func Parse(args []string) (global Values, v *Verb, call *Call, err error) {
	global, rest, err := parseFlags(Program, Global(), args, false)
	if err != nil {
		return nil, nil, nil, usage(err)
	}
	if len(rest) == 0 {
		return global, nil, nil, ErrNoVerb
	}
	verbs := Verbs()
	i := slices.IndexFunc(verbs, func(v Verb) bool { return v.Name == rest[0] })
	if i < 0 {
		return global, nil, nil, usage(&UnknownError{rest[0]})
	}
	v, call = &verbs[i], &Call{Args: rest[1:]}
	if v.Raw && slices.ContainsFunc(call.Args, func(a string) bool { return a == "--help" || a == "-h" }) {
		return global, nil, nil, fmt.Errorf("%s: %w", v.Name, flag.ErrHelp)
	}
	if !v.Raw {
		if call.Values, call.Args, err = parseFlags(v.Name, v.Flags, rest[1:], !v.Foreign); err != nil {
			return global, nil, nil, err
		}
	}
	return global, v, call, nil
}
