package verbs

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"

	"agentjail.dev/runtime/internal/thread"
	"agentjail.dev/runtime/jail"
	"agentjail.dev/runtime/passthrough"
)

// options are parsed flags.
type options struct {
	set  *flag.FlagSet
	long map[string]string // of short names
}

// parseFlags reads flags until the first word that is none, and returns the
// rest.
func parseFlags(what string, from []Flag, args []string) (Values, []string, error) {
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
	if err := o.set.Parse(args); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", what, err)
	}
	return o, o.set.Args(), nil
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

// A list collects the values of a flag that may be given several times.
type list []string

func (l *list) String() string     { return strings.Join(*l, ",") }
func (l *list) Set(s string) error { *l = append(*l, s); return nil }
func (l *list) Get() any           { return []string(*l) }

// Do runs a whole command line, without the program's name, in this process:
// for one that serves others meanwhile. What fails is told by Fail. It returns
// the exit status.
func (c *Caller) Do(ctx context.Context, args []string) int {
	c.Stay = true
	defer c.Close()
	return c.status(thread.Caught(func() error { return c.do(ctx, args) }))
}

func (c *Caller) do(ctx context.Context, args []string) error {
	if status, done, err := passthrough.Run(args, c.Profile, c.Stdio); err != nil {
		return err
	} else if done {
		return jail.Ended(status)
	}
	global, v, call, err := Parse(args)
	if global != nil { // so that also a wrong verb is told where the caller looks
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

// Parse reads a whole command line, without the program's name. Where only the
// global options can be read, they are returned with the error.
func Parse(args []string) (global Values, v *Verb, call *Call, err error) {
	global, rest, err := parseFlags(Program, Global(), args)
	if err != nil {
		return nil, nil, nil, err
	}
	if len(rest) == 0 {
		return global, nil, nil, errors.New("no command")
	}
	verbs := Verbs()
	i := slices.IndexFunc(verbs, func(v Verb) bool { return v.Name == rest[0] })
	if i < 0 {
		return global, nil, nil, fmt.Errorf("unknown command %q", rest[0])
	}
	v, call = &verbs[i], &Call{Args: rest[1:]}
	if !v.Raw {
		if call.Values, call.Args, err = parseFlags(v.Name, v.Flags, rest[1:]); err != nil {
			return global, nil, nil, err
		}
	}
	return global, v, call, nil
}
