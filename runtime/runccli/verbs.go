// Package runccli holds runc's command line as data: its verbs, their options, and what each does
// with a jail. The command line program and the containerd shim both use it.
package runccli

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"agentjail.dev/runtime/lifecycle"
	"agentjail.dev/runtime/refusal"
	"agentjail.dev/runtime/spec/policy"
)

// Kind is the kind of a flag's value.
type Kind int

// A flag has one text, is there or not, or has several texts.
const (
	Text Kind = iota
	Switch
	List
)

// A Flag is an option. The names are runc's.
type Flag struct {
	Name, Short string
	Kind        Kind
	Default     string
	Usage       string
	Hidden      bool
}

// Values are the options of a call, by name.
type Values interface {
	String(name string) string
	Bool(name string) bool
	StringSlice(name string) []string
	// IsSet reports whether the caller set the option.
	IsSet(name string) bool
}

// A Verb is one of runc's commands.
type Verb struct {
	Name, Usage string
	Args        string // what follows the options, for help
	// Description is the rest of the help: what it does beyond runc, what comes back.
	Description string
	Flags       []Flag
	// Raw reports that options are not parsed.
	Raw bool
	// Foreign reports that the arguments after the container's id are not ours.
	Foreign bool
	// Run executes the verb. An *lifecycle.ExitError is the failure of the delegate, which has
	// printed its error itself.
	Run func(*Call) error
}

// A Call is a verb with its options and arguments.
type Call struct {
	*Caller
	Values
	Args []string
	Ctx  context.Context
}

// Global are the options before the verb.
func Global() []Flag {
	return []Flag{
		{Name: "root", Usage: "`DIRECTORY` of the delegate's container state (default: the delegate's own, as /run/runc)"},
		{Name: "debug", Kind: Switch, Usage: "log debug messages, the delegate's too"},
		{Name: "log", Usage: "write the log to `FILE` (default: standard error)"},
		{Name: "log-format", Usage: "`FORMAT` of the log: text or json; json has the parts of a refusal (docs/why.md) (default: text)"},
		{Name: "systemd-cgroup", Kind: Switch, Usage: "have systemd create the control groups, as scopes; cgroupsPath is then SLICE:PREFIX:NAME"},
		{Name: "rootless", Usage: "true, false or auto", Hidden: true},
		{Name: "criu", Usage: "ignored: jails are not checkpointed", Hidden: true},
		{Name: "config", Usage: "policy `FILE`; only root may be able to write it", Default: policy.DefaultPath},
		{Name: "version", Short: "v", Kind: Switch, Usage: "print the version", Hidden: true},
		{Name: "trace", Usage: "append the time of each step to `FILE`, as JSON lines"},
	}
}

// CtlCommands are the names of agentjail's own commands, which agentjailctl has: no
// engine calls them, and none is passed through to a delegate.
var CtlCommands = []string{
	"sandbox", "git", "ls", "watch", "denied", "journal", "gc", "check", "explain", "inspect", "why", "learn",
	"network", "diff", "export", "receipt", "policy", "seccomp", "install", "uninstall", "workspace", "home",
	"completion",
}

// Verbs are runc's. They are not to be changed.
func Verbs() []Verb { return table() }

