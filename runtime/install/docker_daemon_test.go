package install

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// privateDocker is a Docker of the test's own: own data, sockets and configuration, nothing of the
// machine's network touched. Its /etc/docker is a directory of the test, in a mount namespace of
// its own.
type privateDocker struct {
	dir  string
	log  bytes.Buffer
	cmd  *exec.Cmd
	opts Options
}

// startDocker starts containerd and dockerd. withFile reports whether the daemon is given a
// configuration file (which must exist then) or left with its default one, which does not.
func startDocker(t *testing.T, withFile bool) *privateDocker {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a Docker daemon")
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root: starts a Docker daemon")
	}
	for _, program := range []string{"containerd", "dockerd", "mount"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip(err)
		}
	}
	if err := os.MkdirAll("/etc/docker", 0o755); err != nil { // the place to mount over
		t.Skip(err)
	}
	dir, err := os.MkdirTemp("", "agentjail-install-") // short: sockets have short names
	if err != nil {
		t.Fatal(err)
	}
	d := &privateDocker{dir: dir}
	path := func(name string) string { return filepath.Join(dir, name) }
	d.opts = Options{
		Runtimes: []Runtime{{"agentjail", "/bin/sh"}, {"agentjail-strict", "/bin/true"}},
		Config:   path("etc/daemon.json"),
		PIDFile:  path("docker.pid"),
		Socket:   path("docker.sock"),
		Timeout:  time.Minute,
	}
	if err := os.Mkdir(path("etc"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })

	containerd := exec.Command("containerd", "--config", "/dev/null", "--root", path("cd"), "--state", path("cd-state"), "--address", path("cd.sock"))
	run(t, containerd, &bytes.Buffer{})

	// A mount namespace of its own, so that /etc/docker is the test's, and the daemon's own mounts
	// go with it.
	args := []string{
		"-c", `mount --make-rprivate / && mount --bind "$1" /etc/docker && shift && exec dockerd "$@"`, "sh", path("etc"),
		"--containerd", path("cd.sock"), "--data-root", path("data"), "--exec-root", path("exec"), "--host", "unix://" + path("docker.sock"),
		"--pidfile", path("docker.pid"), "--iptables=false", "--ip6tables=false", "--bridge=none", "--storage-driver", "vfs",
	}
	if withFile {
		write(t, d.opts.Config, "{}\n", 0o644)
		args = append(args, "--config-file", d.opts.Config)
	}
	d.cmd = exec.Command("sh", args...)
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	run(t, d.cmd, &d.log)
	d.wait(t)
	return d
}

// run starts a program that ends with the test.
func run(t *testing.T, cmd *exec.Cmd, log *bytes.Buffer) {
	t.Helper()
	cmd.Stdout, cmd.Stderr = log, log
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		timer := time.AfterFunc(30*time.Second, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait()
		timer.Stop()
		if t.Failed() {
			t.Logf("%s:\n%s", cmd.Path, log)
		}
	})
}

// wait until the daemon answers.
func (d *privateDocker) wait(t *testing.T) {
	t.Helper()
	deadline := time.After(time.Minute)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := get(context.Background(), d.opts.Socket, "/_ping"); err == nil {
			return
		}
		select {
		case <-deadline:
			t.Skipf("no Docker daemon can be started here:\n%s", tail(d.log.String()))
		case <-tick.C:
		}
	}
}

func tail(s string) string { return s[max(0, len(s)-2000):] }

func (d *privateDocker) info(t *testing.T) info {
	t.Helper()
	body, err := get(context.Background(), d.opts.Socket, "/info")
	if err != nil {
		t.Fatal(err)
	}
	var i info
	if err := json.Unmarshal(body, &i); err != nil {
		t.Fatal(err)
	}
	return i
}

// TestRealDocker installs and removes with a running daemon that has a configuration file, and with
// one that started without.
func TestRealDocker(t *testing.T) {
	for name, withFile := range map[string]bool{"with a file": true, "without a file": false} {
		t.Run(name, func(t *testing.T) {
			trustAll(t)
			d := startDocker(t, withFile)
			o := d.opts
			r := apply(t, Docker, o)
			if !r.Changed || !r.Daemon.Running || !r.Daemon.Reloaded || !r.Daemon.Confirmed || r.Daemon.PID == 0 {
				t.Errorf("installed: %+v", r)
			}
			if i := d.info(t); i.Runtimes["agentjail"].Path != "/bin/sh" || i.Runtimes["agentjail-strict"].Path != "/bin/true" || i.DefaultRuntime != "runc" {
				t.Errorf("the daemon knows %+v", i)
			}
			if r := apply(t, Docker, o); r.Changed || r.Daemon.Reloaded || !r.Daemon.Confirmed {
				t.Errorf("the second run: %+v", r)
			}
			o.Default = "agentjail"
			if r := apply(t, Docker, o); !r.Changed || !r.Daemon.Confirmed || d.info(t).DefaultRuntime != "agentjail" {
				t.Errorf("as default: %+v, %+v", r, d.info(t))
			}
			other := o
			other.Runtimes = []Runtime{{"agentjail", "/bin/true"}}
			if _, err := NewPlan(Docker, other); err == nil {
				t.Error("another path was accepted")
			}

			o.Default = ""
			if r := apply(t, Docker, undo(o)); !r.Changed || !r.Daemon.Reloaded || !r.Daemon.Confirmed {
				t.Errorf("removed: %+v", r)
			}
			i := d.info(t)
			if _, known := i.Runtimes["agentjail"]; known || i.DefaultRuntime != "runc" {
				t.Errorf("after removal the daemon knows %+v", i)
			}
			if got := read(t, o.Config); got != "{}\n" || entries(t, o) != "daemon.json" {
				if !strings.Contains(entries(t, o), "key.json") { // Docker 20.10's own
					t.Errorf("left %q, directory %s", got, entries(t, o))
				}
			}
			if r := apply(t, Docker, undo(o)); r.Changed || r.Daemon.Reloaded || !r.Daemon.Confirmed {
				t.Errorf("the second removal: %+v", r)
			}
		})
	}
}

// TestRealDockerMissedReload: the file states it, the daemon does not know it yet.
func TestRealDockerMissedReload(t *testing.T) {
	trustAll(t)
	d := startDocker(t, true)
	text, err := register([]byte(read(t, d.opts.Config)), d.opts)
	if err != nil {
		t.Fatal(err)
	}
	write(t, d.opts.Config, string(text), 0o644)
	if r := apply(t, Docker, d.opts); r.Changed || !r.Daemon.Reloaded || !r.Daemon.Confirmed {
		t.Errorf("%+v", r)
	}
	// A daemon that refuses its file (here: a key that it does not know) is an error, and soon
	// enough.
	write(t, d.opts.Config, `{"no-such-key": 1}`, 0o644)
	o := d.opts
	o.Timeout = 2 * time.Second
	o.Runtimes = []Runtime{{"another", "/bin/sh"}}
	var r Result
	for {
		var p *Plan
		if p, err = NewPlan(Docker, o); err != nil {
			t.Fatal(err)
		}
		// A daemon that states nothing at all in that time is reported, and not waited for.
		if r, err = p.Apply(context.Background()); err != nil || !strings.Contains(r.Daemon.Detail, "does not answer") || o.Timeout > time.Minute {
			break
		}
		o.Timeout *= 2
	}
	if err == nil || !strings.Contains(err.Error(), "did not take the change in time: it does not know the runtime another") {
		t.Errorf("%+v, %v", r, err)
	}
}
