package install

import (
	"context"
	"errors"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// Plan is a change of an engine's configuration that was thought out but not made.
type Plan struct {
	// Files are those to write, in this order, and those that were read and stay as they are.
	Files []*File
	// Note reports what was found out about the engine and has to be known, "" for nothing.
	Note string

	options Options
	live    live
}

// live is what of an engine is there besides its files.
type live interface {
	// begin looks at it before anything is written. An error leaves all as it is.
	begin(p *Plan, r *Result) error
	// settle has the engine read what was written, and records the outcome in r.
	settle(ctx context.Context, p *Plan, r *Result) error
	// close frees what begin holds.
	close()
}

// noDaemon is the live of an engine without a daemon to notify.
type noDaemon struct{}

func (noDaemon) begin(*Plan, *Result) error                   { return nil }
func (noDaemon) settle(context.Context, *Plan, *Result) error { return nil }
func (noDaemon) close()                                       {}

// NewPlan plans the registration of o.Runtimes with an engine, or with o.Undo its removal. Nothing
// is changed before Apply, and a second plan after that has no change.
//
// It fails when a file is not valid, when another user than root could change a program, and when a
// file has another entry for a name, unless with o.Force. The removal takes out the names if they
// lead to the same programs, and a default runtime that is one of them.
func NewPlan(e Engine, o Options) (*Plan, error) {
	o, err := complete(e, o)
	if err != nil {
		return nil, err
	}
	p := &Plan{options: o, live: noDaemon{}}
	if err := e.plan(p); err != nil {
		return nil, err
	}
	for _, f := range p.Files {
		f.compare()
	}
	return p, nil
}

// Changed reports whether there is anything to write.
func (p *Plan) Changed() bool {
	return slices.ContainsFunc(p.Files, (*File).Changed)
}

// Result reports what Apply did.
type Result struct {
	Changed bool   // a file was written or removed
	Daemon  Daemon // Docker's
	// Messages are lines for the user about the engine.
	Messages []string
}

// Apply writes the files that change, keeping the previous content beside those that are not
// agentjail's (File.Backup), and has a running engine take notice. It refuses to write when a file
// is no longer as it was when the plan was made, and when the running engine would not take the
// change.
//
// A daemon that does not run is no error: Result reports it. A running one that does not take the
// change within the options' Timeout is an error.
func (p *Plan) Apply(ctx context.Context) (Result, error) {
	var r Result
	if p.options.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, p.options.Timeout)
		defer cancel()
	}
	defer p.live.close()
	if err := p.live.begin(p, &r); err != nil {
		return r, err
	}
	for _, f := range p.Files { // all, before the first is written
		if err := f.unchanged(); err != nil {
			return r, err
		}
	}
	for _, f := range p.Files {
		if !f.Changed() {
			continue
		}
		if err := f.write(); err != nil {
			return r, err
		}
		r.Changed = true
	}
	if err := p.live.settle(ctx, p, &r); err != nil {
		return r, err
	}
	return r, p.tidy()
}

// tidy takes away what was only there on the way.
func (p *Plan) tidy() error {
	for _, f := range p.Files {
		if !f.Changed() {
			continue
		}
		if f.interim != nil {
			if err := f.rewrite(); err != nil {
				return err
			}
		}
		// Where nothing of agentjail is left in a file, nothing shall be left beside it.
		if p.options.Undo || f.Own {
			f.Backup = ""
			if err := dropBackup(f.Path); err != nil {
				return err
			}
			if f.Remove && f.Own {
				// The directory of drop-ins may have been made for this one alone. An empty one has
				// no effect; one with files stays.
				_ = unix.Rmdir(filepath.Dir(f.Path))
			}
		}
	}
	return nil
}

// errFileChanged means that another process wrote a file between the plan and its application.
var errFileChanged = errors.New("the file was changed meanwhile; plan again")