// table is made once, and not before main.
var table = sync.OnceValue(func() []Verb {
	return []Verb{
		create("create", "make a jail from a bundle; its process waits for start", false),
		create("run", "make a jail, start it and wait for its end", true),
		{
			Name: "start", Usage: "seal the jail's network and start its program", Args: "CONTAINER",
			Description: "Seals the network namespace, looks at the waiting process from outside, and releases\nit. Inside, the init step verifies every ring, installs the inner filter and executes\nthe program. A protection that does not hold ends the jail.",
			Run: func(c *Call) error {
				r, id, err := c.jail()
				if err != nil {
					return err
				}
				return r.Start(id)
			},
		},
		exec(),
		update(),
		{
			Name: "delete", Usage: "remove a jail and everything made for it", Args: "CONTAINER",
			Description: "Removes the container from the delegate, its mounts, control groups, host ids, network\nseal and record. The ephemeral layer is lost.",
			Flags:       []Flag{{Name: "force", Short: "f", Kind: Switch, Usage: "kill the jail first; a jail that does not exist is no error"}},
			Run: func(c *Call) error {
				r, id, err := c.jail()
				if err != nil {
					return err
				}
				return r.Delete(id, c.Bool("force"))
			},
		},
		pass("kill", "send a signal to the jail's first process (default: TERM)", "CONTAINER [SIGNAL]",
			Flag{Name: "all", Short: "a", Kind: Switch, Usage: "send it to every process of the jail"}),
		pass("pause", "suspend all processes", "CONTAINER"),
		pass("resume", "resume all processes", "CONTAINER"),
		pass("state", "print the state as JSON (OCI runtime-spec, state)", "CONTAINER"),
		pass("ps", "list the processes", "CONTAINER [ps options]",
			Flag{Name: "format", Short: "f", Usage: "`FORMAT`: table or json (default: table)"}),
		pass("events", "print events and statistics", "CONTAINER",
			Flag{Name: "interval", Usage: "`DURATION` between two statistics (default: 5s)"},
			Flag{Name: "stats", Kind: Switch, Usage: "print statistics once and exit"}),
		pass("list", "list the containers below --root", "",
			Flag{Name: "format", Short: "f", Usage: "`FORMAT`: table or json (default: table)"},
			Flag{Name: "quiet", Short: "q", Kind: Switch, Usage: "print ids only"}),
		refused("checkpoint", "a jail's memory must not be written to the host's disk"),
		refused("restore", "a restored process was never hardened"),
		{Name: "features", Usage: "print what jails can have, as JSON (OCI runtime-spec, features.md)", Run: printFeatures},
	}
})

// count refuses fewer or more arguments than Args has: those in brackets are optional.
func (v *Verb) count(args []string) error {
	if v.Raw {
		return nil
	}
	needed, _, _ := strings.Cut(v.Args, "[")
	least, most := len(strings.Fields(needed)), len(strings.Fields(v.Args))
	switch {
	case len(args) < least:
		return fmt.Errorf("%q requires a container id (see `agentjail %s --help`)", v.Name, v.Name)
	case len(args) > most && !v.Foreign:
		return fmt.Errorf("%q takes at most %d arguments, and %q is one more (see `agentjail %s --help`)", v.Name, most, args[most], v.Name)
	}
	return nil
}

// jail returns the runtime and the id for verbs whose sole argument is the id of an existing
// container.
func (c *Call) jail() (*lifecycle.Runtime, string, error) {
	r, err := c.existing()
	return r, c.Args[0], err
}

// denied returns those of some options that are requested, as a user writes them: options that no
// jail gets.
func (c *Call) denied(names ...string) (out []string) {
	for _, n := range names {
		if c.IsSet(n) && !(n == "preserve-fds" && c.String(n) == "0") {
			out = append(out, "--"+n)
		}
	}
	return out
}

// pass returns a verb that the delegate executes. Its flags are parsed, so that an unknown one is
// refused here, and are passed on.
func pass(name, usage, args string, flags ...Flag) Verb {
	return Verb{Name: name, Usage: usage, Args: args, Flags: flags, Foreign: name == "ps", Run: func(c *Call) error {
		r, err := c.existing()
		if err != nil {
			return err
		}
		out := []string{name}
		for _, f := range flags {
			switch {
			case !c.IsSet(f.Name):
			case f.Kind != Switch:
				out = append(out, "--"+f.Name, c.String(f.Name))
			case c.Bool(f.Name):
				out = append(out, "--"+f.Name)
			}
		}
		switch name {
		case "list":
			return r.List(c.String("format"), c.Bool("quiet"))
		case "state":
			return r.State(c.Args[0])
		}
		return r.Pass(c.Args[0], append(out, c.Args...))
	}}
}

func refused(name, why string) Verb {
	return Verb{Name: name, Usage: "refused: " + why, Raw: true, Run: func(*Call) error {
		return refusal.New(refusal.Verb, "%s", why).About("%s", name)
	}}
}
