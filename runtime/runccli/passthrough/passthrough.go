// Package passthrough passes a call to the delegate unchanged, for callers whose named policy sets
// passthrough (policy.Policy.Passthrough). Nothing is hardened, and the container is no jail: there
// is no record of it, so that no jail ever joins it and no verb of a jail changes it.
package passthrough

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"

	"agentjail.dev/runtime/delegate"
	"agentjail.dev/runtime/spec/policy"
	"agentjail.dev/runtime/state"
)

// A call is a runtime's command line, as far as this package parses it.
type call struct {
	// Args are for the delegate, without its name.
	Args []string
	// Verb is "" for a call that has none, such as --version.
	Verb string
	// ID is the container's id as far as the warning needs it: the last argument.
	ID string
	// Config is agentjail's own option, which the delegate does not know.
	Config string
	// Log and LogFormat are the engine's.
	Log, LogFormat string
}

// Options before the verb that have a value, of runc and crun.
var valued = []string{"root", "log", "log-format", "log-level", "criu", "rootless", "cgroup-manager"}

// ownValued are agentjail's.
var ownValued = []string{"config", "trace"}

// TakesValue reports whether an option before the verb has a value, as [Read] splits a command
// line. own is true for agentjail's own options, which the delegate does not get. A test of package
// runccli holds that its options are known here.
func TakesValue(name string) (value, own bool) {
	own = slices.Contains(ownValued, name)
	return own || slices.Contains(valued, name), own
}

// read splits a command line without the program's name. Unknown options are left to the delegate.
func read(args []string) call {
	c := call{Config: policy.DefaultPath}
	for i := 0; i < len(args); i++ {
		a := args[i]
		if a == "-" || !strings.HasPrefix(a, "-") {
			c.Verb = a
			c.Args = append(c.Args, args[i:]...)
			if i+1 < len(args) {
				c.ID = args[len(args)-1]
			}
			break
		}
		if a == "--" {
			c.Args = append(c.Args, args[i:]...)
			break
		}
		name, value, whole := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(a, "-"), "-"), "=")
		takes, own := TakesValue(name)
		words := 1
		if !whole && takes && i+1 < len(args) {
			value, words = args[i+1], 2
		}
		switch name {
		case "config":
			c.Config = value
		case "log":
			c.Log = value
		case "log-format":
			c.LogFormat = value
		}
		if !own {
			c.Args = append(c.Args, args[i:i+words]...)
		}
		i += words - 1
	}
	return c
}

// warning returns the text of the warning.
func (c call) warning() string {
	return fmt.Sprintf("agentjail: passthrough: nothing is hardened, this container is no jail (%s %s)", c.Verb, c.ID)
}

// Exec becomes the delegate if the policy of that name passes through, with argv's arguments,
// environment and open files as they are. It returns nil when agentjail itself must execute the
// call: because the policy hardens, because its policy cannot be read (the next reader reports
// why), or because the verb is agentjail's alone.
func Exec(argv []string, policyName string, own func(verb string) bool) error {
	if policyName == "" {
		return nil // only a [policies.NAME] can pass through
	}
	c := read(argv[1:])
	if own(c.Verb) {
		return nil
	}
	d, err := c.delegate(policyName)
	if err == nil {
		if d == nil {
			return nil
		}
		err = syscall.Exec(d.Path, append([]string{d.Path}, c.Args...), os.Environ())
	}
	return fmt.Errorf("passing %s on: %w", c.Verb, err)
}

// Run is Exec for a process that continues: it runs the delegate with these standard files to its
// end, and returns its exit status. done is false where Exec returns nil.
func Run(args []string, policyName string, stdio [3]*os.File) (status int, done bool, err error) {
	c := read(args)
	d, err := c.delegate(policyName)
	if err != nil {
		return 1, true, fmt.Errorf("passing %s on: %w", c.Verb, err)
	}
	if d == nil {
		return 0, false, nil
	}
	d.Stdio = stdio
	if status, err = d.Run(c.Args, delegate.Time{}); err != nil {
		return 1, true, fmt.Errorf("passing %s on: %w", c.Verb, err)
	}
	return status, true, nil
}

// delegate returns the delegate that a call is passed to, or nil for a call that is not passed on.
// It logs the warning that the call is passed on.
func (c call) delegate(policyName string) (*delegate.Runtime, error) {
	if policyName == "" {
		return nil, nil // only a [policies.NAME] can pass through
	}
	p, err := policy.Load(c.Config, policyName)
	if err != nil || !p.Passthrough {
		return nil, nil //nolint:nilerr // agentjail's own path reports the error
	}
	store, err := state.Default()
	if err != nil {
		return nil, err
	}
	d, err := delegate.Choose(p.Delegate, store.Root)
	if err == nil && slices.Contains([]string{"create", "run", "restore"}, c.Verb) { // which make a container
		warn(c.warning(), c)
	}
	return d, err
}
