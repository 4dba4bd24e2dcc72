// Testcontainers tries testcontainers-go as its users do, and prints what came of each step:
// tests/clients runs it over Docker with runc and with jails, and compares. With the argument "net"
// containers reach each other and are reached.
package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/testcontainers/testcontainers-go"
	tcexec "github.com/testcontainers/testcontainers-go/exec"
	"github.com/testcontainers/testcontainers-go/log"
	"github.com/testcontainers/testcontainers-go/network"
	"github.com/testcontainers/testcontainers-go/wait"
)

// image is a busybox that the tests import.
const image = "busybox"

// startup bounds each wait for a container.
const startup = time.Minute

type quiet struct{}

func (quiet) Printf(string, ...any) {}

func main() {
	log.SetDefault(quiet{})
	ctx := context.Background()
	steps := plain
	if len(os.Args) > 1 && os.Args[1] == "net" {
		steps = networked
	}
	for _, s := range steps {
		out, err := s.do(ctx)
		fmt.Printf("== %s\n%s", s.name, out)
		if err != nil {
			fmt.Println("error:", strings.ReplaceAll(err.Error(), "\n", " "))
		}
	}
}

// A step prints what a user would look at.
type step struct {
	name string
	do   func(context.Context) (string, error)
}

var plain = []step{
	{"wait for a log line, exec, logs", execAndLogs},
	{"wait for a command and for a file", waitInside},
	{"wait for the exit", waitExit},
	{"wait for a health check", waitHealth},
	{"files given with the request", func(ctx context.Context) (string, error) { return files(ctx, true) }},
	{"files copied into the running container", func(ctx context.Context) (string, error) { return files(ctx, false) }},
	{"files copied out", copyOut},
	{"stop and start", stopAndStart},
	{"log consumer", consume},
}

var networked = []step{
	{"a server at a mapped port", mappedPort},
	{"two containers on a network", twoContainers},
}

// with runs f on a new container and removes it.
func with(ctx context.Context, opts []testcontainers.ContainerCustomizer, f func(*testcontainers.DockerContainer) (string, error)) (out string, err error) {
	c, err := testcontainers.Run(ctx, image, opts...)
	defer func() {
		if terr := testcontainers.TerminateContainer(c); err == nil {
			err = terr
		}
	}()
	if err != nil {
		return "", err
	}
	return f(c)
}

// sleeper is a container that runs until it is terminated.
func sleeper(opts ...testcontainers.ContainerCustomizer) []testcontainers.ContainerCustomizer {
	return append([]testcontainers.ContainerCustomizer{
		testcontainers.WithCmd("sh", "-c", "trap 'exit 0' TERM; echo ready; echo warning >&2; while :; do sleep 0.1; done"),
		testcontainers.WithWaitStrategyAndDeadline(startup, wait.ForLog("ready")),
	}, opts...)
}

// run executes a command in the container, as user if that is not "".
func run(ctx context.Context, c *testcontainers.DockerContainer, user string, command ...string) string {
	code, out, err := c.Exec(ctx, command, tcexec.Multiplexed(), tcexec.WithUser(user))
	if err != nil {
		return fmt.Sprintf("%s: %v\n", strings.Join(command, " "), err)
	}
	text, err := io.ReadAll(out)
	if err != nil {
		return fmt.Sprintf("%s: %v\n", strings.Join(command, " "), err)
	}
	return fmt.Sprintf("%s: exit code %d: %s\n", strings.Join(command, " "), code, bytes.TrimSpace(text))
}

