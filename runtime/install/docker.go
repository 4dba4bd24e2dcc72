// Package install registers agentjail with container engines.
//
// For Docker that is an entry under "runtimes" in the daemon's configuration file (dockerd(8), "Daemon configuration file"), and a
// SIGHUP, upon which the daemon reads the file again, also one that did not exist when it started (tried with Docker 20.10).
package install

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"agentjail.dev/runtime/linux/trusted"
)

// Defaults of DockerOptions.
const (
	DefaultName    = "agentjail"
	DefaultConfig  = "/etc/docker/daemon.json"
	DefaultPIDFile = "/run/docker.pid"
	DefaultSocket  = "/run/docker.sock"
	DefaultTimeout = 15 * time.Second
)

// Runtime is one name under which Docker shall know a program.
type Runtime struct {
	Name string // as in `docker run --runtime=Name`
	// Path of the program, absolute. It is registered as given: the name by which agentjail is called picks its profile.
	Path string
}

// DockerOptions say what to register and where. Empty fields get the defaults above.
type DockerOptions struct {
	Runtimes []Runtime
	// Default is one of the names and becomes Docker's default runtime: every container that names none becomes a jail. Empty leaves
	// the default runtime alone.
	Default string
	Config  string // the daemon's configuration file
	PIDFile string // the daemon's process id
	Socket  string // the daemon's API socket, a path
	// Force replaces entries of the same name that lead elsewhere.
	Force bool
	// Timeout bounds the wait for the daemon to have read its configuration.
	Timeout time.Duration
}

// ErrConflict is wrapped when the file already says something else about a name; DockerOptions.Force overrides it.
var ErrConflict = errors.New("already configured otherwise")

// CheckBinary refuses a program that somebody else than root could change or replace: it must be an executable file that root owns and
// nobody else can write, and so must be every directory and link that leads to it. Docker's daemon will run it as root.
func CheckBinary(path string) error {
	_, err := trusted.Executable(path)
	return err
}

// checkBinary is a variable for tests whose files are in everybody's temporary directory.
var checkBinary = CheckBinary

