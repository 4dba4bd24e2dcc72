package e2e

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

func TestLogsFollow(t *testing.T) {
	d := d(t)
	id := startJail(d, engine.Busybox, "sh", "-c", "for i in $(seq 1 2000); do echo line $i; done; echo last >&2; exit 3")
	env.Eventually(d, "the first line", func() bool { return d.Must("logs", id) != "" })
	followed := d.Docker("logs", "-f", id) // ends with the container
	r := d.Docker("logs", id)
	env.Equal(t, "lines", strings.Count(r.Stdout, "\n"), 2000)
	env.Equal(t, "stderr", r.Stderr, "last\n")
	// Docker 20.10 ends now and then before the last lines: it takes the log's end and news of a line in any order
	// (followLogs of its loggerutils).
	if followed.Code != 0 || followed.Stdout == "" || !strings.HasPrefix(r.Stdout, followed.Stdout) {
		t.Errorf("not the log's beginning: %s", followed)
	}
	tail := d.Docker("logs", "--tail", "1", id) // of both streams together
	env.Equal(t, "lines of the tail", strings.Count(tail.Stdout+tail.Stderr, "\n"), 1)
}

func TestAttach(t *testing.T) {
	d := d(t)
	id := d.Created(jail, "-i", engine.Busybox, "cat")
	r := d.DockerIn(strings.NewReader("through and back\n"), "start", "-a", "-i", id)
	env.Equal(t, "stdout", r.Stdout, "through and back\n")
}

func TestStats(t *testing.T) {
	d := d(t)
	id := sleeper(d, "-m", "256m")
	fields := strings.Split(d.Must("stats", "--no-stream", "--format", "{{.ID}}|{{.MemUsage}}|{{.PIDs}}|{{.CPUPerc}}|{{.NetIO}}", id), "|")
	if len(fields) != 5 || strings.HasPrefix(fields[1], "0B") || !strings.Contains(fields[1], "256MiB") || fields[2] == "0" || fields[2] == "--" {
		t.Errorf("docker stats: %q", fields)
	}
}

func TestTop(t *testing.T) {
	d := d(t)
	id := sleeper(d)
	out := d.Must("top", id)
	env.Contain(t, "docker top", out, "sleep 3600")
	env.Contain(t, "docker top with options", d.Must("top", id, "-o", "pid,args"), "sleep 3600")
}

func TestPause(t *testing.T) {
	d := d(t)
	dir := directory(t, 1000)
	// A file and not the log, whose last lines may still be on their way through the engine.
	size := func() int64 {
		st, err := os.Stat(dir + "/ticks")
		if err != nil {
			return 0
		}
		return st.Size()
	}
	id := startJail(d, "-v", dir+":/w", engine.Busybox, "sh", "-c", "while :; do echo tick >> /w/ticks; sleep 0.01; done")
	env.Eventually(d, "the first tick", func() bool { return size() > 0 })
	d.Must("pause", id)
	env.Equal(t, "state", inspect(d, id, "{{.State.Status}} {{.State.Paused}}"), "paused true")
	before := size()
	if r := d.Docker("exec", id, "true"); r.Code == 0 {
		t.Errorf("exec into a paused container works: %s", r)
	}
	env.Equal(t, "ticks while paused", size(), before)
	d.Must("unpause", id)
	env.Eventually(d, "the container goes on", func() bool { return size() > before })
	env.Equal(t, "state", inspect(d, id, "{{.State.Status}}"), "running")
}

func TestStop(t *testing.T) {
	d := d(t)
	polite := startJail(d, engine.Busybox, "sh", "-c", "trap 'echo bye; exit 5' TERM; echo ready; while :; do sleep 0.05; done")
	env.Eventually(d, "ready", func() bool { return strings.Contains(d.Must("logs", polite), "ready") })
	d.Must("stop", polite)
	env.Equal(t, "polite", inspect(d, polite, "{{.State.ExitCode}}"), "5")
	env.Contain(t, "log", d.Must("logs", polite), "bye")

	deaf := startJail(d, engine.Busybox, "sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.05; done")
	env.Eventually(d, "ready", func() bool { return strings.Contains(d.Must("logs", deaf), "ready") })
	d.Must("stop", "-t", "1", deaf)
	env.Equal(t, "deaf", inspect(d, deaf, "{{.State.ExitCode}}"), "137")
}

func TestKillSignal(t *testing.T) {
	d := d(t)
	id := startJail(d, engine.Busybox, "sh", "-c", "trap 'echo got-usr1' USR1; echo ready; while :; do sleep 0.05; done")
	env.Eventually(d, "ready", func() bool { return strings.Contains(d.Must("logs", id), "ready") })
	d.Must("kill", "-s", "USR1", id)
	env.Eventually(d, "the trap", func() bool { return strings.Contains(d.Must("logs", id), "got-usr1") })
	env.Equal(t, "state", inspect(d, id, "{{.State.Running}}"), "true")
	d.Must("kill", id)
	env.Equal(t, "exit code", d.Must("wait", id), "137")
}

