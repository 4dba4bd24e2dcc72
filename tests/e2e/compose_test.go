package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"agentjail.dev/tests/contract/promise"
	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// composeFile has two services in jails: one with a directory and a volume, and one that comes after it.
const composeFile = `services:
  agent:
    image: %[1]s
    runtime: %[2]s
    command: sh -c "echo agent is here > /work/greeting; echo kept > /kept/file; echo agent is up; exec sleep 3600"
    stop_grace_period: 0s
    volumes:
      - ./work:/work
      - kept:/kept
  helper:
    image: %[1]s
    runtime: %[2]s
    command: sh -c "echo helper is up; exec sleep 3600"
    stop_grace_period: 0s
    depends_on: [agent]
    privileged: true
    volumes:
      - kept:/kept:ro
volumes:
  kept: {}
`

// TestCompose: a file with two services works as it is, with runtime: agentjail in it.
func TestCompose(t *testing.T) {
	d := d(t)
	dir := directory(t, 1000)
	env.Check(t, os.Mkdir(filepath.Join(dir, "work"), 0o755))
	env.Check(t, os.Lchown(filepath.Join(dir, "work"), 1000, 1000))
	env.Put(t, filepath.Join(dir, "docker-compose.yml"), fmt.Sprintf(composeFile, engine.Busybox, engine.Name), 0o644, 1000)
	project := fmt.Sprintf("compose%d", os.Getpid())
	compose := composeIn(t, d, dir, project)
	down := func() { compose("down", "-v", "-t", "0") }
	t.Cleanup(down)
	compose("up", "-d")
	env.Eventually(d, "what both write", func() bool {
		said, _ := os.ReadFile(filepath.Join(dir, "work", "greeting")) // not there at first
		logs := compose("logs", "--no-color")
		return string(said) == "agent is here\n" && strings.Contains(logs, "agent is up") && strings.Contains(logs, "helper is up")
	})
	who, _ := owner(t, filepath.Join(dir, "work", "greeting"))
	env.Equal(t, "owner of what the agent makes", who, "1000:1000")
	env.Equal(t, "the volume in the other service", compose("exec", "-T", "helper", "cat", "/kept/file"), "kept")
	for _, service := range []string{"agent", "helper"} {
		jailed(t, service, env.Decode[engine.Who](d, compose("exec", "-T", service, "probe", "identity")))
		id := compose("ps", "-q", service)
		sealed(t, service, probeIn[links](d, nil, id, "interfaces"))
	}
	compose("restart", "-t", "0", "helper")
	env.Equal(t, "after a restart", compose("exec", "-T", "helper", "echo", "here"), "here")
	down()
	for _, what := range []string{"ps -aq", "volume ls -q", "network ls -q"} {
		if left := d.Must(append(strings.Fields(what), "--filter", "label=com.docker.compose.project="+project)...); left != "" {
			t.Errorf("docker %s: %s is left", what, left)
		}
	}
}

// servedFile has a web server, a database and a cache as their images are, which meet in one network namespace. A jail
// with a volume is the one that others join: they could not where set-group-ID bits pass.
const servedFile = `services:
  web:
    image: %[1]s
    runtime: %[2]s
    command: [nginx, -g, daemon off;]
    network_mode: service:database
  database:
    image: %[1]s
    runtime: %[2]s
    command: entry-postgres
    volumes: ["database:/var/lib/postgresql/data"]
  cache:
    image: %[1]s
    runtime: %[2]s
    command: entry-redis7
    network_mode: service:database
    volumes: ["cache:/data"]
volumes:
  database: {}
  cache: {}
`

