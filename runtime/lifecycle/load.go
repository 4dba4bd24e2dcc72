package lifecycle

import (
	"errors"

	"agentjail.dev/runtime/facts"
	"agentjail.dev/runtime/spec/bundle"
)

// loadBundle reads the bundle and gathers what hardening needs to know. Invalid options are
// rejected here, before anything is created.
func (a *attempt) loadBundle() error {
	b, err := &bundle.Bundle{Dir: a.j.Bundle, Spec: a.o.Spec}, error(nil)
	if a.o.Spec == nil {
		if b, err = bundle.Load(a.j.Bundle); err != nil {
			return err
		}
	}
	if a.o.ConsoleSocket != "" && b.Spec.Process != nil && !b.Spec.Process.Terminal {
		// runc reports this itself; crun would wait for a terminal that is never sent.
		return errors.New("cannot use console socket if runc will not detach or allocate tty: process.terminal is not set")
	}
	if a.in, err = a.gatherer().Gather(a.o.ID, b); err != nil {
		return err
	}
	a.always(a.in.Close)
	narrowed := *a.rt
	narrowed.Policy, a.rt = a.in.Policy, &narrowed
	return nil
}

// gatherer gathers the facts of the jail's bundle.
func (a *attempt) gatherer() facts.Gatherer {
	return facts.Gatherer{
		Store: a.rt.Store, Root: a.rt.Globals.Root, Policy: a.rt.Policy, PlainRoot: a.o.PlainRoot,
		Parts: a.o.Parts, Image: a.o.Image, Invoker: a.o.Invoker,
	}
}
