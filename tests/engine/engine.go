// Package engine runs a real Docker for tests and demonstrations: a containerd and a dockerd of its own, with their own
// directories, sockets, cgroup and network namespace, next to whatever Docker the machine may already have.
//
// Every program that uses it calls IfJanitor first; then Start, and Close at the end. If the program dies before that,
// its janitor cleans up.
package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/tests/env"
)

const (
	// dirPrefix starts the name of every engine's directory and cgroup.
	dirPrefix = "agentjail-test-"
	// readyWait bounds how long a daemon may take until it answers.
	readyWait = 3 * time.Minute
	// stopWait bounds how long a daemon may take to stop.
	stopWait = 90 * time.Second
)

// baseDir is where engines have their directories. Not the temporary directory: that is often a tmpfs, and layers of a
// gigabyte do not belong there. Every parent can be searched by everyone, since container root is an ordinary id on the host.
func baseDir() string { return "/var/tmp" }

// Options report what kind of engine to start. The zero value serves.
type Options struct {
	// Runtimes are registered with dockerd, by the name that docker run --runtime takes.
	Runtimes map[string]Runtime
	// Default is the one of them that containers get that name none; empty is Docker's own.
	Default string
	// Shims are directories that containerd searches for shims, before all others.
	Shims []string
	// Edition is the Docker to start; nil is what EditionEnv names.
	Edition *Edition
	// LiveRestore keeps containers running while dockerd is away (dockerd(8)).
	LiveRestore bool
	// Log gets a line about each thing that had to be done differently than requested; nil discards them.
	Log func(format string, args ...any)
}

// A Runtime is an entry of dockerd's table of runtimes.
type Runtime struct {
	Path string   `json:"path,omitempty"`        // absolute
	Args []string `json:"runtimeArgs,omitempty"` // put before those of containerd
	// Type names a shim instead, and Options are what it is sent (Docker 24).
	Type    string         `json:"runtimeType,omitempty"`
	Options map[string]any `json:"options,omitempty"`
}

// An Engine is a running dockerd with its containerd.
type Engine struct {
	// Dir holds everything the engine has on disk.
	Dir string
	// Degraded names what this machine could not do, in a few words each; empty when nothing is missing.
	Degraded []string

	opts       Options
	edition    Edition
	cli        string
	spawn      *spawner
	janitor    io.Closer
	lock       *os.File
	containerd *daemon
	dockerd    *daemon
	dockerArgs []string
	search     []string     // directories searched for programs before the system's
	env        []string     // added to the daemons' environment
	orderly    func() error // removes containers where there is no dockerd
	closeOnce  sync.Once
	closeErr   error
	workOnce   sync.Once
	workErr    error
}

// A daemon is a process of the engine.
type daemon struct {
	cmd  *exec.Cmd
	log  string
	done chan struct{} // closed when the process has ended
	err  error         // valid after done
}

// Start starts an engine and waits until it answers. It needs root, containerd and docker.
func Start(opts Options) (*Engine, error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("a Docker of the tests' own needs root")
	}
	if opts.Log == nil {
		opts.Log = func(string, ...any) {}
	}
	cli, err := findCLI()
	if err != nil {
		return nil, err
	}
	edition, err := chosenEdition()
	if err != nil {
		return nil, err
	}
	if opts.Edition != nil {
		edition = *opts.Edition
	}
	programs, err := edition.Programs()
	if err != nil {
		return nil, err
	}
	sweepStale()
	e := &Engine{opts: opts, edition: edition, cli: cli, search: slices.Concat(opts.Shims, programs)}
	if err := e.makeDir(); err != nil {
		return nil, err
	}
	if err := e.boot(); err != nil {
		logs := e.Logs(40)
		if cerr := e.Close(); cerr != nil {
			err = fmt.Errorf("%w (and cleaning up: %w)", err, cerr)
		}
		return nil, fmt.Errorf("%w\n%s", err, logs)
	}
	return e, nil
}

// Another starts an engine of the same kind.
func (e *Engine) Another() (*Engine, error) { return Start(e.opts) }

