package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"agentjail.dev/tests/env"
)

// ContainerdOptions report what kind of containerd to start. The zero value serves.
type ContainerdOptions struct {
	// Binary is the containerd to start, "" for the distribution's. Tool("containerd") is the newest. The directory it lies
	// in is searched for shims, and for the ctr that belongs to it.
	Binary string
	// Shims are further directories to search for shims, before all others.
	Shims []string
	// CRI leaves the CRI plugin on.
	CRI bool
	// Config, if not nil, returns what is added to the configuration, which is of version 2: all releases read that.
	Config func(*Containerd) string
	// Env is added to the daemon's environment.
	Env []string
	// Log gets a line about each thing that had to be done differently than requested; nil discards them.
	Log func(format string, args ...any)
}

// A Containerd is a containerd of its own, without Docker: with its own directories, sockets and network namespace.
type Containerd struct {
	*Engine
	opts ContainerdOptions
	ctr  string
}

// StartContainerd starts a containerd and waits until it answers. It needs root.
func StartContainerd(opts ContainerdOptions) (*Containerd, error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("a containerd of the tests' own needs root")
	}
	if opts.Log == nil {
		opts.Log = func(string, ...any) {}
	}
	if opts.Binary == "" {
		path, err := exec.LookPath("containerd")
		if err != nil {
			return nil, fmt.Errorf("no containerd (hack/deps.sh installs it): %w", err)
		}
		opts.Binary = path
	}
	sweepStale()
	c := &Containerd{Engine: &Engine{opts: Options{Log: opts.Log}}, opts: opts, ctr: filepath.Join(filepath.Dir(opts.Binary), "ctr")}
	c.search = append(opts.Shims, filepath.Dir(opts.Binary))
	c.env = opts.Env
	if err := c.makeDir(); err != nil {
		return nil, err
	}
	c.orderly = c.removeAll
	err := c.writeConfig()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		logs := c.Logs(40)
		if cerr := c.Close(); cerr != nil {
			err = fmt.Errorf("%w (and cleaning up: %w)", err, cerr)
		}
		return nil, fmt.Errorf("%w\n%s", err, logs)
	}
	return c, nil
}

// ownConfig is what keeps a containerd to its own directories. Plugins that a release does not have are ignored by it.
const ownConfig = `version = 2
root = %q
state = %q
disabled_plugins = [%s]
[grpc]
  address = %q
[plugins."io.containerd.internal.v1.opt"]
  path = %q
[plugins."io.containerd.nri.v1.nri"]
  disable = true
`

// noCRI are the CRI plugin's names, by release.
const noCRI = `"io.containerd.grpc.v1.cri", "io.containerd.cri.v1.runtime", "io.containerd.cri.v1.images"`

func (c *Containerd) writeConfig() error {
	off := noCRI
	if c.opts.CRI {
		off = ""
	}
	conf := fmt.Sprintf(ownConfig, c.path("containerd"), c.path("containerd-run"), off, c.Socket(), c.path("opt"))
	if c.opts.Config != nil {
		conf += c.opts.Config(c)
	}
	return os.WriteFile(c.path("containerd.toml"), []byte(conf), 0o600)
}

// Start starts the daemon, which must not be running, and waits until it answers.
func (c *Containerd) Start() error {
	var err error
	c.containerd, err = c.startDaemon("containerd", c.opts.Binary, "--config", c.path("containerd.toml"))
	if err != nil {
		return err
	}
	if err := c.await(c.containerd, func(context.Context) error {
		conn, err := net.Dial("unix", c.Socket())
		if err != nil {
			return err
		}
		return conn.Close()
	}); err != nil {
		return err
	}
	return c.await(c.containerd, func(ctx context.Context) error {
		// The socket is there before all of its services are.
		if r := c.Ctr(ctx, "version"); r.Code != 0 {
			return errors.New(strings.TrimSpace(r.Stderr))
		}
		if r := c.Ctr(ctx, "containers", "ls", "-q"); r.Code != 0 {
			return errors.New(strings.TrimSpace(r.Stderr))
		}
		return nil
	})
}

// Stop stops the daemon and waits for its end. Containers go on.
func (c *Containerd) Stop() error { return c.containerd.stop(unix.SIGTERM) }

// Kill ends the daemon as a crash would, and waits for its end. Containers go on.
func (c *Containerd) Kill() error { return c.containerd.stop(unix.SIGKILL) }

// PID is the process id of the running daemon.
func (c *Containerd) PID() int { return c.containerd.cmd.Process.Pid }

// Socket is the path of the daemon's gRPC socket, which also serves CRI.
func (c *Containerd) Socket() string { return c.path("containerd.sock") }

// State is the daemon's directory of what lasts until the next boot: there are the bundles.
func (c *Containerd) State() string { return c.path("containerd-run") }

// Namespace is the containerd namespace that Ctr works in. Its name is also that of the control group that the tasks in
// it have by default, so that what they leave is found.
func (c *Containerd) Namespace() string { return c.CgroupParent() }

// Bundle is the directory of a task in Namespace.
func (c *Containerd) Bundle(id string) string {
	return filepath.Join(c.State(), "io.containerd.runtime.v2.task", c.Namespace(), id)
}

