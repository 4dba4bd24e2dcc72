package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"agentjail.dev/runtime/kernel/invoker"
	"agentjail.dev/runtime/kernel/printable"
	"agentjail.dev/runtime/kernel/rootless"
	"agentjail.dev/runtime/observe/journal"
	"agentjail.dev/runtime/state"
)

// openJail returns the jail that a call names by an id, the unique beginning of one, the engine's
// name for it, or ID@TIME. The record is nil where the jail has ended and only its journal is left.
func openJail(c *cli.Context, name string) (journal.Place, *journal.Jail, *state.Jail, error) {
	id, _, _ := strings.Cut(name, "@")
	if err := state.CheckID(id); err != nil {
		return journal.Place{}, nil, nil, err
	}
	p, err := place(c)
	if err != nil {
		return p, nil, nil, err
	}
	j, err := p.Open(name)
	if err != nil {
		return p, nil, nil, elsewhere(name, err)
	}
	if j.Brief == nil {
		return p, j, nil, nil
	}
	if err := j.Brief.Join(); err != nil {
		return p, j, nil, err
	}
	record, err := p.Store.Load(j.Key)
	return p, j, record, err
}

// errEnded is wrapped by the error for a jail of which only the journal is left.
var errEnded = errors.New("has ended")

// existingJail returns the jail that a call names, which must not have ended.
func existingJail(c *cli.Context, name string) (state.Store, *state.Jail, error) {
	p, j, record, err := openJail(c, name)
	if err == nil && record == nil {
		at := printable.Line(j.Name(), 0)
		err = fmt.Errorf("%s %w, and its journal is left (remedy: agentjail receipt %s; agentjail why %s QUESTION)", printable.Line(name, 256), errEnded, at, at)
	}
	return p.Store, record, err
}

// checkInvoker refuses to change a jail, or to print its files, on behalf of a user who did not
// have it made.
func checkInvoker(j *state.Brief) error {
	return invoker.Owns(j.Invoker, "jail "+printable.Line(j.ID, 0))
}

// elsewhere returns the error for a jail that was not found where it may be: root's jails are
// hidden from other users.
func elsewhere(name string, err error) error {
	if !errors.Is(err, state.ErrNotFound) || !hidesRoots() {
		return err
	}
	return fmt.Errorf("%q: %w among this user's, and others are hidden from this user (remedy: %s)", printable.Line(name, 256),
		state.ErrNotFound, seeRoots())
}

// noteHidden reports that a list is not of all jails.
func noteHidden(c *cli.Context) {
	if hidesRoots() {
		fmt.Fprintf(c.App.ErrWriter, "agentjail: root's jails are hidden from this user, and left out (remedy: %s)\n", seeRoots())
	}
}

// seeRoots is the remedy for a user from whom root's jails are hidden.
func seeRoots() string {
	if os.Geteuid() == 0 && !rootless.Inside() {
		return invoker.Remedy
	}
	return rootless.WithSudo()
}

// hidesRoots reports whether this user cannot see jails that root has or had.
func hidesRoots() bool {
	if os.Geteuid() == 0 && !rootless.Inside() {
		by, err := invoker.Here()
		return err != nil || by != nil
	}
	return slices.ContainsFunc([]string{filepath.Join(state.DefaultRoot, "jails"), journal.DefaultDir}, func(dir string) bool {
		_, err := os.Lstat(dir)
		return err == nil || errors.Is(err, os.ErrPermission)
	})
}