// runtimeName is what Docker can take as an option's value and agentjail as a profile's name.
var runtimeName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`) })

func (o *DockerOptions) complete() error {
	if o.Config == "" {
		o.Config = DefaultConfig
	}
	if o.PIDFile == "" {
		o.PIDFile = DefaultPIDFile
	}
	if o.Socket == "" {
		o.Socket = DefaultSocket
	}
	if o.Timeout <= 0 {
		o.Timeout = DefaultTimeout
	}
	return registrable("Docker", dockersOwn, o.Runtimes, o.Default)
}

// dockersOwn says whether a name is one that dockerd gives a meaning of its own (moby daemon/runtime_unix.go).
func dockersOwn(name string) bool {
	return name == "runc" || strings.HasPrefix(name, "io.containerd.")
}

// Docker plans the registration. Nothing is changed before Plan.Apply. A second plan after that has no change.
//
// It fails when the file is not valid JSON, when a program fails CheckBinary, and with ErrConflict when the file registers a name
// otherwise or, with o.Default, has another default runtime than Docker's own.
func Docker(o DockerOptions) (*Plan, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	for _, r := range o.Runtimes {
		if err := checkBinary(r.Path); err != nil {
			return nil, fmt.Errorf("runtime %s: %w", r.Name, err)
		}
	}
	p, err := newPlan(o)
	if err != nil {
		return nil, err
	}
	p.After, err = register(p.Before, o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.Config, err)
	}
	return p.finish()
}

// UndoDocker plans the removal of what Docker plans to add: the names, if they lead to the same paths, and a default runtime that is
// one of them. Entries that lead elsewhere are an ErrConflict; Force removes them, too. A file that would be left without content, at
// the default place and as Docker's plan would have written it, is removed.
func UndoDocker(o DockerOptions) (*Plan, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	p, err := newPlan(o)
	if err != nil {
		return nil, err
	}
	p.undo = true
	p.After, p.interim, err = unregister(p.Before, o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.Config, err)
	}
	if p.exists && bytes.Equal(bytes.TrimSpace(p.After), []byte("{}")) && o.Config == DefaultConfig {
		// Unless there is an entry for every name this is not our file, and then register's result differs.
		if ours, err := register(nil, o); err == nil && bytes.Equal(ours, p.Before) {
			p.Remove = true
		}
	}
	return p.finish()
}

// entry is what Docker accepts as a runtime. Only an entry with nothing but the path is what Docker (the function) writes.
type entry struct {
	Path string   `json:"path"`
	Args []string `json:"runtimeArgs"`
	Type string   `json:"runtimeType"`
}

func (e entry) is(r Runtime) bool { return e.Path == r.Path && len(e.Args) == 0 && e.Type == "" }

func (e entry) String() string {
	switch {
	case e.Type != "":
		return "type " + e.Type
	case len(e.Args) > 0:
		return e.Path + " with arguments " + strings.Join(e.Args, " ")
	}
	return e.Path
}

func entryAt(text []byte, m member) (entry, error) {
	var e entry
	if err := json.Unmarshal(m.val.of(text), &e); err != nil {
		return e, fmt.Errorf("runtime %s: %w", m.name, err)
	}
	return e, nil
}

const (
	keyRuntimes = "runtimes"
	keyDefault  = "default-runtime"
)

// runtimesOf finds the object of the runtimes. null is as good as none (Docker 20.10 crashes on it).
func runtimesOf(text []byte, top object) (object, bool, error) {
	m, ok := top.find(keyRuntimes)
	if !ok || string(m.val.of(text)) == "null" {
		return object{}, false, nil
	}
	if text[m.val.start] != '{' {
		return object{}, false, fmt.Errorf("%q is not an object", keyRuntimes)
	}
	o, err := objectAt(text, m.val.start)
	return o, true, err
}

func defaultOf(text []byte, top object) (string, error) {
	m, ok := top.find(keyDefault)
	if !ok {
		return "", nil
	}
	var name string
	if err := json.Unmarshal(m.val.of(text), &name); err != nil {
		return "", fmt.Errorf("%q: %w", keyDefault, err)
	}
	return name, nil
}

// register returns the text with the entries added.
func register(text []byte, o DockerOptions) ([]byte, error) {
	before := text
	text, top, err := parse(text)
	if err != nil {
		return nil, err
	}
	l := layoutOf(text, top)
	changed := false
	for _, r := range o.Runtimes {
		runtimes, ok, err := runtimesOf(text, top)
		if err != nil {
			return nil, err
		}
		path, _ := json.Marshal(r.Path)
		renderEntry := func(l layout, indent string) string { return l.wrap(indent, `"path"`+l.colon+string(path)) }
		if !ok {
			name, _ := json.Marshal(r.Name)
			text = put(text, top, l, keyRuntimes, func(l layout, indent string) string {
				return l.wrap(indent, string(name)+l.colon+renderEntry(l, indent+l.unit))
			})
			changed = true
		} else {
			if m, ok := runtimes.find(r.Name); ok {
				e, err := entryAt(text, m)
				if err == nil && e.is(r) {
					continue
				}
				if !o.Force {
					if err != nil {
						return nil, err
					}
					return nil, fmt.Errorf("runtime %s leads to %s, not to %s: %w", r.Name, e, r.Path, ErrConflict)
				}
			}
			text = put(text, runtimes, l, r.Name, renderEntry)
			changed = true
		}
		if text, top, err = parse(text); err != nil {
			return nil, fmt.Errorf("after the edit: %w", err)
		}
	}
	if o.Default != "" {
		have, err := defaultOf(text, top)
		if err != nil {
			return nil, err
		}
		if have != o.Default {
			if have != "" && have != "runc" && !o.Force {
				return nil, fmt.Errorf("the default runtime is %s: %w", have, ErrConflict)
			}
			name, _ := json.Marshal(o.Default)
			text = put(text, top, l, keyDefault, func(layout, string) string { return string(name) })
			changed = true
		}
	}
	if !changed {
		return before, nil
	}
	_, _, err = parse(text)
	return text, err
}

// wrap writes an object with one member, on several lines if the document is.
func (l layout) wrap(indent, content string) string {
	if l.newline == "" {
		return "{" + content + "}"
	}
	return "{" + l.newline + indent + l.unit + content + l.newline + indent + "}"
}

// unregister returns the text without the entries. interim is the same, but says so in a way that a running daemon takes to heart:
// Docker keeps what it knew of a key that is gone, until it is restarted; it forgets when the key is there and empty.
func unregister(text []byte, o DockerOptions) (after, interim []byte, err error) {
	before := text
	text, top, err := parse(text)
	if err != nil {
		return nil, nil, err
	}
	changed := false
	for _, r := range o.Runtimes {
		runtimes, ok, err := runtimesOf(text, top)
		if err != nil {
			return nil, nil, err
		}
		m, there := runtimes.find(r.Name)
		if !ok || !there {
			continue
		}
		if e, err := entryAt(text, m); !o.Force && (err != nil || !e.is(r)) {
			if err != nil {
				return nil, nil, err
			}
			return nil, nil, fmt.Errorf("runtime %s leads to %s, not to %s: %w", r.Name, e, r.Path, ErrConflict)
		}
		text = remove(text, runtimes, r.Name)
		changed = true
		if text, top, err = parse(text); err != nil {
			return nil, nil, fmt.Errorf("after the edit: %w", err)
		}
	}
	name, err := defaultOf(text, top)
	if err != nil {
		return nil, nil, err
	}
	isDefault := slices.ContainsFunc(o.Runtimes, func(r Runtime) bool { return r.Name == name })
	if !changed && !isDefault {
		return before, before, nil
	}
	interim = text
	if isDefault { // Docker would not start with a default runtime that it does not know
		l := layoutOf(text, top)
		interim = put(text, top, l, keyDefault, func(layout, string) string { return `"runc"` })
		text = remove(text, top, keyDefault)
		if text, top, err = parse(text); err != nil {
			return nil, nil, fmt.Errorf("after the edit: %w", err)
		}
	}
	if m, ok := top.find(keyRuntimes); ok && changed && string(m.val.of(text)) == "{}" {
		text = remove(text, top, keyRuntimes)
		if text, _, err = parse(text); err != nil {
			return nil, nil, fmt.Errorf("after the edit: %w", err)
		}
	}
	return text, interim, nil
}
