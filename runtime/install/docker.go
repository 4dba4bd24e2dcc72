package install

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"
)

// Docker is dockerd. It gets an entry under "runtimes" in its configuration file (dockerd(8),
// "Daemon configuration file"), and a SIGHUP, upon which it reads the file again, also one that did
// not exist when it started (tried with Docker 20.10).
var Docker Engine = docker{}

type docker struct{}

// dockerConfig is the file that dockerd reads unless configured otherwise.
const dockerConfig = "/etc/docker/daemon.json"

func (docker) Name() string  { return "docker" }
func (docker) Title() string { return "Docker" }

func (docker) Defaults() Options {
	return Options{
		Runtimes: []Runtime{{Name: DefaultName}}, Config: dockerConfig,
		PIDFile: "/run/docker.pid", Socket: "/run/docker.sock", Timeout: 15 * time.Second,
	}
}

// reserved reports whether a name is one that dockerd reserves (moby daemon/runtime_unix.go).
func (docker) reserved(name string) bool {
	return name == "runc" || strings.HasPrefix(name, "io.containerd.")
}

func (e docker) plan(p *Plan) error {
	f, err := p.file(p.options.Config)
	if err != nil {
		return err
	}
	p.live = &dockerd{}
	if p.options.PIDFile == e.Defaults().PIDFile {
		p.options.PIDFile = cmp.Or(pidFileOf(f.Before), p.options.PIDFile)
	}
	if !p.options.Undo {
		if p.options.By, p.Note, err = wayOf(p.options); err != nil {
			return err
		}
	}
	o := p.options
	if !o.Undo {
		f.After, err = register(f.Before, o)
	} else if f.After, f.interim, err = unregister(f.Before, o); err == nil {
		f.Remove = f.exists && o.Config == dockerConfig && onlyOurs(f, o)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", o.Config, err)
	}
	return nil
}

// onlyOurs reports whether a file would be left without content, and is as a plan would have
// written it: unless there is an entry for every name this is not our file, and then register's
// result differs.
func onlyOurs(f *File, o Options) bool {
	if !bytes.Equal(bytes.TrimSpace(f.After), []byte("{}")) {
		return false
	}
	defaults := []string{""}
	for _, r := range o.Runtimes {
		defaults = append(defaults, r.Name)
	}
	for _, o.Default = range defaults {
		for _, o.By = range []By{ByPath, ByShim} {
			if ours, err := register(nil, o); err == nil && bytes.Equal(ours, f.Before) {
				return true
			}
		}
	}
	return false
}

// dockerd is the running daemon, if there is one.
type dockerd struct{ *daemon }

// begin finds the daemon, which must have been started so that the change can do it good.
func (d *dockerd) begin(p *Plan, r *Result) error {
	var err error
	if d.daemon, err = findDaemon(p.options); err != nil {
		return err
	}
	r.Daemon = Daemon{Running: d.running(), PID: d.pid, Detail: d.why}
	if !d.running() {
		for _, f := range p.Files {
			f.interim = nil // no daemon would read it
		}
		return nil
	}
	return d.checkFlags(p.options)
}

// settle has a running daemon read the file, and reports what became of that.
func (d *dockerd) settle(ctx context.Context, p *Plan, r *Result) error {
	if d.running() {
		if err := d.reread(ctx, p, &r.Daemon); err != nil {
			return err
		}
	}
	switch {
	case !r.Daemon.Running:
		r.Messages = append(r.Messages, "no running Docker is known by its pidfile (--pidfile FILE): it reads the file when it starts")
	case r.Daemon.Confirmed:
		r.Messages = append(r.Messages, "Docker knows of it")
	case r.Daemon.Reloaded:
		r.Messages = append(r.Messages, "Docker was signalled to read it")
	}
	if r.Daemon.Detail != "" {
		r.Messages = append(r.Messages, r.Daemon.Detail)
	}
	if p.options.Default != "" {
		r.Messages = append(r.Messages, "Builds: BuildKit's run as before; steps of the classic builder (DOCKER_BUILDKIT=0) are refused, since a jail would throw their layers away")
	}
	return nil
}

func (d *dockerd) close() {
	if d.daemon != nil {
		d.daemon.close()
	}
}
