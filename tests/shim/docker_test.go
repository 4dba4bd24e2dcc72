package shim

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"agentjail.dev/runtime/spec/policy"
	"agentjail.dev/tests/engine"
	"agentjail.dev/tests/env"
)

// shimDocker is a Docker that takes runtimes by their shims: the distribution's from Docker 24 on,
// else the newest.
func shimDocker(t *testing.T) engine.Edition {
	t.Helper()
	engine.NeedsRoot(t, "it runs jails")
	out, err := exec.Command("dockerd", "--version").Output()
	if err != nil {
		t.Skip("no dockerd:", err)
	}
	// Docker version 26.1.5+dfsg1, build a72d7cd
	major, _, _ := strings.Cut(strings.TrimPrefix(string(out), "Docker version "), ".")
	var edition engine.Edition
	if n, err := strconv.Atoi(major); err == nil && n < 24 {
		edition = engine.Editions["29"]
	}
	edition.Needs(t)
	return edition
}

// Docker runs jails by the shim: by its name (Docker 23) and as a runtime of its configuration, with a profile (Docker
// 24).
func TestDocker(t *testing.T) {
	edition := shimDocker(t)
	dir := env.Get(t, engine.Shim)
	small := engine.PolicyFile(t, "[limits]\nmemory = \"50MiB\"\n")
	e := engine.StartFor(t, engine.Options{
		Edition: &edition, Shims: []string{dir},
		Runtimes: map[string]engine.Runtime{
			"small": {Type: engine.ShimRuntime, Options: map[string]any{"TypeUrl": "agentjail", "ConfigPath": small}},
		},
	})
	d := e.For(t)
	for _, runtime := range []string{engine.ShimRuntime, "small"} {
		hardened(t, d.Must("run", "--rm", "--privileged", "--network", "none", "--runtime", runtime, engine.Busybox, "probe", "identity"))
		id := d.Detached("--network", "none", "--runtime", runtime, engine.Busybox, "sleep", "1000")
		hardened(t, d.Must("exec", "--privileged", id, "probe", "identity"))
		total := d.Must("exec", id, "grep", "MemTotal", "/proc/meminfo")
		if small := strings.HasSuffix(total, " 51200 kB"); small != (runtime == "small") {
			t.Errorf("%s: %s", runtime, total)
		}
		if r := d.Docker("exec", id, "sh", "-c", "exit 4"); r.Code != 4 {
			t.Error(r)
		}
		d.Must("update", "--memory", "40m", "--memory-swap", "40m", id)
		if total := d.Must("exec", id, "grep", "MemTotal", "/proc/meminfo"); !strings.HasSuffix(total, " 40960 kB") {
			t.Error(total)
		}
		d.Must("stats", "--no-stream", id)
		d.Must("pause", id)
		d.Must("unpause", id)
		d.Must("restart", "-t", "0", id)
		d.Must("kill", id)
		if code := d.Must("wait", id); code != "137" {
			t.Errorf("exit code %s", code)
		}
	}
}

// TestInstallDocker: registered with a Docker that takes shims, a jail is started by agentjail's shim, with the named
// policy of its name. What was made by path before goes on, and starts again; after the removal all of it can be ended.
func TestInstallDocker(t *testing.T) {
	edition := shimDocker(t)
	dir := env.Get(t, engine.Shim)
	if err := os.Symlink("agentjail", filepath.Join(dir, "agentjail-small")); err != nil && !os.IsExist(err) {
		t.Fatal(err)
	}
	hostPolicy(t, "[policies.small.limits]\nmemory = \"50MiB\"\n")
	e := engine.StartFor(t, engine.Options{Edition: &edition, LiveRestore: true})
	d := e.For(t)
	ctl := func(verb string, args ...string) string {
		t.Helper()
		where := []string{
			verb, "docker", "--name", "agentjail", "--name", "agentjail-small", "--path", filepath.Join(dir, "agentjail"),
			"--daemon-config", e.DaemonConfig(), "--pidfile", e.Pidfile(), "--socket", e.Socket(),
		}
		out, err := exec.Command(filepath.Join(dir, "agentjailctl"), append(where, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", verb, err, out)
		}
		return string(out)
	}
	run := func(runtime string) string {
		return d.Detached("--network", "none", "--runtime", runtime, engine.Busybox, "sleep", "1000")
	}
	ctl("install", "--by", "path")
	running, ended := run("agentjail"), run("agentjail-small")
	d.Must("stop", "-t", "0", ended)
	if byShim(t, d, running) {
		t.Error("registered by path, Docker calls the shim")
	}

	ctl("install")
	if text := ctl("install"); !strings.Contains(text, "nothing to change") {
		t.Errorf("a second time: %s", text)
	}
	d.Must("start", ended)
	for _, id := range []string{run("agentjail"), ended, run("agentjail-small")} {
		hardened(t, d.Must("exec", "--privileged", id, "probe", "identity"))
		if !byShim(t, d, id) {
			t.Errorf("%s is not started by the shim", id)
		}
	}
	hardened(t, d.Must("exec", "--privileged", running, "probe", "identity"))
	if total := d.Must("exec", ended, "grep", "MemTotal", "/proc/meminfo"); !strings.HasSuffix(total, " 51200 kB") {
		t.Errorf("by the policy's name: %s", total)
	}

	env.Check(t, e.StopDockerd())
	env.Check(t, e.StartDockerd())
	for _, id := range []string{running, ended} {
		hardened(t, d.Must("exec", "--privileged", id, "probe", "identity"))
	}
	ctl("uninstall")
	if r := d.Docker("run", "--rm", "--runtime", "agentjail-small", engine.Busybox, "true"); r.Code == 0 {
		t.Error("Docker still knows the runtime after its removal")
	}
	for _, id := range []string{running, ended} {
		hardened(t, d.Must("exec", "--privileged", id, "probe", "identity"))
		d.Must("rm", "-f", id)
	}
}

// byShim reports whether the parent of a container's first process is agentjail's shim.
func byShim(t *testing.T, d *engine.T, id string) bool {
	t.Helper()
	pid := d.Must("inspect", "--format", "{{.State.Pid}}", id)
	return filepath.Base(env.ProcLink(t, env.Status(t, pid, "PPid"), "exe")) == engine.ShimName
}

// hostPolicy is the host's policy file while the test runs: the suite has a directory of its own (hack/alone.sh).
func hostPolicy(t *testing.T, text string) {
	t.Helper()
	if _, err := os.Stat(policy.DefaultPath); err == nil {
		t.Skipf("%s is there, and this test writes its own", policy.DefaultPath)
	}
	env.Check(t, os.MkdirAll(filepath.Dir(policy.DefaultPath), 0o755))
	env.Check(t, os.WriteFile(policy.DefaultPath, []byte(text), 0o644))
	t.Cleanup(func() { os.Remove(policy.DefaultPath) })
}
