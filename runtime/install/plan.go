package install

import (
	"bytes"
	"context"
	"errors"
	"fmt"
)

// Plan is a change of a daemon's configuration file that was thought out but not made.
type Plan struct {
	File   string // the configuration file
	Before []byte // its content; nil if there is none
	After  []byte // its content to be
	Remove bool   // the file goes
	Diff   string // Before against After as a unified diff, "" if there is no change

	options DockerOptions
	exists  bool
	undo    bool
	interim []byte
}

// Changed says whether there is anything to write.
func (p *Plan) Changed() bool { return p.Remove || !bytes.Equal(p.Before, p.After) }

// newPlan reads the file.
func newPlan(o DockerOptions) (*Plan, error) {
	p := &Plan{File: o.Config, options: o}
	f, err := openConfig(o.Config)
	if err != nil {
		return nil, err
	}
	defer f.close()
	p.Before, p.exists = f.content, f.exists
	return p, nil
}

func (p *Plan) finish() (*Plan, error) {
	if p.Changed() {
		from, to := p.File, p.File
		if !p.exists {
			from = "/dev/null"
		}
		after := p.After
		if p.Remove {
			to, after = "/dev/null", nil
		}
		p.Diff = unifiedDiff(from, to, p.Before, after)
	}
	return p, nil
}

// Result says what Apply did.
type Result struct {
	Changed bool   `json:"changed"`          // the file was written
	Backup  string `json:"backup,omitempty"` // the file as it was before
	Daemon  Daemon `json:"daemon"`
}

// Daemon is what became of the running daemon.
type Daemon struct {
	Running   bool   `json:"running"`
	PID       int    `json:"pid,omitempty"`
	Reloaded  bool   `json:"reloaded"`  // it got a SIGHUP
	Confirmed bool   `json:"confirmed"` // its API shows the change
	Detail    string `json:"detail,omitempty"`
}

// Apply writes the file, if there is a change, keeping the previous content beside it (Result.Backup), and has a running daemon read
// it, if the daemon does not show the change yet. It refuses to write when the file is no longer as it was when the plan was made, and
// when the running daemon was started with flags or a file that make the change useless or harmful.
//
// That no daemon runs is no error: Result says so. That a running one does not take the change within the options' Timeout is.
func (p *Plan) Apply(ctx context.Context) (Result, error) {
	ctx, cancel := context.WithTimeout(ctx, p.options.Timeout)
	defer cancel()
	var r Result
	d, err := findDaemon(p.options)
	if err != nil {
		return r, err
	}
	defer d.close()
	r.Daemon = Daemon{Running: d.running(), PID: d.pid, Detail: d.why}
	if d.running() {
		if err := d.checkFlags(p.options); err != nil {
			return r, err
		}
	}
	undoInSteps := p.undo && p.Changed() && d.running()
	if p.Changed() {
		first := p.After
		if undoInSteps {
			first = p.interim
		}
		if r.Backup, err = p.write(first, p.Remove && !undoInSteps); err != nil {
			return r, err
		}
		r.Changed = true
	}
	if d.running() {
		if err := d.settle(ctx, p, &r.Daemon); err != nil {
			return r, err
		}
	}
	if undoInSteps && (p.Remove || !bytes.Equal(p.interim, p.After)) {
		// The daemon has forgotten; now the file loses what was only there to tell it so. That needs no reload.
		if err := p.rewrite(p.interim); err != nil {
			return r, err
		}
	}
	if p.undo && r.Changed {
		// Nothing of agentjail is left in the file, and nothing shall be left beside it.
		r.Backup = ""
		err = dropBackup(p.File)
	}
	return r, err
}

// ErrFileChanged says that somebody else wrote the file between the plan and its application.
var ErrFileChanged = errors.New("the file was changed meanwhile; plan again")

func (p *Plan) write(content []byte, remove bool) (backup string, err error) {
	f, err := openConfig(p.File)
	if err != nil {
		return "", err
	}
	defer f.close()
	if f.exists != p.exists || !bytes.Equal(f.content, p.Before) {
		return "", fmt.Errorf("%s: %w", p.File, ErrFileChanged)
	}
	if f.exists {
		if backup, err = f.backup(); err != nil {
			return "", fmt.Errorf("back up %s: %w", p.File, err)
		}
	}
	if remove {
		err = f.remove()
	} else {
		err = f.replace(content)
	}
	if err != nil {
		return backup, fmt.Errorf("write %s: %w", p.File, err)
	}
	return backup, nil
}

// rewrite puts After in the place of what this plan wrote before.
func (p *Plan) rewrite(expected []byte) error {
	f, err := openConfig(p.File)
	if err != nil {
		return err
	}
	defer f.close()
	if !f.exists || !bytes.Equal(f.content, expected) {
		return fmt.Errorf("%s: %w", p.File, ErrFileChanged)
	}
	if p.Remove {
		err = f.remove()
	} else {
		err = f.replace(p.After)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", p.File, err)
	}
	return nil
}
