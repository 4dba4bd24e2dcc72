package engine

import (
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"agentjail.dev/tests/env"
)

// Command prepares a docker command for this engine. It is killed when this process dies.
func (e *Engine) Command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, e.cli, args...)
	cmd.Env = append(os.Environ(), "DOCKER_HOST=unix://"+e.Socket(), "DOCKER_CONFIG="+e.path("cli"), "DOCKER_CONTEXT=")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// Docker runs a docker command and waits for it.
func (e *Engine) Docker(ctx context.Context, args ...string) Result {
	return e.DockerInput(ctx, nil, args...)
}

// DockerInput runs a docker command that reads from stdin.
func (e *Engine) DockerInput(ctx context.Context, stdin io.Reader, args ...string) Result {
	return RunCommand(ctx, e.Command(ctx, args...), stdin)
}

// A T is an engine in the hands of one test: commands that hang fail the test, and what it starts is removed at its end.
type T struct {
	testing.TB
	*Engine
}

// For gives the engine to a test. When the test fails, the daemons' last log lines are printed with it.
func (e *Engine) For(t testing.TB) *T {
	t.Helper()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("daemon logs:\n%s", e.Logs(5))
		}
	})
	return &T{t, e}
}

// Docker runs a docker command and fails the test when it does not end in time.
func (t *T) Docker(args ...string) Result {
	t.Helper()
	return t.DockerIn(nil, args...)
}

// DockerIn is Docker with standard input.
func (t *T) DockerIn(stdin io.Reader, args ...string) Result {
	t.Helper()
	return Within(t, env.CommandWait, func(ctx context.Context) Result { return t.Engine.DockerInput(ctx, stdin, args...) })
}

// Must runs a docker command that has to succeed, and returns its trimmed standard output.
func (t *T) Must(args ...string) string {
	t.Helper()
	return t.Docker(args...).Must(t)
}

// Detached starts a container with docker run -d and removes it at the test's end. args follow "run -d". It returns the
// container's id.
func (t *T) Detached(args ...string) string {
	t.Helper()
	r := t.Docker(append([]string{"run", "-d"}, args...)...)
	id := LastLine(r.Stdout)
	if id != "" {
		t.Cleanup(func() { t.Remove(id) })
	}
	if r.Code != 0 {
		t.Fatal(r)
	}
	return id
}

// Created makes a container with docker create and removes it at the test's end.
func (t *T) Created(args ...string) string {
	t.Helper()
	id := LastLine(t.Must(append([]string{"create"}, args...)...))
	t.Cleanup(func() { t.Remove(id) })
	return id
}

// Remove removes a container by force; one that is gone already is fine. It starts no client: of all
// commands of the tests this is the most frequent.
func (t *T) Remove(id string) {
	code, text, err := t.request(http.MethodDelete, "/containers/"+id+"?force=1&v=1", nil)
	if err != nil || code >= http.StatusBadRequest && code != http.StatusNotFound {
		t.Errorf("remove the container: %d %s: %v", code, text, err)
	}
}