func TestRestart(t *testing.T) {
	d := d(t)
	dir := directory(t, 1000)
	id := startJail(d, "-v", dir+":/w", engine.Busybox, "sh", "-c", "echo started >> /w/log; trap 'exit 0' TERM; while :; do sleep 0.05; done")
	env.Eventually(d, "first start", func() bool { b, _ := os.ReadFile(dir + "/log"); return len(b) > 0 })
	first := inspect(d, id, "{{.State.Pid}}")
	d.Must("restart", id)
	env.Eventually(d, "second start", func() bool { return string(env.Read(t, dir+"/log")) == "started\nstarted\n" })
	if second := inspect(d, id, "{{.State.Pid}}"); second == first || second == "0" {
		t.Errorf("pid %s after %s", second, first)
	}
	d.Must("stop", id)
	d.Must("start", id)
	env.Eventually(d, "third start", func() bool { return string(env.Read(t, dir+"/log")) == "started\nstarted\nstarted\n" })
	env.Equal(t, "works", sh(d, id, "id -u"), "0")
}

func TestWait(t *testing.T) {
	d := d(t)
	id := startJail(d, engine.Busybox, "sh", "-c", "sleep 0.2; exit 17")
	env.Equal(t, "docker wait", d.Must("wait", id), "17")
}

func TestRename(t *testing.T) {
	d := d(t)
	id := sleeper(d, "--name", "e2e-old-name")
	d.Must("rename", "e2e-old-name", "e2e-new-name")
	env.Equal(t, "exec by the new name", d.Must("exec", "e2e-new-name", "echo", "yes"), "yes")
	_ = id
}

func TestInspect(t *testing.T) {
	d := d(t)
	id := sleeper(d, "-e", "A=B", "--label", "l=v", "-m", "100m")
	env.Equal(t, "fields", inspect(d, id, `{{.HostConfig.Runtime}} {{.State.Running}} {{index .Config.Labels "l"}} {{.HostConfig.Memory}} {{.Config.Image}}`),
		engine.Name+" true v 104857600 "+engine.Busybox)
	pid, err := strconv.Atoi(inspect(d, id, "{{.State.Pid}}"))
	if err != nil || pid <= 1 {
		t.Fatalf("pid %d: %v", pid, err)
	}
}

func TestHealthcheck(t *testing.T) {
	d := d(t)
	health := []string{"--health-interval", "200ms", "--health-retries", "2", "--health-timeout", "10s"}
	good := sleeper(d, append(health, "--health-cmd", "test -e /etc/passwd && id -u")...)
	bad := sleeper(d, append(health, "--health-cmd", "echo broken; exit 1")...)
	env.Eventually(d, "healthy", func() bool { return inspect(d, good, "{{.State.Health.Status}}") == "healthy" })
	env.Eventually(d, "unhealthy", func() bool { return inspect(d, bad, "{{.State.Health.Status}}") == "unhealthy" })
	env.Contain(t, "the check's output", inspect(d, bad, "{{range .State.Health.Log}}{{.Output}}{{end}}"), "broken")
}

func TestRestartPolicy(t *testing.T) {
	t.Run("on-failure", func(t *testing.T) {
		d := d(t)
		id := startJail(d, "--restart", "on-failure:2", engine.Busybox, "sh", "-c", "echo try; exit 3")
		env.Eventually(d, "the last try", func() bool {
			return inspect(d, id, "{{.RestartCount}} {{.State.Status}}") == "2 exited"
		})
		env.Equal(t, "exit code", inspect(d, id, "{{.State.ExitCode}}"), "3")
		env.Equal(t, "log", d.Must("logs", id), "try\ntry\ntry")
	})
	t.Run("always", func(t *testing.T) {
		d := d(t)
		id := startJail(d, "--restart", "always", engine.Busybox, "sh", "-c", "echo try; sleep 0.1")
		env.Eventually(d, "restarts", func() bool { n, _ := strconv.Atoi(inspect(d, id, "{{.RestartCount}}")); return n >= 2 })
		d.Must("stop", id)
		env.Equal(t, "state", inspect(d, id, "{{.State.Running}} {{.State.Restarting}}"), "false false")
	})
}

// TestLiveRestore: jails outlive a dockerd that stops or crashes, and are under its control again after.
func TestLiveRestore(t *testing.T) {
	t.Parallel()
	under := env.Get(t, engine.UnderTest)
	e := engine.StartFor(t, engine.Options{Runtimes: map[string]engine.Runtime{engine.Name: {Path: under}}, LiveRestore: true})
	d := e.For(t)
	id := sleeper(d)
	ends := startJail(d, engine.Busybox, "sh", "-c", "until [ -e /tmp/end ]; do sleep 0.05; done; exit 6")
	pid := inspect(d, id, "{{.State.Pid}}")
	for _, c := range []struct {
		name string
		down func() error
	}{{"stop", e.StopDockerd}, {"crash", e.KillDockerd}} {
		if err := c.down(); err != nil {
			t.Fatal(c.name, err)
		}
		if _, err := os.Stat("/proc/" + pid + "/ns"); err != nil {
			t.Fatalf("after dockerd's %s the jail is gone: %v", c.name, err)
		}
		if err := e.StartDockerd(); err != nil {
			t.Fatal(c.name, err)
		}
		env.Equal(t, "pid after "+c.name, inspect(d, id, "{{.State.Pid}}"), pid)
		env.Equal(t, "exec after "+c.name, sh(d, id, "id -u"), "0")
	}
	shEnds(d, ends, "touch /tmp/end")
	env.Equal(t, "exit code", d.Must("wait", ends), "6")
	d.Must("stop", "-t", "1", id)
	d.Must("start", id)
	env.Equal(t, "exec after a new start", sh(d, id, "id -u"), "0")
}
