// Package install registers agentjail with container engines: Docker, Podman, containerd, CRI-O,
// and containerd on a Kubernetes node.
//
// Each engine is an Engine, in files of its own. They share the options, the plan of a change
// (plan.go), the files that it changes (file.go), and editing them in place (edit.go for
// JSON, tables.go for TOML).
package install

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"agentjail.dev/runtime/kernel/trusted"
	"agentjail.dev/runtime/spec/lazyregexp"
)

// DefaultName is the name under which agentjail is registered unless requested otherwise.
const DefaultName = "agentjail"

// ShimName is the file name of agentjail's shim, beside the program.
const ShimName = "containerd-shim-agentjail-v2"

// Engine is an engine with which agentjail can be registered.
type Engine interface {
	// Name is the engine's on the command line, Title its own.
	Name() string
	Title() string
	// Defaults are the options with which it is registered unless configured otherwise. A field
	// that is empty there is one that the engine ignores, unless the field documents otherwise.
	// Runtimes have no paths in it.
	Defaults() Options
	// reserved reports whether the engine has a runtime's name for itself.
	reserved(name string) bool
	// plan adds to p what has to change. Its options are complete and their programs may be run by
	// root.
	plan(p *Plan) error
	// registered lists the runtimes in the files of the engine that p reads.
	registered(p *Plan) ([]Runtime, error)
}

// Runtime is one name under which an engine shall know a program.
type Runtime struct {
	Name string // as in `docker run --runtime=Name`, or a RuntimeClass's handler
	// Path of the program, absolute. It is registered unchanged: the name by which agentjail is
	// called selects its policy.
	Path string
}

// By is a way in which an engine calls agentjail.
type By string

// The ways: as containerd's shim, in one process for a container, or by its command line, below
// containerd's own shim.
const (
	ByShim By = "shim"
	ByPath By = "path"
)

// Options report what to register and where. Empty fields get the engine's defaults.
type Options struct {
	// Undo takes out what a plan without it adds.
	Undo     bool
	Runtimes []Runtime
	// Default is one of the names and becomes the engine's default runtime: every container that
	// names none becomes a jail. Empty leaves the default runtime alone. For Docker and Podman.
	Default string
	// Force replaces, or removes, entries of the same name that lead elsewhere.
	Force bool
	// Config is the engine's main configuration file (Docker, containerd).
	Config string
	// DropIn is the file among the engine's configuration that is agentjail's (Podman, containerd,
	// CRI-O).
	DropIn string
	// PIDFile holds the id of the running daemon's process, Socket is the path of its API's socket
	// (Docker).
	PIDFile, Socket string
	// Timeout bounds the wait for a running daemon to have read its configuration (Docker).
	Timeout time.Duration
	// Shim is the path of agentjail's shim, beside the program (containerd, Docker).
	Shim string
	// By is how Docker calls agentjail; empty is by the shim where Docker can.
	By By
	// Program is containerd's, which prints its effective configuration; "" searches the usual
	// directories. Without the program, only the file is known.
	Program string
	// Machine reports where a node's file tree is, and what to copy to it (Node).
	Machine Machine
}

// or fills empty fields.
func (o Options) or(d Options) Options {
	o.Config, o.DropIn = cmp.Or(o.Config, d.Config), cmp.Or(o.DropIn, d.DropIn)
	o.PIDFile, o.Socket = cmp.Or(o.PIDFile, d.PIDFile), cmp.Or(o.Socket, d.Socket)
	if o.Timeout <= 0 {
		o.Timeout = d.Timeout
	}
	o.Machine.To = cmp.Or(o.Machine.To, d.Machine.To)
	return o
}

// complete fills the options in and checks those that all engines share.
func complete(e Engine, o Options) (Options, error) {
	o = o.or(e.Defaults())
	if len(e.Defaults().Runtimes) == 0 {
		return o, nil // this process registers no runtimes with it
	}
	if err := registrable(e, o.Runtimes, o.Default); err != nil || o.Undo {
		return o, err
	}
	for _, r := range o.Runtimes {
		if err := checkBinary(r.Path); err != nil {
			return o, fmt.Errorf("runtime %s: %w", r.Name, err)
		}
	}
	return o, nil
}

// registrable reports whether these runtimes can be registered with an engine; def is the one to
// make its default, "" for none.
func registrable(e Engine, runtimes []Runtime, def string) error {
	if len(runtimes) == 0 {
		return errors.New("no runtime to register")
	}
	var names []string
	for _, r := range runtimes {
		switch {
		case !runtimeName().MatchString(r.Name):
			return fmt.Errorf("runtime name %q: at most 64 letters, digits, dots, underscores and dashes are allowed", r.Name)
		case e.reserved(r.Name):
			return fmt.Errorf("runtime name %q is %s's own (remedy: another --name)", r.Name, e.Title())
		case slices.Contains(names, r.Name):
			return fmt.Errorf("runtime name %q is there twice", r.Name)
		case !plainPath(r.Path):
			return fmt.Errorf("runtime %s: %q is not a plain absolute path", r.Name, r.Path)
		}
		names = append(names, r.Name)
	}
	if def != "" && !slices.Contains(names, def) {
		return fmt.Errorf("default runtime %q is not among the names to register (%s)", def, strings.Join(names, ", "))
	}
	return nil
}

func plainPath(path string) bool { return filepath.IsAbs(path) && filepath.Clean(path) == path }

// runtimeName is what engines can take as an option's value and agentjail as a policy's name.
var runtimeName = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`)

// errConflict is wrapped when a file already has another entry for a name; Options.Force overrides
// it.
var errConflict = errors.New("already configured otherwise")

// checkRootsProgram refuses a program that another user than root could change or replace: it must
// be an executable file that root owns and no other user can write, and so must be every directory
// and link that leads to it. Engines' daemons run it as root.
func checkRootsProgram(path string) error {
	_, err := trusted.Executable(path)
	return err
}

// checkBinary is a variable for tests whose files are in everybody's temporary directory.
var checkBinary = checkRootsProgram