func execAndLogs(ctx context.Context) (string, error) {
	opts := sleeper(testcontainers.WithEnv(map[string]string{"A": "one"}), testcontainers.WithTmpfs(map[string]string{"/scratch": "rw"}))
	return with(ctx, opts, func(c *testcontainers.DockerContainer) (string, error) {
		var b strings.Builder
		b.WriteString(run(ctx, c, "", "sh", "-c", "echo $A; exit 3"))
		b.WriteString(run(ctx, c, "1000", "id", "-u"))
		b.WriteString(run(ctx, c, "", "sh", "-c", "echo x > /scratch/f && cat /scratch/f"))
		// Runtimes word it each in their own way.
		var refused string
		for range 3 { // runc, on a busy machine, now and then ends without the reason in its log
			if _, refused, _ = strings.Cut(run(ctx, c, "", "no-such-program"), "exec: "); refused != "" {
				break
			}
		}
		b.WriteString(refused)
		r, err := c.Logs(ctx)
		if err != nil {
			return b.String(), err
		}
		defer r.Close()
		text, err := io.ReadAll(r)
		fmt.Fprintf(&b, "logs: %t %t\n", strings.Contains(string(text), "ready"), strings.Contains(string(text), "warning"))
		state, serr := c.State(ctx)
		if serr != nil {
			return b.String(), serr
		}
		fmt.Fprintf(&b, "state: %s\n", state.Status)
		return b.String(), err
	})
}

func waitInside(ctx context.Context) (string, error) {
	opts := []testcontainers.ContainerCustomizer{
		testcontainers.WithCmd("sh", "-c", "touch /tmp/made; echo text > /tmp/new; mv /tmp/new /tmp/file; exec sleep 1000"),
		testcontainers.WithWaitStrategyAndDeadline(startup, wait.ForExec([]string{"test", "-e", "/tmp/made"}), wait.ForFile("/tmp/file")),
	}
	return with(ctx, opts, func(c *testcontainers.DockerContainer) (string, error) {
		return run(ctx, c, "", "cat", "/tmp/file"), nil
	})
}

func waitExit(ctx context.Context) (string, error) {
	opts := []testcontainers.ContainerCustomizer{testcontainers.WithCmd("sh", "-c", "exit 7"), testcontainers.WithWaitStrategyAndDeadline(startup, wait.ForExit())}
	return with(ctx, opts, func(c *testcontainers.DockerContainer) (string, error) {
		state, err := c.State(ctx)
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("state: %s %d\n", state.Status, state.ExitCode), nil
	})
}

func waitHealth(ctx context.Context) (string, error) {
	opts := []testcontainers.ContainerCustomizer{
		testcontainers.WithCmd("sh", "-c", "touch /tmp/healthy; exec sleep 1000"),
		testcontainers.WithConfigModifier(healthy),
		testcontainers.WithWaitStrategyAndDeadline(startup, wait.ForHealthCheck()),
	}
	return with(ctx, opts, func(c *testcontainers.DockerContainer) (string, error) {
		state, err := c.State(ctx)
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("health: %s\n", state.Health.Status), nil
	})
}

// modes are those that tools set on the files that they copy in.
var modes = []int64{0o644, 0o600, 0o755, 0o700}

func files(ctx context.Context, before bool) (string, error) {
	content := []byte("#!/bin/sh\necho runs\n")
	opts := sleeper()
	if before {
		var given []testcontainers.ContainerFile
		for _, m := range modes {
			given = append(given, testcontainers.ContainerFile{Reader: bytes.NewReader(content), ContainerFilePath: fmt.Sprintf("/in/%o", m), FileMode: m})
		}
		opts = append(opts, testcontainers.WithFiles(given...))
	}
	return with(ctx, opts, func(c *testcontainers.DockerContainer) (string, error) {
		var b strings.Builder
		for _, m := range modes {
			path := fmt.Sprintf("/in/%o", m)
			if !before {
				if err := c.CopyToContainer(ctx, content, path, m); err != nil {
					return b.String(), err
				}
			}
			b.WriteString(run(ctx, c, "", "sh", "-c", "stat -c '%u %g %a' "+path))
			b.WriteString(run(ctx, c, "", "sh", "-c", "tail -n 1 "+path))
			b.WriteString(run(ctx, c, "", "sh", "-c", "echo '# more' >> "+path+" && tail -n 1 "+path))
			if m&0o100 != 0 {
				b.WriteString(run(ctx, c, "", path))
			}
		}
		return b.String(), nil
	})
}