// findCLI picks the docker command: the distribution's own where there is one, since that belongs to the dockerd.
func findCLI() (string, error) {
	if _, err := os.Stat("/usr/bin/docker"); err == nil {
		return "/usr/bin/docker", nil
	}
	path, err := exec.LookPath("docker")
	if err != nil {
		return "", fmt.Errorf("no docker command (hack/deps.sh installs it): %w", err)
	}
	return path, nil
}

// makeDir makes the engine's directory, locks it, and starts its janitor.
func (e *Engine) makeDir() error {
	dir, err := os.MkdirTemp(baseDir(), dirPrefix)
	if err != nil {
		return err
	}
	e.Dir = dir
	if err := os.Chmod(dir, 0o711); err != nil {
		return err
	}
	// Another program's sweepStale takes a free lock for a stale engine: it gets its name once it is held.
	if e.lock, err = os.OpenFile(e.path("lock.new"), os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		return err
	}
	if err := unix.Flock(int(e.lock.Fd()), unix.LOCK_EX); err != nil {
		return fmt.Errorf("lock %s: %w", dir, err)
	}
	if err := os.Rename(e.path("lock.new"), e.path("lock")); err != nil {
		return err
	}
	if e.janitor, err = startJanitor(dir); err != nil {
		return err
	}
	place, err := env.NewPlace()
	e.spawn = &spawner{place}
	return err
}

func (e *Engine) path(name string) string { return filepath.Join(e.Dir, name) }

// boot starts containerd and dockerd.
func (e *Engine) boot() error {
	if err := e.writeContainerdConfig(); err != nil {
		return err
	}
	if err := e.writeDockerdConfig(); err != nil {
		return err
	}
	if err := e.StartContainerd(); err != nil {
		return err
	}
	var err error
	// Full networking first; then without packet filter rules; then without a bridge at all.
	attempts := []struct {
		args    []string
		missing string
	}{
		{nil, ""},
		{[]string{"--iptables=false"}, "no iptables: containers reach nothing beyond the bridge"},
		{[]string{"--iptables=false", "--bridge=none"}, "no bridge: containers get no default network"},
	}
	for _, a := range attempts {
		e.dockerArgs = a.args
		err = e.StartDockerd()
		if err == nil {
			if a.missing != "" {
				e.Degraded = append(e.Degraded, a.missing)
				e.opts.Log("engine: %s", a.missing)
			}
			return nil
		}
		e.opts.Log("engine: dockerd %s: %v", strings.Join(a.args, " "), err)
		if serr := e.StopDockerd(); serr != nil {
			return serr
		}
	}
	return err
}

// StartContainerd starts containerd, which must not be running, and waits until it answers.
func (e *Engine) StartContainerd() error {
	var err error
	e.containerd, err = e.startDaemon("containerd", "containerd", "--config", e.path("containerd.toml"))
	if err != nil {
		return err
	}
	return e.await(e.containerd, func(context.Context) error {
		c, err := net.Dial("unix", e.path("containerd.sock"))
		if err != nil {
			return err
		}
		return c.Close()
	})
}

// KillContainerd ends containerd as a crash would, and waits for its end. Shims and containers go on.
func (e *Engine) KillContainerd() error { return e.containerd.stop(unix.SIGKILL) }

// containerdConfig is what containerd 1.6 to 2.x understand alike. The CRI plugin wants a network configuration that
// the tests have no use for.
const containerdConfig = `version = 2
root = %q
state = %q
disabled_plugins = ["io.containerd.grpc.v1.cri", "io.containerd.cri.v1.runtime", "io.containerd.cri.v1.images"]
[grpc]
  address = %q
`

func (e *Engine) writeContainerdConfig() error {
	conf := fmt.Sprintf(containerdConfig, e.path("containerd"), e.path("containerd-run"), e.path("containerd.sock"))
	return os.WriteFile(e.path("containerd.toml"), []byte(conf), 0o600)
}

