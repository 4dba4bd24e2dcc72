package install

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Daemon is what became of a running dockerd.
type Daemon struct {
	Running   bool
	PID       int
	Reloaded  bool // it got a SIGHUP
	Confirmed bool // its API shows the change
	Detail    string
}

// daemon is a running dockerd, held by a descriptor so that its number cannot come to mean another
// process.
type daemon struct {
	pid   int
	pidfd int
	args  []string
	why   string // why there is none
}

func (d *daemon) running() bool { return d.pid != 0 }

func (d *daemon) close() {
	if d.running() {
		unix.Close(d.pidfd)
	}
}

// findDaemon reads the pidfile and makes sure that the process is a dockerd. A missing or stale
// pidfile means that none runs.
func findDaemon(o Options) (*daemon, error) {
	b, err := os.ReadFile(o.PIDFile)
	if errors.Is(err, os.ErrNotExist) {
		return &daemon{why: "no daemon is running (there is no " + o.PIDFile + ")"}, nil
	}
	if err != nil {
		return nil, err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil || pid <= 1 {
		return nil, fmt.Errorf("%s does not hold a process id", o.PIDFile)
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return &daemon{why: fmt.Sprintf("no daemon is running (process %d of %s is gone)", pid, o.PIDFile)}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open process %d: %w", pid, err)
	}
	d := &daemon{pid: pid, pidfd: fd}
	exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	if err != nil {
		d.close()
		return nil, fmt.Errorf("look at process %d: %w", pid, err)
	}
	// A package upgrade replaces the file under a running daemon.
	if filepath.Base(strings.TrimSuffix(exe, " (deleted)")) != "dockerd" {
		d.close()
		return &daemon{why: fmt.Sprintf("no daemon is running (process %d of %s is %s)", pid, o.PIDFile, exe)}, nil
	}
	args, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		d.close()
		return nil, fmt.Errorf("look at process %d: %w", pid, err)
	}
	d.args = strings.Split(strings.TrimSuffix(string(args), "\x00"), "\x00")
	return d, nil
}

// flag returns the values of a flag on the daemon's command line (pflag's forms: --name value,
// --name=value).
func (d *daemon) flag(name string) []string {
	var out []string
	for i, a := range d.args {
		if v, ok := strings.CutPrefix(a, "--"+name+"="); ok {
			out = append(out, v)
		} else if a == "--"+name && i+1 < len(d.args) {
			out = append(out, d.args[i+1])
		}
	}
	return out
}

// checkFlags refuses what would leave the change without effect, or the daemon unable to start: it
// wants every setting either as a flag or in the file, not both.
func (d *daemon) checkFlags(o Options) error {
	file := dockerConfig
	if v := d.flag("config-file"); len(v) > 0 {
		file = v[len(v)-1]
	}
	if !filepath.IsAbs(file) {
		return fmt.Errorf("the daemon (process %d) was started with the relative --config-file %s", d.pid, file)
	}
	// Seen from the daemon's own root directory; /var/run and /run are the same.
	if seen := filepath.Join(fmt.Sprintf("/proc/%d/root", d.pid), file); !sameEntry(seen, o.Config) {
		return fmt.Errorf("the daemon (process %d) reads %s, not %s", d.pid, file, o.Config)
	}
	if len(d.flag("add-runtime")) > 0 {
		return fmt.Errorf("the daemon (process %d) was started with --add-runtime, and then refuses \"runtimes\" in %s: move those flags there", d.pid, o.Config)
	}
	if o.Default != "" && len(d.flag("default-runtime")) > 0 {
		return fmt.Errorf("the daemon (process %d) was started with --default-runtime, and then refuses \"default-runtime\" in %s: move the flag there", d.pid, o.Config)
	}
	return nil
}

// sameEntry reports whether two paths name the same entry of the same directory; the file need not
// exist.
func sameEntry(a, b string) bool {
	if filepath.Base(a) != filepath.Base(b) {
		return false
	}
	x, err1 := os.Stat(filepath.Dir(a))
	y, err2 := os.Stat(filepath.Dir(b))
	return errors.Is(err1, os.ErrNotExist) && errors.Is(err2, os.ErrNotExist) || err1 == nil && err2 == nil && os.SameFile(x, y)
}

// reread has the daemon read its file, unless it shows the wanted state already, and waits until it
// does.
func (d *daemon) reread(ctx context.Context, p *Plan, out *Daemon) error {
	wrong, err := d.differs(ctx, p)
	if err != nil {
		// If the daemon's API does not answer, the daemon still gets its signal, but success is
		// unknown.
		out.Detail = fmt.Sprintf("the daemon's API does not answer: %v", err)
	} else if wrong == "" {
		out.Confirmed = true
		return nil
	}
	if !p.Changed() && p.options.Undo {
		// The file no longer has an entry, but Docker forgets removed entries only at a restart.
		out.Detail = wrong + " until it is restarted"
		return nil
	}
	if err := unix.PidfdSendSignal(d.pidfd, unix.SIGHUP, nil, 0); err != nil {
		return fmt.Errorf("signal the daemon (process %d): %w", d.pid, err)
	}
	out.Reloaded = true
	if err != nil {
		return nil
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		switch answer, err := d.differs(ctx, p); {
		case err == nil && answer == "":
			out.Confirmed = true
			return nil
		case err == nil:
			wrong = answer // the last answer is the reason if no other comes in time
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the daemon (process %d) did not take the change in time: %s; see its log", d.pid, wrong)
		case <-tick.C:
		}
	}
}

// info is the part of the answer to GET /info that matters here.
type info struct {
	// The daemon reports of a runtime by its shim neither the shim nor the options.
	Runtimes       map[string]entry
	DefaultRuntime string
}

// differs compares the daemon's answer with the plan; wrong is the difference, "" if there is none.
func (d *daemon) differs(ctx context.Context, p *Plan) (wrong string, err error) {
	body, err := get(ctx, p.options.Socket, "/info")
	if err != nil {
		return "", err
	}
	var i info
	if err := json.Unmarshal(body, &i); err != nil {
		return "", fmt.Errorf("GET /info: %w", err)
	}
	return i.compare(p), nil
}

func (i info) compare(p *Plan) string {
	o := p.options
	for _, r := range o.Runtimes {
		e, known := i.Runtimes[r.Name]
		switch {
		case o.Undo && known:
			return fmt.Sprintf("it still knows the runtime %s", r.Name)
		case !o.Undo && !known:
			return fmt.Sprintf("it does not know the runtime %s", r.Name)
		case !o.Undo && (e.Path != entryOf(o, r).Path || len(e.Args) > 0):
			return fmt.Sprintf("its runtime %s leads to %s", r.Name, e)
		}
	}
	switch {
	case o.Undo && slices.ContainsFunc(o.Runtimes, func(r Runtime) bool { return r.Name == i.DefaultRuntime }):
		return fmt.Sprintf("its default runtime is still %s", i.DefaultRuntime)
	case !o.Undo && o.Default != "" && i.DefaultRuntime != o.Default:
		return fmt.Sprintf("its default runtime is %s", i.DefaultRuntime)
	}
	return ""
}