func copyOut(ctx context.Context) (string, error) {
	return with(ctx, sleeper(), func(c *testcontainers.DockerContainer) (string, error) {
		out := run(ctx, c, "", "sh", "-c", "umask 077; echo made inside > /tmp/out")
		r, err := c.CopyFileFromContainer(ctx, "/tmp/out")
		if err != nil {
			return out, err
		}
		defer r.Close()
		text, err := io.ReadAll(r)
		return out + string(text), err
	})
}

func stopAndStart(ctx context.Context) (string, error) {
	return with(ctx, sleeper(), func(c *testcontainers.DockerContainer) (string, error) {
		if err := c.Stop(ctx, nil); err != nil {
			return "", err
		}
		state, err := c.State(ctx)
		if err != nil {
			return "", err
		}
		out := fmt.Sprintf("stopped: %s %d\n", state.Status, state.ExitCode)
		if err := c.Start(ctx); err != nil {
			return out, err
		}
		return out + run(ctx, c, "", "echo", "again"), nil
	})
}

// lines collects what a container prints.
type lines struct{ out chan string }

// Accept is called with each line.
func (l lines) Accept(e testcontainers.Log) { l.out <- string(e.Content) }

func consume(ctx context.Context) (string, error) {
	l := lines{make(chan string, 100)}
	return with(ctx, sleeper(testcontainers.WithLogConsumers(l)), func(*testcontainers.DockerContainer) (string, error) {
		select {
		case line := <-l.out:
			return fmt.Sprintf("a line: %t\n", strings.Contains("ready\nwarning\n", line)), nil
		case <-time.After(startup):
			return "", fmt.Errorf("no line came")
		}
	})
}

// server serves one file at port 8080.
func server(opts ...testcontainers.ContainerCustomizer) []testcontainers.ContainerCustomizer {
	return append([]testcontainers.ContainerCustomizer{
		testcontainers.WithCmd("sh", "-c", "mkdir -p /tmp/www; echo served > /tmp/www/index.html; exec httpd -f -p 8080 -h /tmp/www"),
		testcontainers.WithExposedPorts("8080/tcp"),
		testcontainers.WithWaitStrategyAndDeadline(startup, wait.ForListeningPort("8080/tcp"), wait.ForHTTP("/").WithPort("8080/tcp")),
	}, opts...)
}

func mappedPort(ctx context.Context) (string, error) {
	return with(ctx, server(), func(c *testcontainers.DockerContainer) (string, error) {
		url, err := c.PortEndpoint(ctx, "8080/tcp", "http")
		if err != nil {
			return "", err
		}
		r, err := http.Get(url)
		if err != nil {
			return "", err
		}
		defer r.Body.Close()
		text, err := io.ReadAll(r.Body)
		return fmt.Sprintf("%d %s", r.StatusCode, text), err
	})
}

func twoContainers(ctx context.Context) (out string, err error) {
	n, err := network.New(ctx)
	if err != nil {
		return "", err
	}
	defer func() {
		if rerr := n.Remove(ctx); err == nil {
			err = rerr
		}
	}()
	return with(ctx, server(network.WithNetwork([]string{"web"}, n)), func(*testcontainers.DockerContainer) (string, error) {
		return with(ctx, sleeper(network.WithNetwork(nil, n)), func(c *testcontainers.DockerContainer) (string, error) {
			return run(ctx, c, "", "wget", "-q", "-O", "-", "http://web:8080/"), nil
		})
	})
}

// healthy adds a health check to the container.
func healthy(c *container.Config) {
	c.Healthcheck = &container.HealthConfig{Test: []string{"CMD", "test", "-e", "/tmp/healthy"}, Interval: 100 * time.Millisecond, Retries: 100}
}