// writeDockerdConfig writes the daemon.json that registers the runtimes.
func (e *Engine) writeDockerdConfig() error {
	runtimes := map[string]Runtime{}
	for name, r := range e.opts.Runtimes {
		var err error
		if runtimes[name], err = e.edition.runtime(r); err != nil {
			return err
		}
	}
	settings := map[string]any{
		"runtimes":      runtimes,
		"live-restore":  e.opts.LiveRestore,
		"exec-opts":     []string{"native.cgroupdriver=cgroupfs"},
		"cgroup-parent": "/" + cgroupParent(e.Dir),
		// Tests fill disks; no log may grow without end.
		"log-opts": map[string]string{"max-size": "10m"},
	}
	maps.Copy(settings, e.edition.settings())
	if e.opts.Default != "" {
		settings["default-runtime"] = e.opts.Default
	}
	conf, err := json.MarshalIndent(settings, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(e.path("daemon.json"), conf, 0o600)
}

// SetDefault has dockerd make containers with another of its runtimes when none is named: its configuration is read again.
func (e *Engine) SetDefault(runtime string) error {
	e.opts.Default = runtime
	if err := e.writeDockerdConfig(); err != nil {
		return err
	}
	if err := e.dockerd.cmd.Process.Signal(unix.SIGHUP); err != nil {
		return fmt.Errorf("have dockerd read its configuration: %w", err)
	}
	return e.await(e.dockerd, func(ctx context.Context) error {
		r := e.Docker(ctx, "info", "--format", "{{.DefaultRuntime}}")
		if now := strings.TrimSpace(r.Stdout); now != runtime {
			return fmt.Errorf("dockerd's default runtime is %q, not %q: %s", now, runtime, r.Stderr)
		}
		return nil
	})
}

// StartDockerd starts dockerd, which must not be running, and waits until it answers.
func (e *Engine) StartDockerd() error {
	args := append([]string{
		"--data-root", e.path("docker"), "--exec-root", e.path("docker-run"),
		"--host", "unix://" + e.path("docker.sock"), "--pidfile", e.path("docker.pid"),
		"--containerd", e.path("containerd.sock"), "--config-file", e.path("daemon.json"),
		"--group", "root",
	}, e.dockerArgs...)
	var err error
	e.dockerd, err = e.startDaemon("dockerd", "dockerd", args...)
	if err != nil {
		return err
	}
	return e.await(e.dockerd, e.ping)
}

// StopDockerd stops dockerd and waits for its end. With LiveRestore containers go on.
func (e *Engine) StopDockerd() error { return e.dockerd.stop(unix.SIGTERM) }

// KillDockerd ends dockerd as a crash would, and waits for its end.
func (e *Engine) KillDockerd() error { return e.dockerd.stop(unix.SIGKILL) }

// DockerdPID is the process id of the running dockerd.
func (e *Engine) DockerdPID() int { return e.dockerd.cmd.Process.Pid }

// Socket is the path of dockerd's API socket.
func (e *Engine) Socket() string { return e.path("docker.sock") }

// ContainerdSocket is the path of containerd's socket.
func (e *Engine) ContainerdSocket() string { return e.path("containerd.sock") }

// DaemonConfig is the path of dockerd's daemon.json.
func (e *Engine) DaemonConfig() string { return e.path("daemon.json") }

// Pidfile is the path of the file with dockerd's process id.
func (e *Engine) Pidfile() string { return e.path("docker.pid") }

// ping reports whether dockerd answers.
func (e *Engine) ping(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://docker/_ping", nil)
	if err != nil {
		return err
	}
	resp, err := e.client().Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("dockerd answers %s", resp.Status)
	}
	return nil
}

// startDaemon starts a process of the engine with its output in a log file.
func (e *Engine) startDaemon(name, bin string, args ...string) (*daemon, error) {
	log, err := os.OpenFile(e.path(name+".log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	for _, dir := range e.search {
		if path := filepath.Join(dir, bin); !strings.Contains(bin, "/") && isFile(path) {
			bin = path
		}
	}
	cmd := exec.Command(bin, args...)
	cmd.Stdout, cmd.Stderr = log, log
	path := append(slices.Clone(e.search), "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
	cmd.Env = append(os.Environ(), "PATH="+strings.Join(path, ":"))
	cmd.Env = append(cmd.Env, e.env...)
	d := &daemon{cmd: cmd, log: log.Name(), done: make(chan struct{})}
	if err := e.spawn.start(cmd); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() { d.err = cmd.Wait(); close(d.done) }()
	return d, nil
}

func isFile(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.Mode().IsRegular()
}

// await polls ready until it succeeds, the daemon ends, or readyWait is over.
func (e *Engine) await(d *daemon, ready func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), readyWait)
	defer cancel()
	var err error
	env.Poll(readyWait, func() bool { err = ready(ctx); return err == nil || !d.runs() })
	switch {
	case err == nil:
		return nil
	case !d.runs():
		return fmt.Errorf("%s ended before it answered: %v", filepath.Base(d.cmd.Path), d.err)
	}
	return fmt.Errorf("%s does not answer: %w", filepath.Base(d.cmd.Path), err)
}