// Version is the daemon's, as 1.6.20.
func (c *Containerd) Version() string {
	out, err := exec.Command(c.opts.Binary, "--version").Output()
	f := strings.Fields(string(out))
	if err != nil || len(f) < 3 {
		return ""
	}
	v := strings.TrimPrefix(f[2], "v")
	if i := strings.IndexAny(v, "~+-"); i > 0 {
		v = v[:i]
	}
	return v
}

// Command prepares a ctr command for this daemon. It is killed with ctx.
func (c *Containerd) Command(ctx context.Context, args ...string) *exec.Cmd {
	return c.CommandIn(ctx, c.Namespace(), args...)
}

// CommandIn is Command in another containerd namespace.
func (c *Containerd) CommandIn(ctx context.Context, namespace string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, c.ctr, append([]string{"--address", c.Socket(), "--namespace", namespace}, args...)...)
	cmd.Dir = c.Dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// Ctr runs a ctr command and waits for it.
func (c *Containerd) Ctr(ctx context.Context, args ...string) Result {
	return RunCommand(ctx, c.Command(ctx, args...), nil)
}

// ImageConfig is what of an image's configuration is set here.
type ImageConfig struct {
	User       string   `json:"User,omitempty"`
	Env        []string `json:"Env,omitempty"`
	Entrypoint []string `json:"Entrypoint,omitempty"`
	Cmd        []string `json:"Cmd,omitempty"`
	WorkingDir string   `json:"WorkingDir,omitempty"`

	Labels map[string]string `json:"Labels,omitempty"`
}

// BusyboxImage is the name that ImportBusybox gives the image.
const BusyboxImage = "docker.io/library/busybox:latest"

// ImportBusybox makes the image BusyboxImage in a namespace.
func (c *Containerd) ImportBusybox(namespace string) error {
	var layer bytes.Buffer
	if err := busyboxTree(&layer); err != nil {
		return err
	}
	return c.ImportImage(namespace, BusyboxImage, layer.Bytes(), ImageConfig{Cmd: []string{"/bin/sh"}, Env: []string{"PATH=/usr/local/bin:/usr/bin:/bin:/sbin"}})
}

// ImportImage makes an image of one layer, an uncompressed tar archive, in a namespace.
func (c *Containerd) ImportImage(namespace, name string, layer []byte, config ImageConfig) error {
	var archive bytes.Buffer
	if err := imageArchive(&archive, name, layer, config); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), env.CommandWait)
	defer cancel()
	if r := RunCommand(ctx, c.CommandIn(ctx, namespace, "images", "import", "-"), &archive); r.Code != 0 {
		return fmt.Errorf("make image %s: %s", name, r)
	}
	return nil
}

// removeAll kills and removes every task and container of every namespace, while the daemon is there to do so.
func (c *Containerd) removeAll() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopWait)
	defer cancel()
	var errs []error
	for ns := range strings.FieldsSeq(c.Ctr(ctx, "namespaces", "ls", "-q").Stdout) {
		list := func(what string) []string {
			return strings.Fields(RunCommand(ctx, c.CommandIn(ctx, ns, what, "ls", "-q"), nil).Stdout)
		}
		for _, id := range list("tasks") {
			if r := RunCommand(ctx, c.CommandIn(ctx, ns, "tasks", "rm", "--force", id), nil); r.Code != 0 && !strings.Contains(r.Stderr, "not found") {
				errs = append(errs, fmt.Errorf("remove task %s: %s", id, r))
			}
		}
		if ids := list("containers"); len(ids) > 0 {
			RunCommand(ctx, c.CommandIn(ctx, ns, append([]string{"containers", "rm"}, ids...)...), nil)
		}
	}
	return errors.Join(errs...)
}

// A CT is a containerd in the hands of one test.
type CT struct {
	testing.TB
	*Containerd
}

// For gives the daemon to a test. When the test fails, the daemon's last log lines are printed with it.
func (c *Containerd) For(t testing.TB) *CT {
	t.Helper()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("daemon log:\n%s", c.Logs(40))
		}
	})
	return &CT{t, c}
}

// Ctr runs a ctr command and fails the test when it does not end in time.
func (t *CT) Ctr(args ...string) Result {
	t.Helper()
	return Within(t, env.CommandWait, func(ctx context.Context) Result { return t.Containerd.Ctr(ctx, args...) })
}

// Must runs a ctr command that has to succeed, and returns its trimmed standard output.
func (t *CT) Must(args ...string) string {
	t.Helper()
	return t.Ctr(args...).Must(t)
}

// Task returns the first process of a task and its status, such as RUNNING; "" where there is no such task.
func (t *CT) Task(id string) (pid int, status string) {
	t.Helper()
	for line := range strings.Lines(t.Must("tasks", "ls")) {
		if f := strings.Fields(line); len(f) > 2 && f[0] == id {
			return env.Number(t, f[1]), f[2]
		}
	}
	return 0, ""
}

// Remove removes a container with its task; one that is gone already is fine.
func (t *CT) Remove(id string) {
	t.Helper()
	for _, what := range [][]string{{"tasks", "rm", "-f", id}, {"containers", "rm", id}} {
		if r := t.Ctr(what...); r.Code != 0 && !strings.Contains(r.Stderr, "not found") {
			t.Error(r)
		}
	}
}

// jsonOf encodes what cannot fail to be encoded.
func jsonOf(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return text
}
