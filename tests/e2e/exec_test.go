package e2e

import (
	"path/filepath"
	"strings"
	"testing"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

func TestExec(t *testing.T) {
	d := d(t)
	id := sleeper(d, "-e", "FROM_RUN=run")
	for _, c := range []struct {
		name    string
		options []string
		command []string
		want    string
		code    int
	}{
		{"command", nil, []string{"echo", "hello"}, "hello", 0},
		{"same place", nil, []string{"sh", "-c", "cat /proc/1/cmdline | tr '\\0' ' '"}, "sleep 3600", 0},
		{"-u", []string{"-u", "1000:2000"}, []string{"sh", "-c", "id -u; id -g"}, "1000\n2000", 0},
		{"-u name", []string{"-u", "app"}, []string{"id", "-un"}, "app", 0},
		{"-u 0", []string{"-u", "0"}, []string{"id", "-u"}, "0", 0},
		{"-w", []string{"-w", "/home/app"}, []string{"pwd"}, "/home/app", 0},
		{"-e", []string{"-e", "A=1"}, []string{"sh", "-c", "echo $A $FROM_RUN"}, "1 run", 0},
		{"only the environment that was requested", nil, []string{"sh", "-c", "env | sort | sed 's/=.*//' | tr '\\n' ' '"}, variables("FROM_RUN HOME HOSTNAME PATH PWD SHLVL"), 0},
		{"/dev/stdout", nil, []string{"sh", "-c", "echo out > /dev/stdout"}, "out", 0},
		{"/dev/stdout as a user", []string{"-u", "1000"}, []string{"sh", "-c", "echo out > /dev/stdout"}, "out", 0},
		{"exit code", nil, []string{"sh", "-c", "exit 42"}, "", 42},
		{"missing", nil, []string{"/no/such"}, "", 127},
		{"not executable", nil, []string{"/etc/not-executable"}, "", 126},
		{"killed", nil, []string{"sh", "-c", "kill -9 $$"}, "", 137},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := docker.For(t).Docker(append(append(append([]string{"exec"}, c.options...), id), c.command...)...)
			if c.code == 127 && r.Code == 126 {
				r.Code = 127 // dockerd 20.10 does not distinguish a missing program from one that cannot be run
			}
			// For a program that cannot be run, docker's message goes to standard output with some versions.
			if r.Code != c.code || r.Code < 126 && strings.TrimSpace(r.Stdout) != c.want {
				t.Errorf("want code %d and %q from %s", c.code, c.want, r)
			}
		})
	}
}

func TestExecStdin(t *testing.T) {
	d := d(t)
	id := sleeper(d)
	r := d.DockerIn(strings.NewReader("a\nb\nc\n"), "exec", "-i", id, "sh", "-c", "wc -l; echo err >&2")
	env.Equal(t, "stdout", strings.TrimSpace(r.Stdout), "3")
	env.Equal(t, "stderr", r.Stderr, "err\n")
}

func TestExecTerminal(t *testing.T) {
	d := d(t)
	id := sleeper(d)
	term := d.Terminal(30, 90, "exec", "-it", id, "sh")
	term.Expect("# ")
	term.Type("probe winsize\n")
	term.Expect(`{"cols":90,"rows":30,"tty":true}`)
	term.Type("until probe winsize | grep -q '91.*31'; do :; done; echo resized-$((1+1))\n")
	term.ExpectAtSize(31, 91, "resized-2")
	term.Type("exit 9\n")
	env.Equal(t, "exit code", term.Wait(), 9)
}

func TestExecDetached(t *testing.T) {
	d := d(t)
	id := sleeper(d)
	d.Must("exec", "-d", id, "sh", "-c", "echo done > /tmp/by-exec")
	env.Eventually(d, "the file of a detached exec", func() bool {
		return d.Docker("exec", id, "cat", "/tmp/by-exec").Stdout == "done\n"
	})
}

// TestExecManyAtOnce: processes that join a jail at the same time do not get into each other's way.
func TestExecManyAtOnce(t *testing.T) {
	d := d(t)
	id := sleeper(d)
	const n = 10
	results := make(chan string, n)
	for range n {
		go func() {
			r := d.Engine.Docker(t.Context(), "exec", id, "sh", "-c", "echo $((20+22))")
			results <- r.Stdout + r.Stderr
		}()
	}
	for range n {
		env.Equal(t, "output", <-results, "42\n")
	}
}

func TestExecIntoStopped(t *testing.T) {
	d := d(t)
	id := startJail(d, "busybox", "true")
	d.Must("wait", id)
	if r := d.Docker("exec", id, "true"); r.Code == 0 || !strings.Contains(r.Stderr, "is not running") {
		t.Errorf("exec into a stopped container: %s", r)
	}
}

// TestExecAtOnce: an exec works as soon as the container counts as started, also while its first process is not yet its
// program.
func TestExecAtOnce(t *testing.T) {
	needAgentjail(t)
	t.Parallel()
	under := env.Get(t, engine.UnderTest)
	b := engine.NewBundle(t, docker.Dir)
	c := engine.Caller{Path: under, Args: []string{"--root", filepath.Join(b.Dir, "state")}}
	b.Spec.Process.Args = []string{"sleep", "3600"}
	for range 20 {
		id := b.ID()
		if got := status(t, b, c, "run", "--detach", "--bundle", b.Dir, id); got != 0 {
			t.Fatal(got)
		}
		env.Equal(t, "exec", status(t, b, c, "exec", id, "true"), 0)
		env.Equal(t, "delete", status(t, b, c, "delete", "--force", id), 0)
	}
}