// TestComposeService: a project of services works over policy service as it does over runc: the web server reaches the others, each is its own
// user, and the next start, over the other runtime, finds what they wrote.
func TestComposeService(t *testing.T) {
	needAgentjail(t)
	if promise.Sandbox() != "" {
		t.Skip("a sandbox joins no namespaces")
	}
	buildEntryImage(t)
	d := d(t)
	dir := directory(t, 1000)
	compose := composeIn(t, d, dir, fmt.Sprintf("composeservice%d", os.Getpid()))
	t.Cleanup(func() { compose("down", "-v", "-t", "0") })
	const asks = `until curl -sf http://127.0.0.1/f && redis-cli ping && psql -h 127.0.0.1 -U postgres -Atc 'select 1'; do sleep 0.1; done >/dev/null 2>&1
psql -qh 127.0.0.1 -U postgres -Atc 'create table if not exists t(n int)' -c 'insert into t values(1)' -c 'select count(*) from t' 2>/dev/null
redis-cli incr n && redis-cli save`
	for i, runtime := range []string{"runc", engine.Name + "-service", "runc"} {
		env.Put(t, filepath.Join(dir, "docker-compose.yml"), fmt.Sprintf(servedFile, entryImage, runtime), 0o644, 1000)
		compose("up", "-d")
		env.Equal(t, runtime+": what the web server reaches", compose("exec", "-T", "web", "sh", "-c", asks), fmt.Sprintf("%d\n%d\nOK", i+1, i+1))
		for service, users := range map[string]string{"web": "root\nwww-data", "database": "postgres", "cache": "redis"} {
			const all = `for p in /proc/[0-9]*; do case $(cat $p/comm) in nginx|postgres|redis-server) stat -c %U $p; esac; done 2>/dev/null | sort -u`
			env.Equal(t, runtime+": users of "+service, compose("exec", "-T", service, "sh", "-c", all), users)
		}
		compose("stop", "-t", "20")
		for _, service := range []string{"database", "cache"} {
			env.Equal(t, runtime+": end of "+service, inspect(d, compose("ps", "-a", "-q", service), "{{.State.ExitCode}}"), "0")
		}
		compose("down", "-t", "0")
	}
}

// TestComposeView: by labels in the file a service writes into a view of its directory, and goes on in it when it is started again.
func TestComposeView(t *testing.T) {
	needAgentjail(t)
	engine.NeedsViews(t)
	d := d(t)
	err := promise.View(t, promise.Query, func(t testing.TB, dir string, command ...string) func() engine.Result {
		file := fmt.Sprintf("services:\n  agent:\n    image: %s\n    runtime: %s\n    network_mode: none\n    labels: [%q, %q]\n    command: [%q, %q, %q]\n    volumes: [%q]\n",
			engine.Busybox, engine.Name, promise.ViewAnnotations[0], promise.ViewAnnotations[1], command[0], command[1], command[2], dir+":/w")
		project := directory(t, 1000)
		env.Put(t, filepath.Join(project, "docker-compose.yml"), file, 0o644, 1000)
		compose := composeIn(t, d, project, fmt.Sprintf("composeview%d", os.Getpid()))
		t.Cleanup(func() { compose("down", "-t", "0") })
		return func() (r engine.Result) {
			compose("up", "-d")
			if code := d.Must("wait", compose("ps", "-a", "-q", "agent")); code != "0" {
				t.Errorf("the service ended with status %s", code)
			}
			return r
		}
	}, 2)
	if err != nil {
		t.Error(err)
	}
}

// composeIn returns what runs compose with the file of a directory.
func composeIn(t testing.TB, d *engine.T, dir, project string) func(args ...string) string {
	t.Helper()
	program := composeProgram(t, d)
	return func(args ...string) string {
		t.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), env.CommandWait)
		defer cancel()
		all := append(append([]string{}, program[1:]...), append([]string{"-p", project, "-f", filepath.Join(dir, "docker-compose.yml")}, args...)...)
		cmd := exec.CommandContext(ctx, program[0], all...)
		cmd.Env, cmd.Dir = d.Command(ctx).Env, dir
		var out, said bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &said
		if err := cmd.Run(); err != nil {
			t.Fatalf("%v: %v\n%s%s", args, err, out.String(), said.String())
		}
		return strings.TrimSpace(out.String())
	}
}

// composeProgram is docker-compose, or docker's plugin of that name.
func composeProgram(t testing.TB, d *engine.T) []string {
	t.Helper()
	if path, err := exec.LookPath("docker-compose"); err == nil {
		return []string{path}
	}
	if d.Docker("compose", "version").Code == 0 {
		return []string{d.Command(context.Background()).Path, "compose"}
	}
	t.Skip("neither docker-compose nor docker compose is on this machine (hack/deps.sh installs it)")
	return nil
}