// runs reports whether the daemon was started and has not ended.
func (d *daemon) runs() bool {
	if d == nil {
		return false
	}
	select {
	case <-d.done:
		return false
	default:
		return true
	}
}

// stop sends sig to the daemon and waits for its end; a daemon that does not stop is killed and that is an error.
func (d *daemon) stop(sig syscall.Signal) error {
	if d == nil {
		return nil
	}
	select {
	case <-d.done:
		return nil
	default:
	}
	_ = d.cmd.Process.Signal(sig)
	select {
	case <-d.done:
		return nil
	case <-time.After(stopWait):
		_ = d.cmd.Process.Kill()
		<-d.done
		return fmt.Errorf("%s did not stop within %v of signal %v", filepath.Base(d.cmd.Path), stopWait, sig)
	}
}

// InNetns runs f in the engine's network namespace: there its bridges and published ports are.
func (e *Engine) InNetns(f func() error) error { return e.spawn.Do(f) }

// CgroupParent is the name of the cgroup below which every container's lies.
func (e *Engine) CgroupParent() string { return cgroupParent(e.Dir) }

// logNoise is what containerd 1.6 and dockerd 20.10 warn of whenever a container ends.
var logNoise = []string{"cleaning up after shim disconnected", "copy shim log", "stream copy error", "cleanup: failed to delete container from containerd"}

// Logs returns the last n lines of each daemon's log that are not mere information.
func (e *Engine) Logs(n int) string {
	var b strings.Builder
	for _, d := range []*daemon{e.containerd, e.dockerd} {
		if d == nil {
			continue
		}
		text, err := os.ReadFile(d.log)
		if err != nil {
			continue
		}
		lines := slices.DeleteFunc(strings.Split(strings.TrimRight(string(text), "\n"), "\n"), func(line string) bool {
			return strings.Contains(line, "level=info") && !strings.Contains(line, "level=error") || slices.ContainsFunc(logNoise, func(n string) bool { return strings.Contains(line, n) })
		})
		if len(lines) > n {
			lines = lines[len(lines)-n:]
		}
		fmt.Fprintf(&b, "--- %s\n%s\n", filepath.Base(d.log), strings.Join(lines, "\n"))
	}
	return b.String()
}

// Close removes all containers, stops the daemons and cleans up. It may be called more than once.
func (e *Engine) Close() error {
	e.closeOnce.Do(func() {
		var errs []error
		if e.dockerd != nil {
			// The orderly way first, so that what the runtime has outside the engine's directory goes too.
			ctx, cancel := context.WithTimeout(context.Background(), stopWait)
			if ids := strings.Fields(e.Docker(ctx, "ps", "-aq").Stdout); len(ids) > 0 {
				if r := e.Docker(ctx, append([]string{"rm", "-f"}, ids...)...); r.Code != 0 {
					errs = append(errs, fmt.Errorf("remove containers: %s", r.Stderr))
				}
			}
			cancel()
			errs = append(errs, e.dockerd.stop(unix.SIGTERM))
		}
		if e.orderly != nil && e.containerd.runs() {
			errs = append(errs, e.orderly())
		}
		errs = append(errs, e.containerd.stop(unix.SIGTERM))
		if e.spawn != nil {
			e.spawn.Close()
		}
		errs = append(errs, sweep(e.Dir))
		if e.janitor != nil {
			e.janitor.Close()
		}
		if e.lock != nil {
			e.lock.Close()
		}
		e.closeErr = errors.Join(errs...)
	})
	return e.closeErr
}
